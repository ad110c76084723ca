"""Ids that are not at their places in the duplicate index yet, packed in memory by their first byte."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from struct import Struct

from router.core.routing.duplicate_index import HOLDER_BYTES
from router.core.wire.crypto import ID_BYTES
from router.disk.store.rows import NUMBER, WORD

FLOORS = 256
KEY_BYTES = WORD.size + ID_BYTES
_VALUE_BYTES_MAX = NUMBER.size + HOLDER_BYTES
_VALUE = Struct(f"B{_VALUE_BYTES_MAX}s")  # length of the value, and the value
ROW_BYTES = KEY_BYTES + _VALUE.size
_MINUTES = Struct(f"{WORD.size}s{ROW_BYTES - WORD.size}x")
Row = tuple[bytes, bytes]
"""Expiry minute and id, joined; arrival number and holder, if one is named, joined."""


class LateIds:
    """The rows of each floor, the ids with the same first byte, behind each other in one byte string: some 60 bytes of
    memory each, where a dictionary took 230. A floor is searched from its beginning."""

    def __init__(self) -> None:
        self._floors = [bytearray() for _ in range(FLOORS)]

    def __repr__(self) -> str:
        return f"<{len(self)} late ids>"

    def __len__(self) -> int:
        return sum(map(len, self._floors)) // ROW_BYTES

    def count(self, floor: int) -> int:
        """Return how many ids are on a floor."""
        return len(self._floors[floor]) // ROW_BYTES

    def __contains__(self, key: bytes) -> bool:
        return _place(self._floors[key[WORD.size]], key) >= 0

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows, of keys that are not there yet."""
        floors, pack = self._floors, _VALUE.pack
        for key, value in rows:
            floors[key[WORD.size]] += key + pack(len(value), value)

    def drop(self, keys: Iterable[bytes]) -> None:
        """Remove the rows of these keys, those that are there."""
        for key in keys:
            floor = self._floors[key[WORD.size]]
            if (at := _place(floor, key)) >= 0:
                del floor[at : at + ROW_BYTES]

    def clear(self, floor: int) -> None:
        """Remove all rows of a floor."""
        self._floors[floor] = bytearray()

    def rows(self, floor: int) -> Iterator[Row]:
        """Yield the rows of a floor, in the order in which they came."""
        rows = self._floors[floor]
        for at in range(0, len(rows), ROW_BYTES):
            length, value = _VALUE.unpack_from(rows, at + KEY_BYTES)
            yield bytes(rows[at : at + KEY_BYTES]), value[:length]

    def minutes(self, floor: int) -> set[bytes]:
        """Return the expiry minutes of a floor's ids."""
        return {minute for (minute,) in _MINUTES.iter_unpack(self._floors[floor])}

    def has_before(self, minute: bytes) -> bool:
        """Whether an id expires before this minute."""
        return any(one < minute for rows in self._floors for (one,) in _MINUTES.iter_unpack(rows))

    def before(self, minute: bytes, most: int, without: Iterable[int]) -> list[Row]:
        """Return at most `most` rows of ids that expire before this minute, on floors that are not among `without`."""
        left_out = set(without)
        floors = (self.rows(floor) for floor in range(FLOORS) if floor not in left_out)
        return list(islice((row for rows in floors for row in rows if row[0] < minute), most))


def _place(rows: bytearray, key: bytes) -> int:
    """Return where the row of a key begins; a negative number if it is not there."""
    at = rows.find(key)
    while at > 0 and at % ROW_BYTES:
        at = rows.find(key, at + 1)
    return at
