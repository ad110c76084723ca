"""The time at which a host wakes its rules: a later `Wake` replaces an earlier one."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf

import trio

LATE_S, TURNS = 0.01, 12
"""How late an alarm shows that the loop was held up, and how many turns of the loop it gives then to what came
meanwhile: over TLS bytes pass through a task and another socket before a service hears them."""


class Alarm:
    """Calls `ring` at the Unix second that was set last, once; setting it again costs no task. One that is
    late lets the streams be read before, so that rules do not end a client whose bytes wait unread."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._at_s = self._due_s = inf  # Unix second, and trio's
        self._scope = trio.CancelScope()

    def __repr__(self) -> str:
        return f"<alarm at Unix second {self._at_s:.3f}>"

    def set(self, at_s: float) -> None:
        """Ring at this Unix second instead of the one that was set before."""
        if at_s != self._at_s:
            self._at_s = at_s
            self._due_s = self._scope.deadline = trio.current_time() + max(0.0, at_s - time.time())

    async def run(self) -> None:
        """Wait for each time that is set, and ring, until cancelled."""
        while True:
            with trio.CancelScope(deadline=self._due_s) as self._scope:
                await trio.sleep_forever()
            for _ in range(TURNS if trio.current_time() > self._due_s + LATE_S else 0):
                await trio.lowlevel.checkpoint()
            if self._due_s <= trio.current_time():  # else it was set anew just now
                self._at_s = self._due_s = inf
                self._ring()
