"""The order in which a node took the messages whose ids it lists: ranks that accompany a frame of negentropy (R-C35).

    ranks = b""                              nothing is said of the order
          | width(1), base(4), difference(width)*

There is one difference for each listed id, in the order of the list; its rank is the base and the difference.
"""

from __future__ import annotations

from collections.abc import Sequence

from services.pubsub.core.comparison.id_set import ID_BYTES, RANK_BYTES, RANK_MAX

LISTING_BYTES_MAX = 52_000
"""Most bytes of a frame that lists ids with their ranks, so that both fit a message."""
ORDER_BYTES_MAX = 1 + RANK_BYTES + LISTING_BYTES_MAX // ID_BYTES * RANK_BYTES


def write_ranks(ranks: Sequence[int]) -> bytes:
    """Return ranks in as few bytes as their range needs."""
    if not ranks:
        return b""
    base = min(ranks)
    width = max(1, ((max(ranks) - base).bit_length() + 7) // 8)
    differences = b"".join([(rank - base).to_bytes(width, "big") for rank in ranks])
    return bytes((width,)) + base.to_bytes(RANK_BYTES, "big") + differences


def read_ranks(order: bytes) -> list[int]:
    """Return the ranks that another node wrote; raise ValueError if they are malformed."""
    if not order:
        return []
    width, base, listed = order[0], int.from_bytes(order[1 : 1 + RANK_BYTES], "big"), order[1 + RANK_BYTES :]
    if not 1 <= width <= RANK_BYTES or not listed or len(listed) % width:
        raise ValueError(f"an order of {len(order)} bytes, {width} for each message")
    ranks = [base + int.from_bytes(listed[at : at + width], "big") for at in range(0, len(listed), width)]
    if max(ranks) > RANK_MAX:
        raise ValueError(f"a place of {max(ranks)} in the order of arrival; at most {RANK_MAX}")
    return ranks
