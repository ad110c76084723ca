"""A memory of many ids in few bytes: the newest ones, in tables that do not grow once they are there (pure)."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

HALF_BYTES = 8
PACKED_BYTES = 2 * HALF_BYTES
"""Bytes that are kept of an id, from its beginning and its end. An id is a digest: to find a second message with the
same 128 bits takes as many hashes as to break the key of its signer."""
BUCKET_IDS = 64
"""Fewest ids for which a bucket has room, if there are several buckets. That 64 of the newest `most` / 3 ids come to
one bucket, where 21 are to be expected, has a chance of 1 in 10^12."""
MADE_PART, MADE_LEAST = 8, 1024
"""When one in so many buckets is in use, all of them are made, so that memory does not grow for hours where few ids
come; not where there are fewer buckets than that, a MiB, since an app has such tables for each group."""


class PackedIds:
    """At most `most` ids, one if it is 0: the newest third for certain, and of the newest half all but one in a
    million.

    The ids are spread over buckets of a fixed size, each of which forgets its oldest one for a new one when it is full.
    So an id takes 16 bytes, and the memory of a large table grows only until an eighth of its buckets have been used,
    which is after some `most` / 480 ids; then all of it is taken, and that of a small table once each has been used. A
    bucket is searched from its beginning; which one it is follows from Python's hash, keyed anew in each process, so
    that nobody can choose ids that crowd one of them."""

    __slots__ = ("_added", "_bucket_bytes", "_bucket_ids", "_buckets", "_unmade")

    def __init__(self, most: int) -> None:
        count = max(1, most // BUCKET_IDS)
        self._bucket_ids = max(1, most // count)
        self._bucket_bytes = PACKED_BYTES * self._bucket_ids
        self._buckets: list[bytearray | None] = [None] * count
        self._unmade = count // MADE_PART if count >= MADE_LEAST else count  # made one by one before the others are
        self._added = array("Q", bytes(8 * count))  # ids ever added to each bucket; the next one's place follows

    def __repr__(self) -> str:
        return f"<{len(self)} ids>"

    def __len__(self) -> int:
        return sum(min(added, self._bucket_ids) for added in self._added)

    def __bool__(self) -> bool:
        return any(self._added)

    def __contains__(self, id: bytes) -> bool:
        at = hash(id) % len(self._buckets)
        bucket = self._buckets[at]
        return bucket is not None and _has(bucket, id[:HALF_BYTES] + id[-HALF_BYTES:], PACKED_BYTES * self._added[at])

    def add(self, id: bytes) -> None:
        """Remember an id as one of the newest; one that is remembered already keeps its place among them."""
        packed, at = id[:HALF_BYTES] + id[-HALF_BYTES:], hash(id) % len(self._buckets)
        bucket, added = self._buckets[at], self._added[at]
        if bucket is None:
            bucket = self._made(at)
        elif _has(bucket, packed, PACKED_BYTES * added):
            return
        place = PACKED_BYTES * (added % self._bucket_ids)
        bucket[place : place + PACKED_BYTES] = packed
        self._added[at] = added + 1

    def _made(self, at: int) -> bytearray:
        """Make a bucket and return it; make all others as well once there are enough of them."""
        bucket = self._buckets[at] = bytearray(self._bucket_bytes)
        self._unmade -= 1
        if not self._unmade:
            self._buckets = [one if one is not None else bytearray(self._bucket_bytes) for one in self._buckets]
        return bucket

    def update(self, ids: Iterable[bytes]) -> None:
        """Remember several ids."""
        for id in ids:
            self.add(id)


def _has(bucket: bytes | bytearray, packed: bytes, stop: int) -> bool:
    """Whether an id stands in the first `stop` bytes of a bucket, or in the whole of it if it is shorter."""
    at = bucket.find(packed, 0, stop)
    while at > 0 and at % PACKED_BYTES:
        at = bucket.find(packed, at + 1, stop)
    return at >= 0
