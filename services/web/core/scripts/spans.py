"""Spans of time as people write them: 90s, 10m, 2h, 7d."""

from __future__ import annotations

import re

from router.core.wire.text import clean

DIGITS_MAX = 12
"""Most digits of a number of seconds."""
_SPAN = re.compile(r"(\d{1,6})([smhd])\Z")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds_of(text: str) -> int:
    """Return a whole number of seconds. Raises `ValueError` with a sentence."""
    if not (text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX):
        raise ValueError(f'"{clean(text, 20)}" is no number of seconds; write it in digits, as 604800 for a week')
    return int(text)


def span_of(text: str) -> int:
    """Return the seconds of a span. Raises `ValueError` with a sentence."""
    found = _SPAN.match(text)
    if found is None:
        raise ValueError(f'"{text[:20]}" is no span of time; write 90s, 10m, 2h or 7d')
    return int(found[1]) * _SECONDS[found[2]]
