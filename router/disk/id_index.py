"""The duplicate index on disk: every accepted id until its expiry and ten minutes, under (expiry minute, id) (R-A12).

The message's own header names the expiry, so a look-up needs no second index; what has died lies at the front, so
ageing deletes a range; and a prefix of an id is found by jumping from minute to minute.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from router.core.lifetime import EPOCH_S
from router.core.parcel import Parcel
from router.core.seen import KEEP_AFTER_EXPIRY_S
from router.disk.store_rows import NUMBER, WORD


class IdIndex:
    """Works inside the store's transactions on its database `ids`."""

    def __init__(self, database: Any) -> None:
        self._db = database
        self._swept_at_s = 0

    def put(self, txn: Any, parcels: Iterable[Parcel]) -> None:
        rows = []
        for parcel in parcels:
            if not parcel.indexed:
                continue
            ids, arrival = parcel.ids, parcel.first
            for at, expiry in enumerate(parcel.expiries):
                rows.append((WORD.pack(expiry) + ids[at * 32 : at * 32 + 32], NUMBER.pack(arrival + at)))
        rows.sort()
        if rows:
            txn.cursor(self._db).putmulti(rows)

    def known(self, txn: Any, ids: Iterable[tuple[int, bytes]]) -> set[bytes]:
        """Which of these (expiry minute, id) are in the index."""
        get, database = txn.get, self._db
        return {one for expiry, one in ids if get(WORD.pack(expiry) + one, db=database) is not None}

    def sweep(self, txn: Any, wall_s: int, rows_max: int) -> int:
        """Delete at most so many dead ids, once a second at the most while there are none; returns how many."""
        if wall_s <= self._swept_at_s:
            return 0
        dead = WORD.pack(max(0, (wall_s - KEEP_AFTER_EXPIRY_S - EPOCH_S) // 60))
        cursor, gone = txn.cursor(self._db), 0
        while gone < rows_max and cursor.first() and cursor.key()[:4] < dead:
            cursor.delete()
            gone += 1
        if gone < rows_max:
            self._swept_at_s = wall_s
        return gone

    def arrivals(self, txn: Any, prefix: bytes) -> Iterator[tuple[bytes, int]]:
        """All (id, arrival number) whose id begins with `prefix`."""
        cursor = txn.cursor(self._db)
        found = cursor.first()
        while found:
            minute = cursor.key()[:4]
            found = cursor.set_range(minute + prefix)
            while found and cursor.key().startswith(minute + prefix):
                yield cursor.key()[4:], NUMBER.unpack(cursor.value())[0]
                found = cursor.next()
            following = WORD.unpack(minute)[0] + 1
            found = following < 1 << 32 and cursor.set_range(WORD.pack(following))
