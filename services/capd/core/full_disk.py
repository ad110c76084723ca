"""What becomes of deeds while the disk has no room: what is to be kept waits, what is to be sent is sent without.

A pool whose disk is nearly full takes nothing, and answers what is asked: reading needs no disk. What still changes, as
messages that expire, waits here in order and is kept when there is room. It is lost with the process, and then happens
again by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from router.service import contract as c

NOTES_MAX = 10_000
"""So many events wait; those beyond are left out."""
SAID = (
    "its disk is nearly full: it answers what is asked, and takes no message, standing query or secret until there is "
    "room; free some space, or move the home"
)
ROOM_AGAIN = "there is room again on its disk, and it takes messages"


class FullDisk:
    """Looks at the disk of a pool's state, and holds back what has no room there."""

    def __init__(self, kept: Mapping[bytes, bytes]) -> None:
        self._kept = kept
        self._waiting: list[c.Deed] = []
        self._notes = 0
        self.is_full = False

    def __repr__(self) -> str:
        return f"<FullDisk: {self.is_full}, {len(self._waiting)} deeds wait>"

    def look(self) -> Iterator[c.Deed]:
        """Look whether there is room; yield what follows if that has changed."""
        was_full, self.is_full = self.is_full, not c.has_room(self._kept)
        if self.is_full and not was_full:
            yield c.Warn(SAID)
        elif was_full and not self.is_full:
            waiting, self._waiting, self._notes = self._waiting, [], 0
            yield from waiting
            yield c.Warn(ROOM_AGAIN)

    def fit(self, deeds: Iterable[c.Deed]) -> list[c.Deed]:
        """Return the deeds that are to be carried out now."""
        if not self.is_full:
            return list(deeds)
        return list(self._fitting(deeds))

    def _fitting(self, deeds: Iterable[c.Deed]) -> Iterator[c.Deed]:
        for deed in deeds:
            if isinstance(deed, c.Send):
                yield replace(deed, kept=False)
            elif isinstance(deed, c.Note) and self._notes >= NOTES_MAX:
                continue
            elif isinstance(deed, c.Keep | c.Note):
                self._notes += isinstance(deed, c.Note)
                self._waiting.append(deed)
            else:
                yield deed
