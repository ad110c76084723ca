"""The bytes that wait at each door for peers to read them: together they have a limit, which one's own share is not."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import trio

from router.service.door_entrance import WARN_AGAIN_S

DOOR_UNSENT_BYTES_MAX = 64 << 20
"""Bytes that wait for all peers of one door; beyond it the stream with most of them is closed."""


class UnsentBytes:
    """The bytes that wait, by door and stream. `warn` tells the operator of a door; `most`: how many may wait there."""

    def __init__(self, warn: Callable[[str, str], None], most: int = DOOR_UNSENT_BYTES_MAX) -> None:
        self._warn = warn
        self._most = most
        self._warned_s: dict[str, float] = {}
        self._doors: dict[str, dict[str, int]] = {}
        self._sums: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<{sum(self._sums.values())} bytes wait at {len(self._doors)} doors>"

    def change(self, door: str, name: str, by: int) -> None:
        """Count bytes that wait for a stream, or fewer if they were sent and it is counted still."""
        if by < 0 and name not in self._doors.get(door, {}):
            return
        here = self._doors.setdefault(door, {})
        here[name] = here.get(name, 0) + by
        self._sums[door] = self._sums.get(door, 0) + by
        if not here[name]:
            self.forget(door, name)

    def forget(self, door: str, name: str) -> None:
        """Count a stream no longer; do nothing if nothing waits for it."""
        if (here := self._doors.get(door)) is not None and name in here:
            self._sums[door] -= here.pop(name)
            if not here:
                del self._doors[door], self._sums[door]

    def first_to_go(self, door: str) -> str:
        """Return the stream for which most waits, and warn of it, if too much waits at the door; "" if it does not."""
        if self._sums.get(door, 0) <= self._most:
            return ""
        name, size = max(self._doors[door].items(), key=lambda found: found[1])
        now_s = trio.current_time()
        if now_s - self._warned_s.get(door, -inf) >= WARN_AGAIN_S:
            self._warned_s[door] = now_s
            said = f"keeps more than {self._most} bytes for those who do not read: the stream with most"
            self._warn(door, f"{said} ({size} bytes) is closed")
        return name
