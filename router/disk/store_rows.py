"""The rows of the store: how parcels, queues and ids lie on disk (cddl/store.cddl). All integers are big endian."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from typing import Any, NamedTuple

import cbor2

from router.core.groups import Subscription
from router.core.parcel import U32, Parcel

VERSION = 1
WORD = struct.Struct(">I")
NUMBER = struct.Struct(">Q")
TIMED = struct.Struct(">IQ")  # a Unix second and a parcel's first arrival number
_ROW = struct.Struct(">II8s8s")
_RUN = struct.Struct(">II")


class QueueRow(NamedTuple):
    """What one recipient is owed of one parcel: `messages` of together `size` bytes in the beginning, less `done`.

    `done` are ascending runs (start, stop) of message indexes that have come to their end.
    """

    messages: int
    size: int
    signer_tag: bytes
    neighbour_tag: bytes
    done: tuple[tuple[int, int], ...] = ()

    def encode(self) -> bytes:
        head = _ROW.pack(self.messages, self.size, self.signer_tag, self.neighbour_tag)
        return head + b"".join(_RUN.pack(*run) for run in self.done)

    @classmethod
    def decode(cls, raw: bytes) -> QueueRow:
        return cls(*_ROW.unpack_from(raw), tuple(_RUN.iter_unpack(raw[_ROW.size :])))  # type: ignore[call-arg]

    def finish(self, start: int, stop: int) -> QueueRow:
        """With start..stop-1 done as well; runs are merged."""
        runs: list[tuple[int, int]] = []
        for one in sorted((*self.done, (start, stop))):
            if runs and one[0] <= runs[-1][1]:
                runs[-1] = runs[-1][0], max(runs[-1][1], one[1])
            else:
                runs.append(one)
        return self._replace(done=tuple(runs))

    @property
    def is_done(self) -> bool:
        return self.done == ((0, self.messages),)

    def owed(self, at: int = 0) -> list[tuple[int, int]]:
        """The runs still owed, from index `at` on."""
        runs = []
        for start, stop in (*self.done, (self.messages, self.messages)):
            if at < start:
                runs.append((at, start))
            at = max(at, stop)
        return runs


def totals(raw: bytes) -> tuple[int, int, bytes, bytes]:
    """Messages, bytes and both tags of a row, without its runs."""
    messages, size, signer, neighbour = _ROW.unpack_from(raw)
    return messages, size, signer, neighbour


def is_untouched(raw: bytes) -> bool:
    return len(raw) == _ROW.size


def encode_parcel(parcel: Parcel) -> bytes:
    return cbor2.dumps(
        [
            VERSION, parcel.kind, parcel.signer, parcel.destination, parcel.neighbour, parcel.via, parcel.at_s,
            list(parcel.recipients), parcel.ids, parcel.ends.tobytes(), parcel.ttls.tobytes(),
            parcel.expiries.tobytes(), parcel.deadlines.tobytes(),
        ]
    )  # fmt: skip


def decode_parcel(first: int, meta: bytes, blob: bytes) -> Parcel:
    _, kind, signer, destination, neighbour, via, at_s, recipients, ids, *columns = cbor2.loads(meta)
    ends, ttls, expiries, deadlines = (array(U32, column) for column in columns)
    return Parcel(
        first=first, kind=kind, signer=signer, destination=destination, neighbour=neighbour, via=via,
        recipients=tuple(recipients), at_s=at_s, blob=blob, ends=ends, ids=ids, ttls=ttls, expiries=expiries,
        deadlines=deadlines,
    )  # fmt: skip


def read_subscription(key: bytes, flags: bytes) -> Subscription:
    return Subscription(bytes(key[:32]), bytes(key[32:]), bool(flags[0] & 1), bool(flags[0] & 2))


def rows_from(cursor: Any, recipient: bytes, position: int) -> Iterator[tuple[int, QueueRow]]:
    """The recipient's rows from the one that may hold `position` on."""
    later = cursor.set_range(recipient + NUMBER.pack(position + 1))
    found = cursor.prev() if later else cursor.last()
    if not found or cursor.key()[:32] != recipient:
        found = cursor.set_range(recipient)
    while found and cursor.key()[:32] == recipient:
        yield NUMBER.unpack(cursor.key()[32:])[0], QueueRow.decode(cursor.value())
        found = cursor.next()
