"""Parcels that are owed to no recipient any more: they stay for a while, to answer later requests for them; those of
groups in which the pub/sub service takes part stay longer, as history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from router.core.routing.effects import Finished
from router.core.routing.recovered import Holding
from router.disk.store.history import History
from router.disk.store.parcels import Parcels
from router.disk.store.rows import NUMBER, TIMED, WORD, QueueRow


class Retained:
    """Works inside the store's transactions on its database `kept`. After `keep_s` seconds, or beyond `bytes_max`, the
    oldest are deleted. What `history` keeps is not counted here.

    `bytes`: the size of all kept parcels; aborting a transaction must restore it, and that of the history.
    """

    def __init__(self, database: Any, parcels: Parcels, history: History, keep_s: int, bytes_max: int) -> None:
        self._db = database
        self._parcels = parcels
        self._history = history
        self._keep_s = keep_s
        self._bytes_max = bytes_max
        self.bytes = 0

    @property
    def sizes(self) -> tuple[int, int]:
        """Return the bytes kept here and as history, for `restore` if the transaction is aborted."""
        return self.bytes, self._history.bytes

    def restore(self, sizes: tuple[int, int]) -> None:
        self.bytes, self._history.bytes = sizes

    def load(self, txn: Any) -> None:
        """Add up the bytes of the kept parcels, at the start."""
        self.bytes = sum(WORD.unpack(value)[0] for _, value in txn.cursor(self._db))
        self._history.load(txn)

    def add(self, txn: Any, first: int, size: int, wall_s: int) -> None:
        """Keep a parcel that is owed to no recipient any more, on disk alone, or delete it if none are kept."""
        self._parcels.settle(first)
        if self._history.keeps(txn, first):
            return
        if self._keep_s and self._bytes_max:
            txn.put(TIMED.pack(wall_s, first), WORD.pack(size), db=self._db)
            self.bytes += size
        else:
            self._parcels.delete(txn, first)

    def sweep(self, txn: Any, wall_s: int, rows_max: int) -> int:
        """Delete at most `rows_max` parcels that are kept too long or beyond the limit; return how many."""
        cursor, rows = txn.cursor(self._db), self._history.sweep(txn, wall_s, rows_max)
        while rows < rows_max and self._is_over(cursor, wall_s):
            _, first = TIMED.unpack(cursor.key())
            self.bytes -= WORD.unpack(cursor.value())[0]
            cursor.delete()
            self._parcels.delete(txn, first)
            rows += 1
        return rows

    def has_dead(self, txn: Any, wall_s: int) -> bool:
        """Whether there are parcels to `sweep`."""
        return self._is_over(txn.cursor(self._db), wall_s) or self._history.has_dead(txn, wall_s)

    def _is_over(self, cursor: Any, wall_s: int) -> bool:
        """Move the cursor to the oldest parcel; return whether it must be deleted."""
        if not cursor.first():
            return False
        since_s, _ = TIMED.unpack(cursor.key())
        return bool(self.bytes > self._bytes_max or since_s + self._keep_s <= wall_s)


def finish(
    txn: Any, databases: Mapping[str, Any], kept: Retained, finished: Iterable[Finished], wall_s: int
) -> list[Holding]:
    """Take messages that have ended out of the queues; return the parcels that are owed to no recipient any more."""
    queues, gone = databases["queues"], dict[int, int]()
    whole: dict[int, Holding] = {}
    for recipient, first, start, stop, freed in finished:
        key = recipient + NUMBER.pack(first)
        raw = txn.get(key, db=queues)
        if raw is None:
            continue
        row = QueueRow.decode(raw).finish(start, stop, freed)
        if row.is_done:
            txn.delete(key, db=queues)
            gone[first] = gone.get(first, 0) + 1
            whole[first] = Holding(row.neighbour_tag, row.messages, row.size)
        else:
            txn.put(key, row.encode(), db=queues)
    released = []
    for first, recipients in gone.items():
        if _last_recipient(txn, databases["pending"], first, recipients):
            kept.add(txn, first, whole[first].bytes, wall_s)
            released.append(whole[first])
    return released


def _last_recipient(txn: Any, pending: Any, first: int, gone: int) -> bool:
    """Count that a parcel is owed to `gone` fewer recipients; return whether it is owed to none any more."""
    key = NUMBER.pack(first)
    raw = txn.get(key, db=pending)
    left = (WORD.unpack(raw)[0] if raw else 1) - gone
    if left > 0:
        txn.put(key, WORD.pack(left), db=pending)
    elif raw:
        txn.delete(key, db=pending)
    return left <= 0
