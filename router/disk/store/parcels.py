"""The parcels on disk and the newest of them in memory; damage on the disk is detected on reading.

A row has a checksum. Frames need none: the ids in the row are digests of the messages, so a message that is read back
is hashed once more, as it was on arrival, and writing costs nothing extra.
"""

from __future__ import annotations

from typing import Any

from router.core.routing.parcel import Parcel
from router.disk.store.parcel_cache import ParcelCache
from router.disk.store.rows import NUMBER, Listed, decode_listed, decode_parcel, encode_parcel

LOOKED_AT_PART = 8
"""The part of the cache, in addition, for parcels of which single messages were asked for."""


class Parcels:
    """Works inside the store's transactions on its databases `parcels` and `frames`."""

    def __init__(self, rows: Any, frames: Any, cache_bytes_max: int) -> None:
        self._rows = rows
        self._frames = frames
        self._cache = ParcelCache(cache_bytes_max)
        self._looked_at = ParcelCache(cache_bytes_max // LOOKED_AT_PART)  # read for one message, and not checked whole

    def __repr__(self) -> str:
        return f"<owed: {self._cache!r}; looked at: {self._looked_at!r}>"

    def put(self, txn: Any, parcel: Parcel) -> None:
        first = NUMBER.pack(parcel.first)
        txn.put(first, encode_parcel(parcel), db=self._rows, append=True)
        txn.put(first, parcel.blob, db=self._frames, append=True)
        self._cache.put(parcel)

    def delete(self, txn: Any, first: int) -> None:
        key = NUMBER.pack(first)
        txn.delete(key, db=self._rows)
        txn.delete(key, db=self._frames)
        self._cache.drop(first)
        self._looked_at.drop(first)

    def settle(self, first: int) -> None:
        """Keep a parcel that is owed to nobody any more among those of which single messages are asked for, if it is in
        memory: a subscriber that is behind does not wait for it."""
        if (parcel := self._cache.drop(first)) is not None:
            self._looked_at.put(parcel)

    def is_there(self, txn: Any, first: int) -> bool:
        return txn.get(NUMBER.pack(first), db=self._rows) is not None

    def row(self, txn: Any, first: int) -> Parcel | None:
        """Return the parcel, without its frames unless it is cached; None if it is missing or its row is damaged."""
        for cache in (self._cache, self._looked_at):
            if (cached := cache.get(first)) is not None:
                return cached
        raw = txn.get(NUMBER.pack(first), db=self._rows)
        return None if raw is None else decode_parcel(first, bytes(raw), b"")

    def listed(self, txn: Any, first: int) -> Listed | None:
        """Return what is listed of a parcel; None if it is missing or its row is damaged."""
        raw = txn.get(NUMBER.pack(first), db=self._rows)
        return None if raw is None else decode_listed(first, bytes(raw))

    def complete(self, txn: Any, parcel: Parcel) -> list[tuple[int, int]]:
        """Read the frames of a parcel that `row` returned; return the runs of messages that are damaged."""
        if self._cache.get(parcel.first) is parcel:
            return []
        parcel.blob = bytes(txn.get(NUMBER.pack(parcel.first), db=self._frames) or b"")
        damaged = parcel.damaged()
        if not damaged:
            self._cache.put(parcel)
        return damaged

    def row_at(self, txn: Any, arrival: int) -> tuple[Parcel, int] | None:
        """Return the parcel of that arrival number and the message's index in it, without frames unless it is cached;
        None if its row is missing or damaged."""
        cursor = txn.cursor(self._rows)
        later = cursor.set_range(NUMBER.pack(arrival + 1))
        if not (cursor.prev() if later else cursor.last()):
            return None
        first = NUMBER.unpack(cursor.key())[0]
        parcel, index = self.row(txn, first), arrival - first
        return None if parcel is None or index >= parcel.count else (parcel, index)

    def at(self, txn: Any, arrival: int) -> tuple[Parcel, int] | None:
        """Return the parcel of that arrival number, with its frames, and the message's index in it; None if the message
        is missing or damaged. No other message of the parcel is checked, as anybody may ask for one of many parcels."""
        found = self.row_at(txn, arrival)
        if found is None:
            return None
        parcel, index = found
        if self._cache.get(parcel.first) is parcel:
            return found
        if self._looked_at.get(parcel.first) is not parcel:
            parcel.blob = bytes(txn.get(NUMBER.pack(parcel.first), db=self._frames) or b"")
            self._looked_at.put(parcel)
        return None if parcel.is_damaged(index) else found
