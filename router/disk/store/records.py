"""What the store holds of a message that somebody asks about, where the log no longer tells of it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import cbor2

from router.core.log.line import KINDS, VERSION, Line
from router.core.routing.parcel import Parcel
from router.core.why.id_prefix import IdPrefix
from router.disk.store.file import in_words
from router.disk.store.id_index import IdIndex
from router.disk.store.parcels import Parcels

LOOKED_AT_MAX = 10_000  # ids that begin as asked, of which most are no longer held
SECOND_NS = 1_000_000_000


class Record(NamedTuple):
    """A message that the store holds, and its acceptance as a line of the log that has no sequence number."""

    identity: bytes
    line: Line


class Records:
    """Reads in transactions of its own; not while a commit runs."""

    def __init__(
        self, path: Path, environment: Any, databases: Mapping[str, Any], ids: IdIndex, parcels: Parcels
    ) -> None:
        self.path = path
        self._env = environment
        self._meta = databases["meta"]
        self._ids = ids
        self._parcels = parcels

    @in_words
    def load(self) -> int:
        """In the stead of `Store.recover`, for who only asks; returns the sequence number that the next event gets."""
        with self._env.begin() as txn:
            arrival, seq, *_ = cbor2.loads(txn.get(b"state", db=self._meta) or b"")
            self._ids.load(txn, arrival)
        return int(seq)

    @in_words
    def accepted(self, prefix: IdPrefix, router: bytes, most: int) -> list[Record]:
        """Messages whose id begins so, at most so many: what is queued, and what is kept for a while after its end."""
        found: dict[bytes, Record] = {}
        with self._env.begin() as txn:
            for identity, arrival in islice(self._ids.arrivals(txn, prefix.whole), LOOKED_AT_MAX):
                if not prefix.fits(identity) or (at := self._parcels.row_at(txn, arrival)) is None:
                    continue
                parcel, index = at
                if parcel.id(index) == identity:
                    found[bytes(identity)] = Record(bytes(identity), _line(parcel, router))
                if len(found) >= most:
                    break
        return list(found.values())


def _line(parcel: Parcel, router: bytes) -> Line:
    """As the log had it, but for what the store does not keep: its time is known to the second."""
    signer, destination = parcel.signer.hex(), parcel.destination
    source, group = (None, signer) if parcel.kind else (signer, None)
    return Line(
        VERSION, "accepted", 0, parcel.count, parcel.at_s * SECOND_NS, router=router.hex(), kind=KINDS[parcel.kind],
        source=source, group=group, destination=None if destination is None else destination.hex(),
        peer=parcel.neighbour.hex(), first=parcel.first, count=parcel.count, ids=parcel.ids.hex(),
        ttls=list(parcel.ttls), expiries=list(parcel.expiries), recipients=[one.hex() for one in parcel.recipients],
    )  # fmt: skip
