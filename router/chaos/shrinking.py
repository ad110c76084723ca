"""Find few faults of a schedule that fail as the whole does: halves, then quarters, and what is left without each
(delta debugging, Zeller and Hildebrandt 2002)."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import pairwise

from router.chaos.schedule import Schedule

Shrinking = Generator[Schedule, bool, Schedule]
"""Yields schedules to be tried, is sent whether each failed, and returns the smallest that did."""


def shrinking(whole: Schedule) -> Shrinking:
    """Shrink a schedule that failed. The empty schedule is tried first: if it fails too, no fault is to blame."""
    if not whole or (yield ()):
        return ()
    current, parts = whole, 2
    while len(current) > 1:
        for smaller in _smaller(current, parts):
            if (yield smaller):
                parts = 2 if 2 * len(smaller) <= len(current) else max(parts - 1, 2)
                current = smaller
                break
        else:
            if parts >= len(current):
                break
            parts = min(2 * parts, len(current))
    return current


def _smaller(current: Schedule, parts: int) -> Iterator[Schedule]:
    """Yield each part, then the schedule without each part, which of two parts is the other."""
    bounds = [len(current) * at // parts for at in range(parts + 1)]
    pieces = [(start, stop) for start, stop in pairwise(bounds) if start < stop]
    yield from (current[start:stop] for start, stop in pieces)
    if len(pieces) > 2:
        yield from (current[:start] + current[stop:] for start, stop in pieces)
