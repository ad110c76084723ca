"""The bytes that the node has read and not settled, on all links; reading waits while there are too many."""

from __future__ import annotations

import trio


class InFlight:
    """Counts the bytes that the node has read and not settled. Readers wait while `bytes_max` is taken; those of
    strangers also while all strangers together take `strangers_bytes_max`."""

    def __init__(self, bytes_max: int, strangers_bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.strangers_bytes_max = strangers_bytes_max
        self.bytes = 0
        self.strangers_bytes = 0
        self._strangers: dict[int, int] = {}  # link: bytes
        self._lot = trio.lowlevel.ParkingLot()

    async def take(self, link: int, size: int, *, is_stranger: bool = False) -> None:
        while not self.has_room(size, is_stranger):
            await self._lot.park()
        self.add(link, size, is_stranger)

    def add(self, link: int, size: int, is_stranger: bool) -> None:
        """Count bytes that were read, for which there is room."""
        self.bytes += size
        if is_stranger:
            self.strangers_bytes += size
            self._strangers[link] = self._strangers.get(link, 0) + size

    def has_room(self, size: int, is_stranger: bool) -> bool:
        """Whether `size` bytes may be added; always true if nothing else is counted."""
        if is_stranger and self.strangers_bytes and self.strangers_bytes + size > self.strangers_bytes_max:
            return False
        return not self.bytes or self.bytes + size <= self.bytes_max

    def give_back(self, link: int, size: int) -> None:
        self.bytes -= size
        if link in self._strangers:
            self.strangers_bytes -= size
            self._strangers[link] -= size
            if not self._strangers[link]:
                del self._strangers[link]
        self._lot.unpark_all()
