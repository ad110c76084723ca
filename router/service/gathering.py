"""How long a cycle waits for the rest of what comes at once: a transaction costs as much for one event as for many."""

from __future__ import annotations

from collections.abc import Callable

import trio

from router.service import clock
from router.service.contract import Heard, Now
from router.service.doors import Doors

MANY = 64
"""Number of events with which a cycle begins at once."""
GATHER_S = 0.001
"""How long after a cycle the next one waits at most for as many events as that one dealt with."""


def no_delay_s(now: Now) -> float:
    """Return the delay of rules that have no `batch_delay_s`: none."""
    return 0.0


def never_urgent(heard: Heard, now: Now) -> bool:
    """Return what rules say that have no `is_urgent`: each event waits for `batch_delay_s`."""
    return False


class Gathering:
    """Counts the events that wait for a cycle, and remembers how many the last one dealt with, and when it ended.
    `delay_s`, `is_urgent`: `batch_delay_s` and `is_urgent` of the rules; `doors`: those of which the
    patient ones are read when a cycle is due."""

    def __init__(
        self,
        delay_s: Callable[[Now], float] = no_delay_s,
        is_urgent: Callable[[Heard, Now], bool] = never_urgent,
        doors: Doors | None = None,
    ) -> None:
        self._doors = doors
        self._delay_s = delay_s
        self._is_urgent = is_urgent
        self._usual = 0
        self._ended_s = 0.0
        self._waiting = self._awaited = 0
        self._has_urgent = False
        self._enough = trio.Event()

    def __repr__(self) -> str:
        return f"<gathering of {self._usual} events>"

    def came(self, heard: Heard, waiting: int) -> None:
        """Record an event, and how many wait with it; 1: the last cycle has taken all that came before."""
        had_urgent = self._has_urgent and waiting > 1
        self._has_urgent = had_urgent or self._is_urgent(heard, clock.now())
        self._waiting = waiting
        if waiting == self._awaited or (self._has_urgent and not had_urgent):
            self._enough.set()

    async def until_enough(self, waiting: int) -> None:
        """Wait until there are many events or an urgent one, if the last cycle has ended within the rules' delay; then
        until there are as many as that cycle dealt with, if it has ended just before."""
        self._waiting = waiting
        if not self._has_urgent and (delay_s := self._delay_s(clock.now())):
            await self._until(MANY, max(GATHER_S, delay_s))
        await self._until(self._usual, GATHER_S)
        if self._doors is not None:
            self._doors.read_patient()

    async def _until(self, enough: int, after_s: float) -> None:
        """Wait for so many events, or for the first urgent one, at most until a time after the last cycle."""
        left_s = self._ended_s + after_s - trio.current_time()
        if left_s <= 0 or self._waiting >= enough:
            return
        self._awaited, self._enough = enough, trio.Event()
        with trio.move_on_after(left_s):
            await self._enough.wait()
        self._awaited = 0

    def ended(self, events: int) -> None:
        """Record that a cycle of so many events has ended."""
        self._usual, self._ended_s = events, trio.current_time()
        if self._doors is not None:
            self._doors.hold(lambda: self._delay_s(clock.now()))
