"""A signal from one part of an app's end to a task of another; neither of the two knows the other."""

from __future__ import annotations

import trio


class Bell:
    """Wakes one waiting task. A ring that nobody waits for is kept for the next `wait`; several rings count as one."""

    def __init__(self) -> None:
        self._rung = trio.Event()

    def __repr__(self) -> str:
        return f"<bell, {'rung' if self._rung.is_set() else 'silent'}>"

    def ring(self) -> None:
        self._rung.set()

    async def wait(self) -> None:
        """Return once the bell has been rung since the last `wait`."""
        await self._rung.wait()
        self._rung = trio.Event()
