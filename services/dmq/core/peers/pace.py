"""How far apart cycles are that deal with other nodes alone: the more messages come, the more of them each deals with.

A cycle costs as much as several messages, and so does what it writes to each peer.
"""

from __future__ import annotations

from math import exp

LEAST_S, MOST_S = 0.025, 0.05
"""The shortest and the longest distance."""
EACH_S = 0.01
"""By how much each message of the last second adds to it."""
FADES_S = 1.0
"""Seconds in which a message's part of that fades to a third."""


class RelayPace:
    """The distance between cycles, by the messages that were taken of late."""

    def __init__(self) -> None:
        self._messages = 0.0  # taken of late, as of `_at_s`
        self._at_s = 0.0

    def __repr__(self) -> str:
        return f"<RelayPace of {self._messages:.1f} messages>"

    def took(self, now_s: float) -> None:
        """Count a message that was taken."""
        self._messages, self._at_s = self._of_late(now_s) + 1, now_s

    def distance_s(self, now_s: float) -> float:
        """Return how far apart cycles are to be now."""
        return min(MOST_S, LEAST_S + EACH_S * self._of_late(now_s))

    def _of_late(self, now_s: float) -> float:
        return self._messages * exp((self._at_s - now_s) / FADES_S)
