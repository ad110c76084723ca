"""The messages of a pool as columns of numbers, a row a message: a million are judged or searched in milliseconds.

The messages themselves lie elsewhere under their numbers. A row keeps its place until it is removed; then the place is
given to the next. Searches go block by block, so that what they compute stays in the processor's cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .message import CapdMessage
from .pattern import KEY_BYTES, Pattern
from .priority import LIFE_S

BLOCK_ROWS = 32_768
PLACES_MIN = 1_024
NEVER_S = (1 << 64) - 1
_HALF = KEY_BYTES // 2


@dataclass(frozen=True, slots=True)
class Row:
    """What a pool knows of a message without reading it. `number`: greater for each that is taken."""

    number: int
    id: bytes
    initial: float
    create_time: int
    counted_bytes: int
    expires_at: int
    rescinded: bool = False

    @classmethod
    def of(cls, number: int, own_id: bytes, message: CapdMessage, *, rescinded: bool = False) -> Row:
        expires_at = message.expires_at
        return cls(
            number, own_id, message.initial_priority, message.create_time, message.counted_bytes,
            NEVER_S if expires_at is None else expires_at, rescinded,
        )  # fmt: skip


class Columns:
    """Rows in columns; `len` counts those that are taken."""

    def __init__(self) -> None:
        self._used = 0  # places below this have been taken once
        self._free: list[int] = []
        self.numbers: NDArray[np.uint64] = np.zeros(PLACES_MIN, np.uint64)  # 0: the place is free
        self.initials: NDArray[np.float64] = np.zeros(PLACES_MIN, np.float64)
        self.created: NDArray[np.uint64] = np.zeros(PLACES_MIN, np.uint64)
        self.expiries: NDArray[np.uint64] = np.zeros(PLACES_MIN, np.uint64)
        self.sizes: NDArray[np.uint32] = np.zeros(PLACES_MIN, np.uint32)
        self.rescinded: NDArray[np.bool_] = np.zeros(PLACES_MIN, np.bool_)
        self.first: NDArray[np.uint64] = np.zeros(PLACES_MIN, np.uint64)
        self.second: NDArray[np.uint64] = np.zeros(PLACES_MIN, np.uint64)
        self.lengths: NDArray[np.uint8] = np.zeros(PLACES_MIN, np.uint8)
        self._ids: NDArray[np.uint8] = np.zeros((PLACES_MIN, 32), np.uint8)
        self._words = [np.empty(BLOCK_ROWS, np.uint64) for _ in range(2)]

    def __len__(self) -> int:
        return self._used - len(self._free)

    def __repr__(self) -> str:
        return f"<Columns of {len(self)} rows, {len(self.numbers)} places>"

    def add(self, row: Row, data: bytes) -> int:
        """Take a row, with the beginning of its message's data; return its place."""
        if self._free:
            place = self._free.pop()
        else:
            place = self._used
            if place == len(self.numbers):
                self._grow()
            self._used += 1
        key = data[:KEY_BYTES].ljust(KEY_BYTES, b"\0")
        self.numbers[place] = row.number
        self.initials[place] = row.initial
        self.created[place] = row.create_time
        self.expiries[place] = row.expires_at
        self.sizes[place] = row.counted_bytes
        self.rescinded[place] = row.rescinded
        self.first[place] = int.from_bytes(key[:_HALF])
        self.second[place] = int.from_bytes(key[_HALF:])
        self.lengths[place] = min(len(data), KEY_BYTES)
        self._ids[place] = np.frombuffer(row.id, np.uint8)
        return place

    def remove(self, place: int) -> None:
        """Free a place."""
        self.numbers[place] = 0
        self.initials[place] = np.nan
        self._free.append(place)

    def row(self, place: int) -> Row:
        """Return the row at a place that is taken."""
        return Row(
            int(self.numbers[place]), self._ids[place].tobytes(), float(self.initials[place]),
            int(self.created[place]), int(self.sizes[place]), int(self.expiries[place]), bool(self.rescinded[place]),
        )  # fmt: skip

    def _grow(self) -> None:
        for name, column in vars(self).items():
            if isinstance(column, np.ndarray):
                more = np.zeros((2 * len(column), *column.shape[1:]), column.dtype)
                more[: len(column)] = column
                setattr(self, name, more)

    def _blocks(self) -> Iterator[slice]:
        return (slice(at, min(at + BLOCK_ROWS, self._used)) for at in range(0, self._used, BLOCK_ROWS))

    def priorities(self, now_s: int) -> NDArray[np.float64]:
        """Return the priorities of all rows that are taken, at a Unix second, in no order."""
        found = np.empty(self._used, np.float64)
        now = np.uint64(now_s & NEVER_S)
        words = self._words[0]
        for block in self._blocks():
            initials, out = self.initials[block], found[block]
            ages = np.subtract(now, self.created[block], out=words[: len(out)])
            np.multiply(np.divide(initials, LIFE_S, out=out), ages, out=out)
            np.subtract(initials, out, out=out)
        return found[~np.isnan(found)] if self._free else found

    def find(self, pattern: Pattern) -> NDArray[np.intp]:
        """Return the places of all messages whose data matches, in the order of their numbers."""
        value = [np.uint64(int.from_bytes(half)) for half in (pattern.value[:_HALF], pattern.value[_HALF:])]
        mask = [np.uint64(int.from_bytes(half)) for half in (pattern.mask[:_HALF], pattern.mask[_HALF:])]
        found = [block.start + self._matching(block, value, mask) for block in self._blocks()]
        places = np.concatenate(found) if found else np.empty(0, np.intp)
        fits = (self.lengths[places] >= pattern.bytes_needed) & (self.numbers[places] != 0)
        places = places[fits]
        ordered: NDArray[np.intp] = places[np.argsort(self.numbers[places])]
        return ordered

    def after(self, number: int, most: int) -> NDArray[np.intp]:
        """Return the places of the lowest numbers above this one, at most so many, in the order of their numbers."""
        numbers = self.numbers[: self._used]
        places = np.flatnonzero(numbers > np.uint64(min(number, NEVER_S)))
        if len(places) > most:
            places = places[np.argpartition(numbers[places], most)[:most]]
        ordered: NDArray[np.intp] = places[np.argsort(numbers[places])]
        return ordered

    def _matching(self, block: slice, value: list[np.uint64], mask: list[np.uint64]) -> NDArray[np.intp]:
        """Return the rows of a block that match, from its start."""
        count = block.stop - block.start
        one, other = (words[:count] for words in self._words)
        np.bitwise_and(np.bitwise_xor(self.first[block], value[0], out=one), mask[0], out=one)
        if mask[1]:
            np.bitwise_and(np.bitwise_xor(self.second[block], value[1], out=other), mask[1], out=other)
            np.bitwise_or(one, other, out=one)
        return np.flatnonzero(one == 0)
