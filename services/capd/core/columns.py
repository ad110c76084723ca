"""The messages of a pool as columns of numbers, one row a message: a million are judged or searched in milliseconds.

The messages themselves are stored elsewhere, under their numbers. Rows are in the order in which they were taken, which
is that of their numbers; a removed row stays as a dead row until the columns are packed. Computations go block by block
in reused buffers, so that a block stays in the processor's cache and no new memory is paged in.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct as Layout
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from .lives import Life
from .message import ID_BYTES, CapdMessage
from .pattern import KEY_BYTES, Pattern
from .prefix_index import PrefixIndex
from .priority import LIFE_S

Part = tuple[NDArray[np.uint32], np.uint32, np.uint32]
"""A column of key words, a value and a mask: a row matches if its word under the mask is the value."""
HELD = np.uint8(Life.HELD)
SAMPLE_ROWS = 1_024
"""Most rows that a scan samples to choose the words that it compares first."""
BLOCK_ROWS = 65_536
PLACES_MIN = 1_024
MANY_ROWS = 8
"""From this number on, rows are read faster together than one by one."""
GROWTH_SHARE = 8
"""Full columns grow by one part in `GROWTH_SHARE`; if as large a part of their rows is dead, they are packed
instead."""
FEW_SHARE = 16
"""If fewer than one row in `FEW_SHARE` can still match, only these rows are looked at further."""
NEVER_S = (1 << 64) - 1
WORDS = 4
"""Columns of a key: a scan reads a fourth of all keys' bytes if one word decides."""
_KEY = Layout(f">{WORDS}I")
_ALL = np.uint32(0xFFFF_FFFF)
_LIVES = {int(life): life for life in Life}
Places = NDArray[np.intp]
NOWHERE: Places = np.empty(0, np.intp)
_WRAP = float(1 << 64)
_COLUMNS = ("numbers", "initials", "created", "expiries", "sizes", "lives", "lengths", "_ids")
_FADED = -1e100
"""The factor on a faded message's age that ranks it below any priority."""


class Row(Struct, frozen=True, gc=False):
    """A pool's facts about a message, known without reading it. `number`: ascending in the order in which messages were
    taken.

    A struct: creating one takes a tenth of the time of a frozen dataclass."""

    number: int
    id: bytes
    initial: float
    create_time: int
    counted_bytes: int
    expires_at: int
    life: Life = Life.HELD

    @classmethod
    def of(cls, number: int, own_id: bytes, message: CapdMessage, life: Life = Life.HELD) -> Row:
        expires_at = message.expires_at
        return cls(
            number,
            own_id,
            message.initial_priority,
            message.create_time,
            message.counted_bytes,
            NEVER_S if expires_at is None else expires_at,
            life,
        )


