"""The numbers of the live messages by their ids, in a table of 12 to 24 bytes a message: a dictionary takes 90.

Open addressing with linear probing (Knuth, volume 3, 6.4): an id's numbers lie from the place of its hash on, before
the first empty place. The ids themselves are in the rows, which are asked only if the hash's upper bits, which stand
beside the number, are right. Python's hash of bytes is keyed anew in each process, so nobody can choose ids that share
their places.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable

NUMBERS, HASHES = (1 << 40) - 1, (1 << 64) - (1 << 40)
"""The bits of a place that hold a number, and those of its id's hash."""
EMPTY, GONE = 0, HASHES
PLACES_MIN = 64


class IdIndex:
    """Numbers by id; `id_of` returns the id of a live number. Numbers begin with 1 and have 40 bits."""

    def __init__(self, id_of: Callable[[int], bytes]) -> None:
        self._id_of = id_of
        self._places = array("Q", bytes(8 * PLACES_MIN))
        self._used = self._live = 0

    def __repr__(self) -> str:
        return f"<index of {self._live} ids in {len(self._places)} places>"

    def numbers(self, own_id: bytes) -> list[int]:
        """Return the live numbers under this id."""
        places, mask, hashed = self._places, len(self._places) - 1, hash(own_id)
        at, upper = hashed & mask, hashed & HASHES
        found = []
        while place := places[at]:
            if place & HASHES == upper and place != GONE and self._id_of(place & NUMBERS) == own_id:
                found.append(place & NUMBERS)
            at = at + 1 & mask
        return found

    def latest(self, own_id: bytes) -> int | None:
        """Return the highest live number under this id; None if there is none."""
        places = self._places
        mask, hashed = len(places) - 1, hash(own_id)
        at, found = hashed & mask, None
        while place := places[at]:
            if (place ^ hashed) & HASHES == 0 and place != GONE and self._id_of(place & NUMBERS) == own_id:
                found = max(found or 0, place & NUMBERS)
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
        places, mask, hashed = self._places, len(self._places) - 1, hash(own_id)
        at, sought = hashed & mask, hashed & HASHES | number
        while places[at] != sought:
            assert places[at] != EMPTY, "the number is in the index"
            at = at + 1 & mask
        places[at] = GONE
        self._live -= 1

    def _put(self, own_id: bytes, number: int) -> None:
        places, mask, hashed = self._places, len(self._places) - 1, hash(own_id)
        at = hashed & mask
        while places[at] != EMPTY:
            at = at + 1 & mask
        places[at] = hashed & HASHES | number

    def _rebuild(self) -> None:
        """Make the table anew without those that are gone, twice as large as what is live needs."""
        live = [number for place in self._places if (number := place & NUMBERS)]
        size = PLACES_MIN
        while 3 * len(live) >= size:
            size *= 2
        self._places, self._used = array("Q", bytes(8 * size)), len(live)
        for number in live:
            self._put(self._id_of(number), number)
