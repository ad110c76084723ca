"""How long a cycle waits for the rest of what comes at once: a transaction costs as much for one event as for many."""

from __future__ import annotations

import trio

MANY = 64
"""Number of events with which a cycle begins at once."""
GATHER_S = 0.001
"""How long after a cycle the next one waits at most for as many events as that one dealt with."""


class Gathering:
    """Counts the events that wait for a cycle, and remembers how many the last one dealt with, and when it ended."""

    def __init__(self) -> None:
        self._usual = 0
        self._ended_s = 0.0
        self._awaited = 0
        self._enough = trio.Event()

    def __repr__(self) -> str:
        return f"<gathering of {self._usual} events>"

    def came(self, waiting: int) -> None:
        """Hear that so many events wait now."""
        if waiting == self._awaited:
            self._enough.set()

    async def until_enough(self, waiting: int, batch_delay_s: float = 0.0) -> None:
        """Wait until as many events wait as the last cycle dealt with, if it has ended just before; or if it has ended
        less than `batch_delay_s` ago, until there are many."""
        left_s = self._ended_s + max(GATHER_S, batch_delay_s) - trio.current_time()
        enough = MANY if batch_delay_s else self._usual
        if left_s <= 0 or waiting >= enough:
            return
        self._awaited, self._enough = enough, trio.Event()
        with trio.move_on_after(left_s):
            await self._enough.wait()
        self._awaited = 0

    def ended(self, events: int) -> None:
        """Hear that a cycle of so many events has ended."""
        self._usual, self._ended_s = events, trio.current_time()