class Columns:
    """Rows stored in columns; `len` counts the live ones. Creation times are doubles, exact below 2^53."""

    def __init__(self) -> None:
        self._used = 0
        self._dead = 0
        self._index = PrefixIndex()
        self.numbers: NDArray[np.uint64] = np.zeros(PLACES_MIN, np.uint64)
        self.initials: NDArray[np.float64] = np.zeros(PLACES_MIN, np.float64)  # NaN: the row is dead
        self.created: NDArray[np.float64] = np.zeros(PLACES_MIN, np.float64)
        self.expiries: NDArray[np.uint64] = np.zeros(PLACES_MIN, np.uint64)
        self.sizes: NDArray[np.uint32] = np.zeros(PLACES_MIN, np.uint32)
        self.lives: NDArray[np.uint8] = np.zeros(PLACES_MIN, np.uint8)
        self.words: list[NDArray[np.uint32]] = [np.zeros(PLACES_MIN, np.uint32) for _ in range(WORDS)]
        self.lengths: NDArray[np.uint8] = np.zeros(PLACES_MIN, np.uint8)
        self._ids: NDArray[np.uint8] = np.zeros((PLACES_MIN, 32), np.uint8)
        self._found: NDArray[np.float64] = np.zeros(PLACES_MIN, np.float64)
        self._ages = np.empty(BLOCK_ROWS, np.float64)
        self._masked = np.empty(BLOCK_ROWS, np.uint32)
        self._may_be_short = self._may_expire = False  # whether any row was since the last packing
        self._flags = [np.empty(BLOCK_ROWS, np.bool_) for _ in range(2)]

    def __len__(self) -> int:
        return self._used - self._dead

    def __repr__(self) -> str:
        return f"<Columns of {len(self)} rows, {self._dead} of {self._used} are dead, {len(self.numbers)} places>"

    # -- rows ----------------------------------------------------------------------------------------------

    def add(self, row: Row, data: bytes) -> None:
        """Append a row, whose number must be the greatest so far. `data`: the message's data, of which the first 16
        bytes are kept."""
        if self._used == len(self.numbers):
            self._make_room()
        place = self._used
        self._used += 1
        self.numbers[place] = row.number
        self.initials[place] = row.initial
        self.created[place] = row.create_time
        self.expiries[place] = row.expires_at
        self.sizes[place] = row.counted_bytes
        self.lives[place] = row.life
        for column, word in zip(self.words, _KEY.unpack(data[:KEY_BYTES].ljust(KEY_BYTES, b"\0")), strict=True):
            column[place] = word
        self.lengths[place] = min(len(data), KEY_BYTES)
        self._may_be_short |= len(data) < KEY_BYTES
        self._may_expire |= row.expires_at != NEVER_S
        self._ids[place] = np.frombuffer(row.id, np.uint8)

    def remove(self, place: int) -> None:
        """Remove the row at a place."""
        self.lives[place] = Life.GONE
        self.initials[place] = np.nan
        self._dead += 1

    def place(self, number: int) -> int | None:
        """Return the place of the row with this number, valid until the next row is added; None if there is no such
        row."""
        place = int(np.searchsorted(self.numbers[: self._used], np.uint64(number)))
        is_there = place < self._used and self.lives[place] != Life.GONE and int(self.numbers[place]) == number
        return place if is_there else None

    def row(self, place: int) -> Row:
        """Return the live row at a place."""
        return Row(
            int(self.numbers[place]),
            self.id(place),
            float(self.initials[place]),
            int(self.created[place]),
            int(self.sizes[place]),
            int(self.expiries[place]),
            Life(self.lives[place]),
        )

    def rows(self, places: Places) -> list[Row]:
        """Return the live rows at these places; of many, each takes a fifth of the time of a single one."""
        if len(places) < MANY_ROWS:
            return [self.row(int(place)) for place in places]
        ids = self._ids[places].tobytes()
        columns = (self.numbers, self.initials, self.created, self.sizes, self.expiries, self.lives)
        values = zip(range(0, len(ids), ID_BYTES), *(column[places].tolist() for column in columns), strict=True)
        return [
            Row(number, ids[at : at + ID_BYTES], initial, int(created), size, expires_at, _LIVES[life])
            for at, number, initial, created, size, expires_at, life in values
        ]

    def id(self, place: int) -> bytes:
        """Return the id of the row at a place."""
        return bytes(self._ids[place])

    def live(self) -> Places:
        """Return the places of all live rows, in the order of their numbers."""
        return np.flatnonzero(self.lives[: self._used])

    def after(self, number: int, most: int) -> Places:
        """Return the places of the live rows with the lowest numbers above this one, at most `most`, in ascending
        order."""
        least = np.uint64(min(number, NEVER_S))
        start = int(np.searchsorted(self.numbers[: self._used], least, side="right"))
        found = start + np.flatnonzero(self.lives[start : min(self._used, start + most)])
        if len(found) < most and start + most < self._used:  # some of these rows are dead
            found = start + np.flatnonzero(self.lives[start : self._used])[:most]
        return found

    def between(self, number: int, least: float, below: float, most: int, now_s: int) -> Places:
        """Return the places of the held rows with the lowest numbers above this one whose priority is at least `least`
        and less than `below`, at most `most`, in ascending order."""
        start = int(np.searchsorted(self.numbers[: self._used], np.uint64(min(number, NEVER_S)), side="right"))
        found: list[Places] = []
        count = 0
        for block in self._blocks(start):
            initials = self.initials[block]
            priorities = initials - initials / float(LIFE_S) * (float(now_s) - self.created[block])
            fits = (priorities >= least) & (priorities < below) & (self.lives[block] == HELD)
            places = block.start + np.flatnonzero(fits)
            found.append(places)
            count += len(places)
            if count >= most:
                break
        return np.concatenate(found)[:most] if found else NOWHERE

    def _make_room(self) -> None:
        """Pack the columns if many rows are dead, else enlarge them."""
        if self._dead * GROWTH_SHARE >= self._used:
            self._pack()
            return
        size = self._used + max(PLACES_MIN, self._used // GROWTH_SHARE)
        self._found = np.zeros(size, np.float64)
        for name in _COLUMNS:
            setattr(self, name, self._grown(getattr(self, name), size))
        self.words = [self._grown(column, size) for column in self.words]

    def _grown(self, column: NDArray[Any], size: int) -> NDArray[Any]:
        more = np.zeros((size, *column.shape[1:]), column.dtype)
        more[: self._used] = column[: self._used]
        return more

    def _pack(self) -> None:
        stays = self.lives[: self._used] != Life.GONE
        self._index.packed(stays)
        count = len(self)
        for column in (*(getattr(self, name) for name in _COLUMNS), *self.words):
            column[:count] = column[: self._used][stays]
        self._used, self._dead = count, 0
        self._may_be_short = bool((self.lengths[:count] < KEY_BYTES).any())
        self._may_expire = bool((self.expiries[:count] != NEVER_S).any())

    # -- priorities ----------------------------------------------------------------------------------------

    def _blocks(self, start: int = 0) -> Iterator[slice]:
        return (slice(at, min(at + BLOCK_ROWS, self._used)) for at in range(start, self._used, BLOCK_ROWS))

    def priorities(self, now_s: int, *, faded_last: bool = False) -> NDArray[np.float64]:
        """Return the priorities of all rows at a Unix second, NaN for dead ones, in a buffer that the next call
        overwrites. With `faded_last`, faded rows are below all others, the oldest lowest."""
        found = self._found[: self._used]
        for block in self._blocks():
            initials, out = self.initials[block], found[block]
            ages = np.subtract(float(now_s), self.created[block], out=self._ages[: len(out)])
            if faded_last:
                faded = np.greater_equal(ages, LIFE_S, out=self._flags[0][: len(out)])
            if ages.min() < 0:
                ages[ages < 0] += _WRAP  # created after `now_s`: the age is an unsigned number
            np.divide(initials, float(LIFE_S), out=out)
            np.multiply(out, ages, out=out)
            np.subtract(initials, out, out=out)
            if faded_last and faded.any():
                np.copyto(out, np.where(np.isnan(initials), np.nan, ages * _FADED), where=faded)
        return found

    def weakest(self, count: int, now_s: int) -> list[tuple[float, float, int, int]]:
        """Return the rows that a full pool loses first, at most `count`, in that order: each as the priority, initial
        priority and number by which it is ranked, and its creation time."""
        ranks = self.priorities(now_s, faded_last=True)
        if count >= len(self):
            chosen = self.live()
        else:
            bound = np.partition(ranks, count - 1)[count - 1]
            chosen, rest = np.flatnonzero(ranks < bound), np.flatnonzero(ranks == bound)
            for column in (self.initials, self.numbers):  # rows equal in one column are ranked by the next
                lacking = count - len(chosen)
                if len(rest) > lacking:
                    values = column[rest]
                    bound = np.partition(values, lacking - 1)[lacking - 1]
                    chosen, rest = np.concatenate((chosen, rest[values < bound])), rest[values == bound]
            chosen = np.concatenate((chosen, rest))
        columns = [column[chosen].tolist() for column in (ranks, self.initials, self.numbers, self.created)]
        return sorted((rank, initial, number, int(time)) for rank, initial, number, time in zip(*columns, strict=True))

    def middle_and_highest(self, now_s: int) -> tuple[float, float]:
        """Return the median priority, the upper one of two, and the highest; there must be a row."""
        found = self.priorities(now_s)
        highest = float(np.fmax.reduce(found))
        middle = len(self) // 2
        found.partition(middle)  # NaN goes to the end
        return float(found[middle]), highest

    # -- queries -------------------------------------------------------------------------------------------

    def find(self, pattern: Pattern, now_s: int | None) -> Places:
        """Return the places of held messages whose data matches, in the order of their numbers; with `now_s`, only
        those that have not expired by then."""
        places = self._by_prefix(pattern) if pattern.prefix_bytes else None
        if places is None:
            places = self._scan(pattern)
        fits = self.lives[places] == HELD
        if self._may_be_short and (needed := pattern.bytes_needed):
            fits &= self.lengths[places] >= needed
        if self._may_expire and now_s is not None:
            fits &= self.expiries[places] > np.uint64(max(0, now_s))
        found: Places = places if fits.all() else places[fits]
        return found

    def _by_prefix(self, pattern: Pattern) -> Places | None:
        """Find matches by the index, for a pattern that begins with whole bytes; None if a scan is faster because many
        rows have that prefix."""
        if self._index.lacks_many(self._used):
            self._index.merge([column[: self._used] for column in self.words])
        size = pattern.prefix_bytes
        found = self._index.find(pattern.value[:size])
        if len(found) * FEW_SHARE > self._used:
            return None
        places = np.sort(found).astype(np.intp)
        if size < pattern.bytes_needed:
            places = self._those_of(places, pattern)
        if self._index.upto == self._used:
            return places
        return np.concatenate((places, self._scan(pattern, self._index.upto)))

    def _those_of(self, places: Places, pattern: Pattern) -> Places:
        for part in self._parts(pattern):
            places = _refined(places, part)
        return places

    def _parts(self, pattern: Pattern) -> list[Part]:
        """Return the key words that have bits under the mask."""
        words = zip(self.words, _KEY.unpack(pattern.value), _KEY.unpack(pattern.mask), strict=True)
        return [(column, np.uint32(value), np.uint32(mask)) for column, value, mask in words if mask]

    def _scan(self, pattern: Pattern, start: int = 0) -> Places:
        """Compare each row from the place `start` on, beginning with the words that the fewest rows match."""
        parts = self._parts(pattern)
        if not parts:
            return np.arange(start, self._used)
        if len(parts) > 1:
            parts.sort(key=self._share)
        found = [block.start + places for block in self._blocks(start) if len(places := self._matching(block, parts))]
        return np.concatenate(found) if found else NOWHERE

    def _share(self, part: Part) -> float:
        """Estimate the share of all rows that match in one word."""
        column, value, mask = part
        some = column[: self._used : self._used // SAMPLE_ROWS + 1]
        return float(np.count_nonzero(some & mask == value) / max(1, len(some)))

    def _matching(self, block: slice, parts: list[Part]) -> Places:
        """Return the places of a block's matching rows, counted from the block's start. As soon as few rows match, the
        remaining words are compared at these rows only."""
        count = block.stop - block.start
        masked, flags, others = self._masked[:count], self._flags[0][:count], self._flags[1][:count]
        for number, (column, value, mask) in enumerate(parts):
            words = column[block] if mask == _ALL else np.bitwise_and(column[block], mask, out=masked)
            if number:
                np.equal(words, value, out=others)
                np.logical_and(flags, others, out=flags)
            else:
                np.equal(words, value, out=flags)
            hit = np.count_nonzero(flags)
            if not hit:
                return NOWHERE
            if hit * FEW_SHARE < count:
                places: Places = np.flatnonzero(flags)
                for column, value, mask in parts[number + 1 :]:
                    places = _refined(places, (column[block], value, mask))
                return places
        found: Places = np.flatnonzero(flags)
        return found


def _refined(places: Places, part: Part) -> Places:
    column, value, mask = part
    found: Places = places[column[places] & mask == value]
    return found
