"""How far apart cycles are that deal with other nodes alone: the more messages come, the more of them each deals with.

A cycle costs as much as several messages, and so does what it writes to each peer. But a request and its answer wait
for a cycle each, and a body that is late is asked of another node as well, so it comes twice: while answers take long,
cycles are not so far apart.
"""

from __future__ import annotations

from math import exp, inf

from .fetching import LATE_S

LEAST_S, MOST_S = 0.025, 0.08
"""The shortest and the longest distance."""
EACH_S = 0.01
"""By how much each message of the last second adds to it."""
FADES_S = 1.0
"""Seconds in which a message's part of that fades to a third."""
SLOW_S = 0.75 * LATE_S
"""Seconds for an answer with bodies from which they count as slow, since it was nearly late: on a busy machine one in
ten takes half of `LATE_S`."""
SLOW_MOST_S = 0.05
"""The longest distance while they are."""
SLOW_FOR_S = 5.0
"""For how long one slow answer counts."""


class RelayPace:
    """The distance between cycles, by the messages that were taken of late, and by how long answers took."""

    def __init__(self) -> None:
        self._messages = 0.0  # taken of late, as of `_at_s`
        self._at_s = 0.0
        self._slow_until_s = -inf

    def __repr__(self) -> str:
        return f"<RelayPace of {self._messages:.1f} messages>"

    def took(self, now_s: float) -> None:
        """Count a message that was taken."""
        self._messages, self._at_s = self._of_late(now_s) + 1, now_s

    def answered(self, after_s: float, now_s: float) -> None:
        """Record how long another node took to answer a request for bodies."""
        if after_s >= SLOW_S:
            self._slow_until_s = now_s + SLOW_FOR_S

    def distance_s(self, now_s: float) -> float:
        """Return how far apart cycles are to be now."""
        most_s = SLOW_MOST_S if now_s < self._slow_until_s else MOST_S
        return min(most_s, LEAST_S + EACH_S * self._of_late(now_s))

    def _of_late(self, now_s: float) -> float:
        return self._messages * exp((self._at_s - now_s) / FADES_S)
