"""The duplicate index on disk: every accepted id, under (expiry minute, id), until ten minutes after expiry (R-A12).

The message's header names the expiry, so a look-up needs no second index; expired ids come first, so ageing deletes a
range; and a prefix of an id is found by jumping from minute to minute.

Ids are random, so inserting each at its place would rewrite a page of the tree for each message. New ids are therefore
appended to the database `late` first, and held in memory by their first byte. When there are more than `LATE_MAX`, or
`LATE_QUIET_MAX` where few come, the first bytes are visited in turn like the floors of a lift: the ids of one go to
their places in one sorted sweep over neighbouring pages (the log-structured merge of O'Neil et al., 1996, in steps
small enough for every commit).

Beside the arrival number stands the holder whose share an id counts against (`core/routing/duplicate_index.py`); the
database `shares` has the count of each holder. The apps have all other ids, including those of an earlier version,
which named no holder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sized
from itertools import count, repeat
from struct import Struct
from typing import Any, NamedTuple

from router.core.routing.duplicate_index import APPS, HOLDER_BYTES
from router.core.routing.parcel import Parcel
from router.core.routing.seen import KEEP_AFTER_EXPIRY_S
from router.core.wire.crypto import ID_BYTES
from router.core.wire.lifetime import EPOCH_S
from router.disk.store.late_ids import FLOORS, KEY_BYTES, LateIds, Row
from router.disk.store.rows import NUMBER, WORD, ascending

LATE_MAX = 32_768  # ids in memory, some 60 bytes each, while so many come that a page takes more of them that way
LATE_QUIET_MAX = 4_096  # while few come
LATE_BATCHES = 128  # batches that stay in memory, between these two numbers
FLOORS_QUIET = 2  # floors that are merged at once, at most, until few enough are in memory
ERASED = bytes(KEY_BYTES)
_OF_HOLDER = Struct(f">Q{HOLDER_BYTES}s")  # arrival number and holder of an id
MINUTES_MAX = 20_000  # noted as being in `ids`, some of them no more: two weeks
NEAR = 16
FORGET_MIN = 16  # rows of `late` that one transaction deletes at least, if there are that many


class _Staged(NamedTuple):
    """Changes in memory, made once the transaction under way is committed: ids added, each with its arrival number and
    holder; floors merged into `ids`; dead ids dropped."""

    added: list[Row]
    merged: range
    dropped: list[bytes]


class IdIndex:
    """Works inside the store's transactions on its databases `ids`, `late` and `shares`."""

    def __init__(self, database: Any, late: Any, shares: Any) -> None:
        self._db = database
        self._late_db = late
        self._shares_db = shares
        self._late = LateIds()
        self._late_count = 0
        self._floor = 0  # floors ever visited; the next one is this modulo FLOORS
        self._round_began = 0  # the arrival number when the lift was last at floor 0
        self._in_place = 0  # all ids that arrived before this number are in `ids`
        self._staged: _Staged | None = None
        self._is_committed = False
        self._swept_at_s = 0
        self._swept_late = b""  # all late ids that expired in earlier minutes are gone
        self._minutes: dict[bytes, None] = {}  # all minutes in `ids`, and some before; empty: not yet asked for
        self._near = bytes(WORD.size)  # the minute of the id that was found last

    def load(self, txn: Any, next_arrival: int) -> tuple[int, dict[bytes, int]]:
        """Load the late ids into memory at the start; return the count of all ids, and that of each holder except the
        apps."""
        get = txn.get
        self._late, self._late_count = LateIds(), 0
        self._floor, self._in_place, self._staged, self._swept_late = 0, 0, None, b""
        self._minutes = {}
        for first, row in txn.cursor(self._late_db):
            arrival, stop = NUMBER.unpack(first)[0], _ids_stop(row)
            for at in range(0, stop, KEY_BYTES):
                key = bytes(row[at : at + KEY_BYTES])
                if key != ERASED and get(key, db=self._db) is None:
                    self._late.add([(key, NUMBER.pack(arrival + at // KEY_BYTES) + bytes(row[stop:]))])
                    self._late_count += 1
        self._round_began = next_arrival
        shares = {bytes(holder): NUMBER.unpack(sum_)[0] for holder, sum_ in txn.cursor(self._shares_db)}
        return int(txn.stat(self._db)["entries"]) + self._late_count, shares

    def put(self, txn: Any, parcels: Iterable[Parcel]) -> None:
        """Add the parcels' ids in a transaction; takes effect when that is `committed`, and is undone by `abort`."""
        self._take_in()
        added: list[Row] = []
        holders: Counter[bytes] = Counter()
        for parcel in parcels:
            if parcel.indexed:
                keys, holder = _keys(parcel), parcel.holder
                txn.put(NUMBER.pack(parcel.first), b"".join((*keys, holder)), db=self._late_db, append=True)
                arrivals = count(parcel.first)
                values = map(_OF_HOLDER.pack, arrivals, repeat(holder)) if holder else map(NUMBER.pack, arrivals)
                added += zip(keys, values, strict=False)
                holders[holder] += len(keys)
        self._share(txn, holders, 1)
        self._staged = _Staged(added, self._merge(txn, LATE_BATCHES * len(added)), [])
        self._forget_late(txn, max(FORGET_MIN, len(added)))

    def _share(self, txn: Any, holders: Mapping[bytes, int], sign: int) -> None:
        """Add `ids` to the holders' sums (`sign` 1), or subtract them (-1)."""
        for holder, ids in holders.items():
            if holder != APPS:
                before = txn.get(holder, db=self._shares_db)
                sum_ = (NUMBER.unpack(before)[0] if before else 0) + sign * ids
                if sum_ > 0:
                    txn.put(holder, NUMBER.pack(sum_), db=self._shares_db)
                else:
                    txn.delete(holder, db=self._shares_db)

    def committed(self) -> None:
        """Record that the transaction of the last `put` is committed. The committing thread may call this: the loop
        does the work later."""
        self._is_committed = True

    def abort(self) -> None:
        self._staged = None

    def _take_in(self) -> None:
        staged = self._staged
        if staged is None or not self._is_committed:
            return
        self._staged, self._is_committed = None, False
        late = self._late
        for floor in staged.merged:
            if self._minutes:
                self._minutes.update(dict.fromkeys(late.minutes(floor % FLOORS)))
            self._late_count -= late.count(floor % FLOORS)
            late.clear(floor % FLOORS)
        late.add(staged.added)
        late.drop(staged.dropped)
        self._late_count += len(staged.added) - len(staged.dropped)
        if staged.merged.stop // FLOORS > self._floor // FLOORS and staged.added:
            self._in_place = self._round_began
            self._round_began = NUMBER.unpack_from(staged.added[0][1])[0]
        self._floor = staged.merged.stop

    def _merge(self, txn: Any, quiet_max: int) -> range:
        """Merge floors into `ids` until at most `LATE_MAX` ids are late, and a few more floors if there are still more
        than `quiet_max`; return the floors."""
        left, floor = self._late_count, self._floor
        quiet_max, quiet_floor = max(quiet_max, LATE_QUIET_MAX), floor + FLOORS_QUIET
        while left > LATE_MAX or (left > quiet_max and floor < quiet_floor):
            if floor - self._floor >= FLOORS:
                break
            rows = sorted(self._late.rows(floor % FLOORS))
            if rows:
                txn.cursor(self._db).putmulti(rows)
            left -= len(rows)
            floor += 1
        return range(self._floor, floor)

    def _forget_late(self, txn: Any, rows_max: int) -> None:
        """Delete at most `rows_max` rows of `late` whose ids are all in `ids`."""
        cursor = txn.cursor(self._late_db)
        while rows_max and cursor.first() and NUMBER.unpack(cursor.key())[0] < self._in_place:
            cursor.delete()
            rows_max -= 1

    def known(self, txn: Any, ids: Iterable[tuple[int, bytes]]) -> set[bytes]:
        """Return the ids of these (expiry minute, id) pairs that are in the index."""
        self._take_in()
        late, found, keys, last, minute = self._late, set[bytes](), list[bytes](), None, b""
        for expiry, one in ids:
            if expiry != last:
                last, minute = expiry, WORD.pack(expiry)
            key = minute + one
            if key in late:
                found.add(one)
            else:
                keys.append(key)
        keys.sort()
        found.update(key[4:] for key, _ in txn.cursor(self._db).getmulti(keys))
        return found

    def sweep(self, txn: Any, wall_s: int, rows_max: int) -> dict[bytes, int]:
        """Delete at most `rows_max` dead ids, and return how many of each holder. Having found fewer, it does nothing
        until the next second."""
        if wall_s <= self._swept_at_s:
            return {}
        dead = _dead(wall_s)
        swept = self._sweep_late(dead, rows_max)
        cursor = txn.cursor(self._db)
        while len(swept) < rows_max and cursor.first() and cursor.key()[:4] < dead:
            swept.append(bytes(cursor.value()))
            cursor.delete()
        self._erase(txn, (one[: NUMBER.size] for one in swept))
        if len(swept) < rows_max:
            self._swept_at_s = wall_s
        holders = Counter(one[NUMBER.size :] for one in swept)
        self._share(txn, holders, -1)
        return dict(holders)

    def has_dead(self, txn: Any, wall_s: int) -> bool:
        """Whether there are dead ids to `sweep`."""
        self._take_in()
        dead, cursor = _dead(wall_s), txn.cursor(self._db)
        if cursor.first() and cursor.key()[:4] < dead:
            return True
        if dead != self._swept_late and self._late.has_before(dead):
            return True
        self._swept_late = dead
        return False

    def _sweep_late(self, dead: bytes, rows_max: int) -> list[bytes]:
        """Drop late ids of earlier minutes than `dead`, except those just merged; return their values."""
        if dead == self._swept_late or self._staged is None:
            return []
        gone = self._late.before(dead, rows_max, (floor % FLOORS for floor in self._staged.merged))
        self._staged.dropped.extend(key for key, _ in gone)
        if len(gone) < rows_max:
            self._swept_late = dead
        return [value for _, value in gone]

    def _erase(self, txn: Any, arrivals: Iterable[bytes]) -> None:
        """Erase swept ids from rows of `late`, from which they would come back at the next start."""
        cursor = txn.cursor(self._late_db)
        lowest = bytes(cursor.key()) if cursor.first() else b"\xff" * 9
        for arrival in arrivals:
            if arrival < lowest:
                continue
            number = NUMBER.unpack(arrival)[0]
            if not (cursor.prev() if cursor.set_range(NUMBER.pack(number + 1)) else cursor.last()):
                continue
            first, row = bytes(cursor.key()), bytearray(cursor.value())
            at = (number - NUMBER.unpack(first)[0]) * KEY_BYTES
            stop = _ids_stop(row)
            if at < stop:
                row[at : at + KEY_BYTES] = ERASED
                if any(row[:stop]):
                    txn.put(first, bytes(row), db=self._late_db)
                else:
                    txn.delete(first, db=self._late_db)

    def arrivals(self, txn: Any, prefix: bytes) -> Iterator[tuple[bytes, int]]:
        """Yield (id, arrival number) of all ids that begin with `prefix`."""
        self._take_in()
        for floor in (prefix[0],) if prefix else range(FLOORS):
            for key, value in self._late.rows(floor):
                if key.startswith(prefix, 4):
                    yield key[4:], NUMBER.unpack_from(value)[0]
        if len(prefix) == ID_BYTES:
            yield from self._whole(txn, prefix)
            return
        cursor = txn.cursor(self._db)
        for minute in self._minutes_in(txn):
            found = cursor.set_range(minute + prefix)
            while found and cursor.key().startswith(minute + prefix):
                yield cursor.key()[4:], NUMBER.unpack_from(cursor.value())[0]
                found = cursor.next()

    def _whole(self, txn: Any, identity: bytes) -> Iterator[tuple[bytes, int]]:
        """Yield a whole id with its place in `ids`, which is searched in the minute of the previous one and some that
        follow, since ids are asked for in order."""
        if not self._minutes or len(self._minutes) > MINUTES_MAX:
            self._minutes = dict.fromkeys(self._minutes_in(txn))
        cursor, near = txn.cursor(self._db), WORD.unpack(self._near)[0]
        for minutes in ([WORD.pack(one) for one in range(near, min(near + NEAR, 1 << 32))], self._minutes):
            for key, value in cursor.getmulti([minute + identity for minute in minutes]):
                self._near = key[:4]
                yield identity, NUMBER.unpack_from(value)[0]
                return

    def _minutes_in(self, txn: Any) -> Iterator[bytes]:
        """Yield the minutes in `ids`: a skip scan."""
        cursor, minute = txn.cursor(self._db), b""
        found = cursor.first()
        while found:
            ascending(minute, cursor.key()[:4])
            minute = cursor.key()[:4]
            yield minute
            following = WORD.unpack(minute)[0] + 1
            found = following < 1 << 32 and cursor.set_range(WORD.pack(following))


def _dead(wall_s: int) -> bytes:
    """Return the first minute whose ids are still kept."""
    return WORD.pack(max(0, (wall_s - KEEP_AFTER_EXPIRY_S - EPOCH_S) // 60))


def _ids_stop(row: Sized) -> int:
    """Return where the ids end in a row of `late`; a holder follows, unless it is the apps."""
    return len(row) - len(row) % KEY_BYTES


def _keys(parcel: Parcel) -> list[bytes]:
    """Return expiry minute and id of each message, joined as in `ids`."""
    ids, minutes = parcel.ids, map(WORD.pack, parcel.expiries)
    return [minute + ids[at : at + ID_BYTES] for minute, at in zip(minutes, count(0, ID_BYTES), strict=False)]
