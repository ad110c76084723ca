"""Handled ids and heads that are on disk before they are in the state: a log in the file of a journal.

A transaction of LMDB syncs twice, an append here once. So what only says that messages were handled is appended, and
goes into the state together with what commits next there, or when the log is full. The file is held by one process,
which has its content in memory. A record counts if its checksum fits and its number follows that of the last one; the
state remembers the number up to which all are in it, so the log is written from its beginning again without being
cleared.

    record   size(4) CRC-32(4) of the rest, number(8), count(4) of ids, journal(8) id(32) minute(4) of each;
             then of each group: journal(8) group(32), count(4) of heads, id(32) minute(4) of each
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from zlib import crc32

from router.disk.state.app_rows import AppBatch, Until

LOG_FROM, LOG_BYTES = 4096, 256 * 1024
_HEAD, _NUMBER, _COUNT = struct.Struct(">II"), struct.Struct(">Q"), struct.Struct(">I")
_PLACE_BYTES, _ID_BYTES = 40, 32


class HandledLog:
    """The log in an open file, whose rows up to the record `folded` are in the state."""

    def __init__(self, descriptor: int, folded: int) -> None:
        self._descriptor = descriptor
        self.number = folded
        """The number of the last record."""
        self.waiting = AppBatch()
        """What is in the log and not in the state."""
        self._at = LOG_FROM
        self._handled: set[bytes] = set()
        if os.fstat(descriptor).st_size < LOG_FROM + LOG_BYTES:  # overwriting is cheaper than growing
            os.pwrite(descriptor, bytes(LOG_BYTES), LOG_FROM)
            os.fsync(descriptor)
        else:
            self._replay()

    def __repr__(self) -> str:
        return f"<log of handled messages: {len(self._handled)} wait, {self._at - LOG_FROM} bytes>"

    def __contains__(self, key: bytes) -> bool:
        return key in self._handled

    @property
    def is_empty(self) -> bool:
        return self._at == LOG_FROM

    def append(self, batch: AppBatch) -> bool:
        """Write what a batch says of handled messages, and sync it; return False if there is no room for it. Raise
        `OSError`."""
        record = _record(self.number + 1, batch)
        if self._at + len(record) > LOG_FROM + LOG_BYTES:
            return False
        os.pwrite(self._descriptor, record, self._at)
        os.fdatasync(self._descriptor)
        self._at += len(record)
        self._add(batch)
        return True

    def _add(self, batch: AppBatch) -> None:
        self.number += 1
        self.waiting.take(batch)
        self._handled.update(key for key, _ in batch.handled)

    def folded(self) -> None:
        """Begin anew, once all of it is in the state and on disk there."""
        self.waiting, self._handled, self._at = AppBatch(), set(), LOG_FROM

    def _replay(self) -> None:
        data, at, last = os.pread(self._descriptor, LOG_BYTES, LOG_FROM), 0, -1
        while at + _HEAD.size <= len(data):
            size, checksum = _HEAD.unpack_from(data, at)
            rest = data[at + _HEAD.size : at + size]
            if size <= _HEAD.size or len(rest) != size - _HEAD.size or crc32(rest) != checksum:
                return
            [number] = _NUMBER.unpack_from(rest)
            if number > self.number + 1 or last not in (-1, number - 1):
                return
            at, last = at + size, number
            if number > self.number:  # it may follow others that are in the state, if their end was not learned of
                self._add(_batch_in(rest))
                self._at = LOG_FROM + at


def _record(number: int, batch: AppBatch) -> bytes:
    parts = [_NUMBER.pack(number), _COUNT.pack(len(batch.handled)), *_packed(batch.handled)]
    for place, heads in batch.heads.items():
        parts += [place, _COUNT.pack(len(heads)), *_packed(heads)]
    rest = b"".join(parts)
    return _HEAD.pack(_HEAD.size + len(rest), crc32(rest)) + rest


def _packed(rows: Sequence[Until]) -> Iterator[bytes]:
    return (key + _COUNT.pack(until_min) for key, until_min in rows)


def _batch_in(rest: bytes) -> AppBatch:
    batch, at = AppBatch(), _NUMBER.size
    batch.handled, at = _rows_at(rest, at, _PLACE_BYTES)
    while at < len(rest):
        place = rest[at : at + _PLACE_BYTES]
        batch.heads[place], at = _rows_at(rest, at + _PLACE_BYTES, _ID_BYTES)
    return batch


def _rows_at(rest: bytes, at: int, key_bytes: int) -> tuple[list[Until], int]:
    [count] = _COUNT.unpack_from(rest, at)
    first, size = at + _COUNT.size, key_bytes + _COUNT.size
    places = range(first, first + count * size, size)
    return [(rest[one : one + key_bytes], _COUNT.unpack_from(rest, one + key_bytes)[0]) for one in places], (
        first + count * size
    )
