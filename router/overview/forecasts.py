"""How queues change, and when each will be full or empty if it goes on so."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import inf

from msgspec import Struct

from router.core.wire.text import counted

from .facts import WaitingRow

RATE_S = 60.0
"""Seconds over which a queue's change is measured."""
LEAST_S = 4.0
"""Seconds that samples must lie apart to say anything."""
FOLLOWED_MAX = 256
"""Most queues that are followed: the longest."""
AHEAD_S_MAX = 7 * 86_400
"""Seconds ahead beyond which nothing is foretold."""

Sample = tuple[float, int, int]
"""Seconds, messages, bytes."""


class Forecast(Struct, frozen=True):
    """How a queue changes. `per_s`: messages a second; `full_s`, `empty_s`: seconds until then, None: not in sight."""

    per_s: float = 0.0
    full_s: float | None = None
    empty_s: float | None = None


class Forecasts:
    """The lately seen depths of the longest queues, by recipient."""

    def __init__(self) -> None:
        self._samples: dict[str, deque[Sample]] = {}

    def __repr__(self) -> str:
        return f"<{counted(len(self._samples), 'queue')} followed>"

    def add(self, queues: Sequence[WaitingRow], mono_s: float) -> None:
        """Remember the depth of these queues; others are empty."""
        longest = sorted(queues, key=lambda one: -one.share)[:FOLLOWED_MAX]
        followed: dict[str, deque[Sample]] = {}
        for one in longest:
            samples = self._samples.get(one.recipient, deque())
            while len(samples) > 1 and samples[1][0] <= mono_s - RATE_S:
                samples.popleft()
            samples.append((mono_s, one.messages, one.bytes))
            followed[one.recipient] = samples
        self._samples = followed

    def of(self, queue: WaitingRow) -> Forecast:
        """Return when a queue will be full or empty."""
        samples = self._samples.get(queue.recipient)
        if not samples:
            return Forecast()
        last = samples[-1]
        first = _turn(samples)
        span_s = last[0] - first[0]
        if span_s < LEAST_S:
            return Forecast()
        per_s, bytes_per_s = (last[1] - first[1]) / span_s, (last[2] - first[2]) / span_s
        if per_s < 0:
            empty_s = queue.messages / -per_s
            return Forecast(per_s, empty_s=empty_s if empty_s <= AHEAD_S_MAX else None)
        full_s = min(
            _until(queue.limit_messages - queue.messages, per_s), _until(queue.limit_bytes - queue.bytes, bytes_per_s)
        )
        return Forecast(per_s, full_s=full_s if full_s <= AHEAD_S_MAX else None)


def _turn(samples: Sequence[Sample]) -> Sample:
    """Return the sample from which the queue has gone one way: a queue that drains now has perhaps just been growing.

    A small step in the other direction is none."""
    first, way, small = samples[-1], 0, max(2, samples[-1][1] // 20)
    for one in reversed(samples):
        change = first[1] - one[1]
        if way and abs(change) > small and (change > 0) != (way > 0):
            break
        way = way or change
        first = one
    return first


def _until(room: int, per_s: float) -> float:
    return max(room, 0) / per_s if per_s > 0 else inf
