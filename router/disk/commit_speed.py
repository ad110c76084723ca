"""How long commits have taken lately, and so where the next one is made: in the loop, or in a thread (pure).

Handing a commit to a thread and being woken after it costs as much CPU time as a small commit itself, and delays what
waits for the commit. While all commits together would hold up the loop for a small share of the time only, small ones
are made in the loop."""

from __future__ import annotations

from math import inf

QUICK_S = 0.02
"""Mean seconds of commits from which each is made in a thread, however few there are."""
HELD_UP_MAX = 0.2
"""Share of the time that commits take from which they are made in a thread, so that other work goes on beside them."""
LATEST = 1 / 32
"""Share of the latest commit in both means."""
PAUSE_S_MAX = 0.25
"""Most seconds between two commits that count: a long silence says nothing about the next burst."""


class CommitSpeed:
    """The mean seconds of commits, and from the end of one to the end of the next. Nothing is quick before dozens of
    commits were, nor for dozens of commits after one that took seconds."""

    __slots__ = ("_apart_s", "_ended_s", "_mean_s")

    def __init__(self) -> None:
        self._mean_s, self._apart_s, self._ended_s = 2 * QUICK_S, 0.0, inf

    def __repr__(self) -> str:
        return f"<commits of {1e3 * self._mean_s:.2f} ms, {1e3 * self._apart_s:.2f} ms apart>"

    @property
    def is_quick(self) -> bool:
        """Whether the loop can wait for a small commit."""
        return self._mean_s < QUICK_S and self._mean_s < HELD_UP_MAX * self._apart_s

    def observe(self, began_s: float, ended_s: float) -> None:
        """Take a commit: the seconds on any clock at which it began and ended."""
        apart_s = min(max(0.0, ended_s - self._ended_s), PAUSE_S_MAX)
        self._mean_s += LATEST * (ended_s - began_s - self._mean_s)
        self._apart_s += LATEST * (apart_s - self._apart_s)
        self._ended_s = ended_s
