"""Messages that the store still holds, for questions that the log does not answer any more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import cbor2

from router.core.log.line import KINDS, VERSION, Line
from router.core.neighbours.successors import RENEWED, SUCCEEDED, Successor
from router.core.routing.parcel import Parcel
from router.core.why.id_prefix import IdPrefix
from router.disk.store.file import in_words
from router.disk.store.history import History, Page
from router.disk.store.id_index import IdIndex
from router.disk.store.parcels import Parcels

LOOKED_AT_MAX = 10_000  # ids with the wanted prefix; most are no longer held
SECOND_NS = 1_000_000_000


class Record(NamedTuple):
    """A message that the store holds, and its acceptance as a log line without a sequence number."""

    identity: bytes
    line: Line


class Records:
    """Reads in separate transactions, which must not run during a commit."""

    def __init__(
        self,
        path: Path,
        environment: Any,
        databases: Mapping[str, Any],
        ids: IdIndex,
        parcels: Parcels,
        history: History,
    ) -> None:
        self.path = path
        self._env = environment
        self._meta = databases["meta"]
        self._book = databases["book"]
        self._ids = ids
        self._parcels = parcels
        self._history = history

    @in_words
    def load(self) -> int:
        """Load the index of ids and return the next event's sequence number: the lightweight alternative to
        `Store.recover` for read-only callers."""
        with self._env.begin() as txn:
            arrival, seq, *_ = cbor2.loads(txn.get(b"state", db=self._meta) or b"")
            self._ids.load(txn, arrival)
        return int(seq)

    @in_words
    def newest(self, key: bytes) -> bytes:
        """Return the key that has the place of this one: itself, if it was not renewed."""
        with self._env.begin() as txn:
            kinds = RENEWED, SUCCEEDED
            while found := [(one + key, row) for one in kinds if (row := txn.get(one + key, db=self._book))]:
                key = Successor.from_row(*found[0]).new
        return key

    @in_words
    def knows(self, identity: bytes) -> bool:
        """Whether the duplicate index holds an id, whatever its expiry; a skip scan over the expiry minutes."""
        with self._env.begin() as txn:
            return any(True for _ in self._ids.arrivals(txn, identity))

    @in_words
    def held(self, group: bytes, after: int, most: int, since_s: int = 0) -> Page:
        """Return messages of a group that the store holds, queued ones and history, in the order of arrival.

        They arrived after the number `after`, and at second `since_s` or later; only whole parcels are returned, so
        there may be a few more than `most`."""
        with self._env.begin() as txn:
            return self._history.page(txn, group, after, most, since_s)

    @in_words
    def known(self, asked: Sequence[tuple[int, bytes]]) -> set[bytes]:
        """Return which of these ids the duplicate index holds, by (expiry minute, id); with minute 0 (unknown) every
        minute is searched."""
        with self._env.begin() as txn:
            found = self._ids.known(txn, [one for one in asked if one[0]])
            for minute, identity in asked:
                if not minute and any(True for _ in self._ids.arrivals(txn, identity)):
                    found.add(identity)
        return found

    @in_words
    def accepted(self, prefix: IdPrefix, router: bytes, most: int) -> list[Record]:
        """Return at most `most` messages whose id begins with `prefix`: queued ones, and settled ones that are still
        kept."""
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
    """Return the acceptance as it was logged, as far as the store has its values: the time is in whole seconds."""
    signer, destination = parcel.signer.hex(), parcel.destination
    source, group = (None, signer) if parcel.kind else (signer, None)
    return Line(
        VERSION,
        "accepted",
        0,
        parcel.count,
        parcel.at_s * SECOND_NS,
        router=router.hex(),
        kind=KINDS[parcel.kind],
        source=source,
        group=group,
        destination=None if destination is None else destination.hex(),
        peer=parcel.neighbour.hex(),
        first=parcel.first,
        count=parcel.count,
        ids=parcel.ids.hex(),
        ttls=list(parcel.ttls),
        expiries=list(parcel.expiries),
        recipients=[one.hex() for one in parcel.recipients],
    )
