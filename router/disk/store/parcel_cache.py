"""The newest parcels, in memory, so that a subscriber a little behind costs no read from the store."""

from __future__ import annotations

from collections import OrderedDict

from router.core.routing.parcel import Parcel
from router.core.wire.crypto import ID_BYTES

PARCEL_BYTES = 1280
"""Bytes of memory for a parcel of one message besides its frame: objects, columns and keys, as measured."""
MESSAGE_BYTES = ID_BYTES + 5 * 4
RECIPIENT_BYTES = 80


class ParcelCache:
    """A cache of at most `bytes_max` of parcels, with their overhead; the oldest goes first. Frames for local services
    (with VIA) are made from a parcel when needed and stay with it, which may double that."""

    def __init__(self, bytes_max: int) -> None:
        self._parcels: OrderedDict[int, Parcel] = OrderedDict()
        self._bytes = 0
        self._bytes_max = bytes_max

    def __repr__(self) -> str:
        return f"<{len(self._parcels)} parcels in memory, {self._bytes} bytes>"

    def get(self, first: int) -> Parcel | None:
        return self._parcels.get(first)

    def put(self, parcel: Parcel) -> None:
        if parcel.first in self._parcels:
            return
        self._parcels[parcel.first] = parcel
        self._bytes += _size(parcel)
        while self._bytes > self._bytes_max:
            _, oldest = self._parcels.popitem(last=False)
            self._bytes -= _size(oldest)

    def drop(self, first: int) -> Parcel | None:
        """Take a parcel out and return it; None if it is not here."""
        parcel = self._parcels.pop(first, None)
        if parcel is not None:
            self._bytes -= _size(parcel)
        return parcel


def _size(parcel: Parcel) -> int:
    more = MESSAGE_BYTES * parcel.count + RECIPIENT_BYTES * len(parcel.recipients)
    return PARCEL_BYTES + len(parcel.blob) + more
