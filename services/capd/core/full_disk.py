"""Deeds while the disk has no room: those that write to the state wait, and messages are sent without being kept.

A pool whose disk is nearly full accepts nothing new, but answers requests: reading needs no room. Changes that still
happen, such as expirations, wait here in order, and are kept when there is room again. If the process ends before that,
they are lost, and happen again after the restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from router.service import contract as c

NOTES_MAX = 10_000
"""Most log events that wait; further ones are dropped."""
SAID = (
    "its disk is nearly full: it answers what is asked, and takes no message, standing query or secret until there is "
    "room; free some space, or move the home"
)
ROOM_AGAIN = "there is room again on its disk, and it takes messages"


class FullDisk:
    """Watches the free space for a pool's state, and holds back the deeds that have no room there."""

    def __init__(self, kept: Mapping[bytes, bytes]) -> None:
        self._kept = kept
        self._waiting: list[c.Deed] = []
        self._notes = 0
        self.is_full = False

    def __repr__(self) -> str:
        return f"<FullDisk: {self.is_full}, {len(self._waiting)} deeds wait>"

    def look(self) -> Iterator[c.Deed]:
        """Check whether there is room; if that has changed, yield a warning, and the deeds that were held back if there
        is room again."""
        was_full, self.is_full = self.is_full, not c.has_room(self._kept)
        if self.is_full and not was_full:
            yield c.Warn(SAID)
        elif was_full and not self.is_full:
            waiting, self._waiting, self._notes = self._waiting, [], 0
            yield from waiting
            yield c.Warn(ROOM_AGAIN)

    def fit(self, deeds: Iterable[c.Deed]) -> list[c.Deed]:
        """Return the deeds to carry out now, and hold back the others."""
        if not self.is_full:
            return list(deeds)
        return list(self._fitting(deeds))

    def _fitting(self, deeds: Iterable[c.Deed]) -> Iterator[c.Deed]:
        for deed in deeds:
            if isinstance(deed, c.Send):
                yield replace(deed, kept=False)
            elif isinstance(deed, c.LogEvent) and self._notes >= NOTES_MAX:
                continue
            elif isinstance(deed, c.Put | c.LogEvent):
                self._notes += isinstance(deed, c.LogEvent)
                self._waiting.append(deed)
            else:
                yield deed
