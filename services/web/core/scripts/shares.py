"""The share of each token in what all tokens take: one may have as much as is left, so nobody takes it all."""

from __future__ import annotations


def has_share(own: int, taken: int, most: int, wanted: int = 1) -> bool:
    """Whether a token that has `own` may take `wanted` more, of `most` of which all tokens have `taken`.

    One alone may take half; n of them that take all they may leave the n+1st part to others."""
    return own + wanted <= most - taken
