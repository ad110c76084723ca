"""The units of settings, and the range and meaning of a number."""

from __future__ import annotations

from msgspec import Meta

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
HOUR_S, DAY_S = 3600, 86_400
COUNT_MAX = 10**12
BYTES_MAX = 1 << 50


def span(least: float, most: float, sentence: str) -> Meta:
    """Return the range of a number, and the description of its setting."""
    return Meta(ge=least, le=most, description=sentence)
