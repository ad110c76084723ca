"""Spans of time as people write them: 90s, 10m, 2h, 7d."""

from __future__ import annotations

import re

_SPAN = re.compile(r"(\d{1,6})([smhd])\Z")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def span_of(text: str) -> int:
    """Return the seconds of a span. Raises `ValueError` with a sentence."""
    found = _SPAN.match(text)
    if found is None:
        raise ValueError(f'"{text[:20]}" is no span of time; write 90s, 10m, 2h or 7d')
    return int(found[1]) * _SECONDS[found[2]]
