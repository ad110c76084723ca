"""The manifest of a snapshot in a file, looked up from its end before the rest is read: which files a home is going to
have, and how much room they take.

The manifest is the last record, in the last pieces. A record has no mark that would tell where it begins, so each place
is tried that can be the beginning of a manifest which reaches exactly to the end, and has the digest that it names.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from blake3 import blake3

from router.disk.snapshot.form import (
    LAST,
    MANIFEST,
    MANIFEST_BYTES_MAX,
    PACKED,
    PIECE_BYTES,
    PIECE_BYTES_MAX,
    RECORD,
    SnapshotReader,
    manifest_of,
)
from router.disk.snapshot.terms import ALTERED, CUT, LENGTH, Manifest, SnapshotFault

PIECES_MAX = MANIFEST_BYTES_MAX // PIECE_BYTES + 2
"""In how many of the last pieces a manifest can be: all but the last have at least `PIECE_BYTES`."""
TRIES_MAX = 100
"""How many places are tried that have the right length: by chance there is hardly one, and each takes a digest."""
_DIGEST_BYTES = 32


class _Place(NamedTuple):
    number: int
    said: int  # the field of its length
    at: int
    size: int


def manifest_ahead(reader: SnapshotReader, descriptor: int) -> Manifest | None:
    """Return the manifest of the snapshot that the reader reads from the beginning of this file; None if it cannot be
    looked up: a pipe, or a version whose pieces are opened one after the other. Only the manifest is proven by that,
    none of the bytes before it. Raise `SnapshotFault`."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode) or not reader.has_single_pieces:
        return None
    tail, tries = b"", TRIES_MAX
    for place in reversed(_last_places(descriptor, len(reader.head))):
        piece = reader.opened(place.number, place.said, _exactly(descriptor, place.size, place.at))
        tail = piece + tail
        for at in _beginnings(tail, len(piece)):
            payload = memoryview(tail)[at + RECORD.size :]
            if blake3(payload[_DIGEST_BYTES:]).digest() == payload[:_DIGEST_BYTES]:
                return manifest_of(payload)
            tries -= 1
            if not tries:
                raise SnapshotFault(ALTERED)
    raise SnapshotFault(ALTERED)


def _last_places(descriptor: int, at: int) -> deque[_Place]:
    """Return where the last pieces are, of those from `at` on."""
    found, number, said = deque[_Place](maxlen=PIECES_MAX), 0, 0
    while not said & LAST:
        [said] = LENGTH.unpack(_exactly(descriptor, LENGTH.size, at))
        size = said & ~(LAST | PACKED)
        if not 0 < size <= PIECE_BYTES_MAX:
            raise SnapshotFault(ALTERED)
        at += LENGTH.size
        found.append(_Place(number, said, at, size))
        number, at = number + 1, at + size
    return found


def _exactly(descriptor: int, size: int, at: int) -> bytes:
    found = os.pread(descriptor, size, at)
    if len(found) != size:
        raise SnapshotFault(CUT)
    return found


def _beginnings(tail: bytes, size: int) -> Iterator[int]:
    """Yield the places in the first `size` bytes from which a manifest would reach exactly to the end, the last one
    first: what is before the manifest may be of somebody else's choice."""
    end = min(size, len(tail) - RECORD.size - _DIGEST_BYTES + 1)
    while end > 0 and (at := tail.rfind(MANIFEST, 0, end)) >= 0:
        if RECORD.unpack_from(tail, at)[1] == len(tail) - at - RECORD.size <= MANIFEST_BYTES_MAX:
            yield at
        end = at
