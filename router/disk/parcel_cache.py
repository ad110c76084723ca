"""The parcels accepted last, in memory, so that a subscriber a little behind costs no read from the store."""

from __future__ import annotations

from collections import OrderedDict

from router.core.parcel import Parcel


class ParcelCache:
    """At most `bytes_max` of frames; the oldest parcel goes first."""

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
        self._bytes += len(parcel.blob)
        while self._bytes > self._bytes_max:
            _, oldest = self._parcels.popitem(last=False)
            self._bytes -= len(oldest.blob)

    def drop(self, first: int) -> None:
        parcel = self._parcels.pop(first, None)
        if parcel is not None:
            self._bytes -= len(parcel.blob)
