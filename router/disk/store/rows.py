"""The rows of the store: the layout of parcels, queues and ids on disk (cddl/store.cddl). Integers are big endian, so
that keys sort; the columns of a parcel are little endian."""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import cbor2
import lmdb

from router.core.log.account import QueuedRow
from router.core.routing.groups import Subscription
from router.core.routing.parcel import Parcel, column_of, words
from router.core.routing.recovered import Backlog, Holding

VERSION = 3
READABLE = (2, VERSION)  # ids of version 2 name no holder; they count as the apps'
WORD = struct.Struct(">I")
NUMBER = struct.Struct(">Q")
TIMED = struct.Struct(">IQ")  # a Unix second and a parcel's first arrival number
_ROW = struct.Struct(">III8s8s")
_RUN = struct.Struct(">II")
KEY_BYTES = 32
ALIKE_MAX = 4096
"""Number of different queue rows that are counted before they are added up."""


class QueueRow(NamedTuple):
    """The part of a parcel that one recipient is owed: `messages` of `size` bytes in all, less `done`.

    `done`: ascending runs (start, stop) of indexes of messages with an outcome; `left`: bytes of the others.
    """

    messages: int
    size: int
    left: int
    signer_tag: bytes
    neighbour_tag: bytes
    done: tuple[tuple[int, int], ...] = ()

    def encode(self) -> bytes:
        head = _ROW.pack(self.messages, self.size, self.left, self.signer_tag, self.neighbour_tag)
        return head + b"".join(_RUN.pack(*run) for run in self.done)

    @classmethod
    def decode(cls, raw: bytes) -> QueueRow:
        return cls(*_ROW.unpack_from(raw), tuple(_RUN.iter_unpack(raw[_ROW.size :])))  # type: ignore[call-arg]

    def finish(self, start: int, stop: int, size: int) -> QueueRow:
        """Return the row with messages start..stop-1, of `size` bytes, done as well; runs are merged."""
        runs: list[tuple[int, int]] = []
        for one in sorted((*self.done, (start, stop))):
            if runs and one[0] <= runs[-1][1]:
                runs[-1] = runs[-1][0], max(runs[-1][1], one[1])
            else:
                runs.append(one)
        return self._replace(left=max(0, self.left - size), done=tuple(runs))

    @property
    def is_done(self) -> bool:
        return self.done == ((0, self.messages),)

    def owed(self, at: int = 0) -> list[tuple[int, int]]:
        """Return the runs still owed, from index `at` on."""
        runs = []
        for start, stop in (*self.done, (self.messages, self.messages)):
            if at < start:
                runs.append((at, start))
            at = max(at, stop)
        return runs


def totals(raw: bytes) -> tuple[int, int, bytes, bytes]:
    """Return the messages and bytes that a row still owes, and both its tags."""
    messages, _, left, signer, neighbour = _ROW.unpack_from(raw)
    if len(raw) > _ROW.size:
        messages -= sum(stop - start for start, stop in _RUN.iter_unpack(raw[_ROW.size :]))
    return messages, left, signer, neighbour


def encode_parcel(parcel: Parcel) -> bytes:
    """Return the row of a parcel: CBOR, whose last item is a checksum of what is before it."""
    row = cbor2.dumps(
        [
            VERSION,
            parcel.kind,
            parcel.signer,
            parcel.destination,
            parcel.neighbour,
            parcel.via,
            parcel.at_s,
            list(parcel.recipients),
            parcel.ids,
            words(parcel.ends),
            words(parcel.ttls),
            words(parcel.expiries),
            words(parcel.deadlines),
            *((True,) if parcel.is_copy else ()),
            bytes(WORD.size),
        ]
    )[: -WORD.size]
    return row + _checksum(parcel.first, row)


def decode_parcel(first: int, row: bytes, blob: bytes) -> Parcel | None:
    """Return the parcel, or None if the row is not the one written under that number."""
    if row[-WORD.size :] != _checksum(first, row[: -WORD.size]):
        return None
    _, kind, signer, destination, neighbour, via, at_s, recipients, ids, *columns, _ = cbor2.loads(row)
    ends, ttls, expiries, deadlines = map(column_of, columns[:4])
    return Parcel(
        first=first,
        kind=kind,
        signer=signer,
        destination=destination,
        neighbour=neighbour,
        via=via,
        recipients=tuple(recipients),
        at_s=at_s,
        blob=blob,
        ends=ends,
        ids=ids,
        ttls=ttls,
        expiries=expiries,
        deadlines=deadlines,
        indexed=len(columns) == 4,
    )


class Listed(NamedTuple):
    """The part of a parcel that is listed: the Unix second of its arrival, and the id and expiry minute of each
    message."""

    at_s: int
    ids: bytes
    expiries: Sequence[int]


def decode_listed(first: int, row: bytes) -> Listed | None:
    """Return what is listed of a parcel, at half the cost of `decode_parcel`; None if the row is not the one written
    under that number."""
    if row[-WORD.size :] != _checksum(first, row[: -WORD.size]):
        return None
    fields = cbor2.loads(row)
    return Listed(fields[6], fields[8], column_of(fields[11]))


