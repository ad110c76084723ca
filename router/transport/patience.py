"""Deadlines of another end, which leave out the time in which this process stood still.

After a stall (a process that was stopped, a machine that swapped), what the other end sent meanwhile lies unread, and
trio ends whatever is due before anybody reads it. So the deadlines here are put off by each stall, before trio looks at
them. While there are none, nothing is measured.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf

import trio

STALL_S = 0.25
"""For how long the loop must have done nothing but one round of its tasks, or slept beyond its time."""


class Patience:
    """A scope that ends `seconds` after it began, or was begun anew; inf: not by itself."""

    __slots__ = ("_began_s", "_stalls", "scope", "seconds")

    def __init__(self, seconds: float) -> None:
        self._stalls = _stalls.get(None) or _Stalls()
        _stalls.set(self._stalls)
        self.scope, self.seconds = trio.CancelScope(), seconds
        self.begin_anew(seconds)

    def __repr__(self) -> str:
        return f"<Patience of {self.seconds:g} s>"

    def shorten(self, seconds: float) -> None:
        """End so long after the beginning, if that is sooner."""
        self.seconds = min(self.seconds, seconds)
        self.scope.deadline = self._began_s + self.seconds

    def begin_anew(self, seconds: float) -> None:
        """End so long after now."""
        self._began_s, self.seconds = trio.current_time(), seconds
        self.scope.deadline = self._began_s + seconds
        if seconds < inf:
            self._stalls.add(self)
        else:
            self._stalls.remove(self)

    @property
    def spent_s(self) -> float:
        """The time since it began."""
        return trio.current_time() - self._began_s

    def end(self) -> None:
        """Measure stalls no longer for this."""
        self._stalls.remove(self)

    def put_off(self, stall_s: float) -> None:
        """Leave out a stall."""
        self._began_s += stall_s
        self.scope.deadline = self._began_s + self.seconds


@contextmanager
def patient(seconds: float) -> Iterator[Patience]:
    """Cancel the block after so many seconds in which the loop ran; `scope.cancelled_caught` says whether that was."""
    patience = Patience(seconds)
    try:
        with patience.scope:
            yield patience
    finally:
        patience.end()


class _Stalls(trio.abc.Instrument):
    """Measures how long the loop does not come round, and puts off deadlines by it."""

    def __init__(self) -> None:
        self._open = set[Patience]()
        self._due_s = inf  # when the loop is to come round next

    def add(self, patience: Patience) -> None:
        if not self._open:
            self._due_s = time.perf_counter()
            trio.lowlevel.add_instrument(self)
        self._open.add(patience)

    def remove(self, patience: Patience) -> None:
        if patience in self._open:
            self._open.remove(patience)
            if not self._open:
                trio.lowlevel.remove_instrument(self)

    def before_io_wait(self, timeout: float) -> None:
        self._come_round(timeout)

    def after_io_wait(self, timeout: float) -> None:
        self._come_round(0)

    def _come_round(self, next_s: float) -> None:
        now_s = time.perf_counter()
        if (stall_s := now_s - self._due_s) > STALL_S:
            for one in self._open:
                one.put_off(stall_s)
        self._due_s = now_s + next_s


_stalls = trio.lowlevel.RunVar[_Stalls | None]("stalls", None)
