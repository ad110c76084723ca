"""The numbers of the live messages by their ids, in a table of 12 to 24 bytes a message: a dictionary takes 90.

Open addressing with linear probing (Knuth, volume 3, 6.4): an id's numbers lie from the place of its hash on, before
the first empty place. The ids themselves are in the rows, which are asked. Python's hash of bytes is keyed anew in each
process, so nobody can choose ids that share their places.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable

EMPTY, GONE = 0, (1 << 64) - 1
PLACES_MIN = 64


class IdIndex:
    """Numbers by id; `id_of` returns the id of a live number. Numbers begin with 1."""

    def __init__(self, id_of: Callable[[int], bytes]) -> None:
        self._id_of = id_of
        self._places = array("Q", bytes(8 * PLACES_MIN))
        self._used = self._live = 0

    def __repr__(self) -> str:
        return f"<index of {self._live} ids in {len(self._places)} places>"

    def numbers(self, own_id: bytes) -> list[int]:
        """Return the live numbers under this id."""
        places, mask = self._places, len(self._places) - 1
        at = hash(own_id) & mask
        found = []
        while number := places[at]:
            if number != GONE and self._id_of(number) == own_id:
                found.append(number)
            at = at + 1 & mask
        return found

    def add(self, own_id: bytes, number: int) -> None:
        """Add a number that its row holds already."""
        if 3 * self._used >= 2 * len(self._places):
            self._rebuild()
        self._put(own_id, number)
        self._used += 1
        self._live += 1

    def remove(self, own_id: bytes, number: int) -> None:
        """Remove a number that is in the index; its row may be gone."""
        places, mask = self._places, len(self._places) - 1
        at = hash(own_id) & mask
        while places[at] != number:
            assert places[at] != EMPTY, "the number is in the index"
            at = at + 1 & mask
        places[at] = GONE
        self._live -= 1

    def _put(self, own_id: bytes, number: int) -> None:
        places, mask = self._places, len(self._places) - 1
        at = hash(own_id) & mask
        while places[at] != EMPTY:
            at = at + 1 & mask
        places[at] = number

    def _rebuild(self) -> None:
        """Make the table anew without those that are gone, twice as large as what is live needs."""
        live = [number for number in self._places if number not in (EMPTY, GONE)]
        size = PLACES_MIN
        while 3 * len(live) >= size:
            size *= 2
        self._places, self._used = array("Q", bytes(8 * size)), len(live)
        for number in live:
            self._put(self._id_of(number), number)
