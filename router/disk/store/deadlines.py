"""When each parcel is looked at for messages past their deadline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from router.core.routing.owed import Due
from router.core.routing.parcel import Parcel
from router.disk.store.damage import Damage
from router.disk.store.parcels import Parcels
from router.disk.store.rows import NUMBER, TIMED, QueueRow, owing


class Deadlines:
    """Works inside the store's transactions on its database `due`, which is in the order of the deadlines. A parcel
    that `find` has returned keeps its row until `put_off`."""

    def __init__(self, databases: Mapping[str, Any], parcels: Parcels, damage: Damage, rows_max: int) -> None:
        self._db = databases["due"]
        self._queues = databases["queues"]
        self._parcels = parcels
        self._damage = damage
        self._rows_max = rows_max
        self._found: dict[int, bytes] = {}  # the keys of the parcels that `find` returned last

    def __repr__(self) -> str:
        return f"<deadlines: {len(self._found)} parcels found due>"

    def put(self, txn: Any, parcel: Parcel) -> None:
        """Record the first deadline of a parcel."""
        txn.put(TIMED.pack(min(parcel.deadlines), parcel.first), b"", db=self._db)

    def put_off(self, txn: Any, defer: Iterable[tuple[int, int]]) -> None:
        """Have parcels that were found looked at again at a Unix second; 0: never."""
        for first, again_s in defer:
            txn.delete(self._found[first], db=self._db)
            if again_s:
                txn.put(TIMED.pack(again_s, first), b"", db=self._db)

    def find(self, txn: Any, wall_s: int) -> list[Due]:
        """Return at most `rows_max` parcels with messages that have reached their deadline; frames are not read."""
        found: list[Due] = []
        self._found = {}
        for key, _ in txn.cursor(self._db):
            at_s, first = TIMED.unpack(key)
            if at_s > wall_s or len(found) >= self._rows_max or self._damage.is_full:
                break
            self._found[first] = bytes(key)
            parcel = self._parcels.row(txn, first)
            if parcel is None:
                if self._parcels.is_there(txn, first):
                    for recipient, row in owing(txn.cursor(self._queues), first):
                        self._damage.note_row(recipient, first, row)
                found.append(Due(None, first, ()))
                continue
            owed = []
            for recipient in parcel.recipients:
                raw = txn.get(recipient + NUMBER.pack(first), db=self._queues)
                if raw is not None:
                    owed.append((recipient, tuple(QueueRow.decode(raw).owed())))
            found.append(Due(parcel, first, tuple(owed)))
        return found
