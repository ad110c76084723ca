"""Parcels that nobody is owed any more: their bytes stay for a while, to answer those who ask for them again."""

from __future__ import annotations

from typing import Any

from router.disk.store.parcels import Parcels
from router.disk.store.rows import TIMED, WORD


class Retained:
    """Works inside the store's transactions on its database `kept`. After `keep_s` seconds, or beyond `bytes_max`, the
    oldest go.

    `bytes`: of all that are kept; whoever aborts a transaction sets it back.
    """

    def __init__(self, database: Any, parcels: Parcels, keep_s: int, bytes_max: int) -> None:
        self._db = database
        self._parcels = parcels
        self._keep_s = keep_s
        self._bytes_max = bytes_max
        self.bytes = 0

    def load(self, txn: Any) -> None:
        """At the start: count what is there."""
        self.bytes = sum(WORD.unpack(value)[0] for _, value in txn.cursor(self._db))

    def add(self, txn: Any, first: int, size: int, wall_s: int) -> None:
        """From now on nobody is owed that parcel."""
        if self._keep_s and self._bytes_max:
            txn.put(TIMED.pack(wall_s, first), WORD.pack(size), db=self._db)
            self.bytes += size
        else:
            self._parcels.delete(txn, first)

    def sweep(self, txn: Any, wall_s: int, rows_max: int) -> int:
        """Delete at most so many whose time is over; returns how many."""
        cursor, rows = txn.cursor(self._db), 0
        while rows < rows_max and self._is_over(cursor, wall_s):
            _, first = TIMED.unpack(cursor.key())
            self.bytes -= WORD.unpack(cursor.value())[0]
            cursor.delete()
            self._parcels.delete(txn, first)
            rows += 1
        return rows

    def has_dead(self, txn: Any, wall_s: int) -> bool:
        """Whether `sweep` would find some."""
        return self._is_over(txn.cursor(self._db), wall_s)

    def _is_over(self, cursor: Any, wall_s: int) -> bool:
        """Whether the oldest must go; the cursor stands there."""
        if not cursor.first():
            return False
        since_s, _ = TIMED.unpack(cursor.key())
        return bool(self.bytes > self._bytes_max or since_s + self._keep_s <= wall_s)