def _checksum(first: int, row: bytes) -> bytes:
    return WORD.pack(zlib.crc32(row, first & 0xFFFF_FFFF))


def read_subscription(key: bytes, flags: bytes) -> Subscription:
    return Subscription(bytes(key[:32]), bytes(key[32:]), bool(flags[0] & 1), bool(flags[0] & 2))


def ascending(before: Any, after: Any) -> None:
    """Raise `CorruptedError` unless the key is greater than `after`: on keys out of order a walk by seeks would never
    end."""
    if after <= before:
        raise lmdb.CorruptedError("keys are out of order")


def rows_from(cursor: Any, recipient: bytes, position: int) -> Iterator[tuple[int, QueueRow]]:
    """Yield the recipient's rows from the one that may hold `position` on."""
    later = cursor.set_range(recipient + NUMBER.pack(position + 1))
    found = cursor.prev() if later else cursor.last()
    if not found or cursor.key()[:32] != recipient:
        found = cursor.set_range(recipient)
    last = -1
    while found and cursor.key()[:32] == recipient:
        [first] = NUMBER.unpack(cursor.key()[32:])
        ascending(last, first)
        yield first, QueueRow.decode(cursor.value())
        last, found = first, cursor.next()


def queued_after(cursor: Any, after: bytes, most: int) -> list[QueuedRow]:
    """Return at most `most` rows of the queues whose keys are behind `after`, in order."""
    rows: list[QueuedRow] = []
    found = cursor.set_range(after)
    if found and bytes(cursor.key()) == after:
        found = cursor.next()
    last = after
    while found and len(rows) < most:
        key = bytes(cursor.key())
        ascending(last, key)
        [first] = NUMBER.unpack(key[KEY_BYTES:])
        raw = cursor.value()
        whole = len(raw) == _ROW.size
        runs = ((0, WORD.unpack_from(raw)[0]),) if whole else tuple(QueueRow.decode(raw).owed())
        rows.append(QueuedRow(key[:KEY_BYTES], first, runs))
        last, found = key, cursor.next()
    return rows


def move_rows(txn: Any, queues: Any, moved: Iterable[tuple[bytes, bytes]]) -> None:
    """Give all rows of a recipient's queue to another key, which has none."""
    for recipient, to in moved:
        with txn.cursor(queues) as cursor:
            while cursor.set_range(recipient) and (key := bytes(cursor.key()))[:KEY_BYTES] == recipient:
                row = bytes(cursor.value())
                cursor.delete()
                txn.put(to + key[KEY_BYTES:], row, db=queues)


def backlog(txn: Any, queues: Any, pending: Any) -> tuple[list[Backlog], list[Holding]]:
    """Return the sums of all queue rows, and of the parcels they belong to.

    A parcel for n recipients has n rows; in each it counts as an n-th, so that the sums are whole.
    """
    sums: dict[tuple[bytes, bytes, bytes], list[int]] = {}
    parts: dict[tuple[bytes, int], list[int]] = {}
    shared = txn.stat(pending)["entries"]
    alike: Counter[tuple[bytes, bytes, bytes | None]] = Counter()
    for key, raw in txn.cursor(queues):
        alike[key[:KEY_BYTES], raw, txn.get(key[KEY_BYTES:], db=pending) if shared else None] += 1
        if len(alike) >= ALIKE_MAX:
            _add_up(alike, sums, parts)
            alike.clear()
    _add_up(alike, sums, parts)
    held: dict[bytes, list[int]] = {}
    for (neighbour, recipients), (messages, size) in parts.items():
        whole = held.setdefault(neighbour, [0, 0])
        whole[0] += messages // recipients
        whole[1] += size // recipients
    backlogs = [Backlog(*who, messages, size) for who, (messages, size) in sums.items()]
    return backlogs, [Holding(neighbour, messages, size) for neighbour, (messages, size) in held.items()]


def _add_up(
    alike: Mapping[tuple[bytes, bytes, bytes | None], int],
    sums: dict[tuple[bytes, bytes, bytes], list[int]],
    parts: dict[tuple[bytes, int], list[int]],
) -> None:
    """Add up counted rows. Rows of small parcels are mostly equal, so each different row is decoded once."""
    for (recipient, raw, several), times in alike.items():
        messages, size, _, signer, neighbour = _ROW.unpack_from(raw)
        owed, left, *_ = totals(raw)
        total = sums.setdefault((recipient, signer, neighbour), [0, 0])
        total[0] += times * owed
        total[1] += times * left
        part = parts.setdefault((neighbour, WORD.unpack(several)[0] if several else 1), [0, 0])
        part[0] += times * messages
        part[1] += times * size


def owing(cursor: Any, first: int) -> Iterator[tuple[bytes, QueueRow]]:
    """Yield each recipient that is owed something of that parcel, and its row: one seek per recipient of the store."""
    found, last = cursor.first(), b""
    while found:
        recipient, wanted = bytes(cursor.key()[:32]), NUMBER.pack(first)
        ascending(last, recipient)
        last = recipient
        if cursor.set_range(recipient + wanted) and cursor.key() == recipient + wanted:
            yield recipient, QueueRow.decode(cursor.value())
        found = cursor.set_range(recipient + b"\xff" * 9)
