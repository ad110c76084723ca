"""A memory of many ids in few bytes: the newest ones, packed into byte strings (pure)."""

from __future__ import annotations

from collections.abc import Iterable

HALF_BYTES = 8
PACKED_BYTES = 2 * HALF_BYTES
"""Bytes that are kept of an id, from its beginning and its end. An id is a digest: to find a second message with the
same 128 bits takes as many hashes as to break the key of its signer."""
BUCKET_IDS, BUCKETS_MAX = 16, 1 << 16
"""Ids in a bucket, on average, when a generation is full; and most buckets, of which more would cost memory while they
are empty."""


class PackedIds:
    """At most `most` ids in two generations: when the younger one is full, the older one is forgotten as a whole.

    An id takes some 20 bytes of memory, where a set takes 130. A bucket is searched from its beginning; which one it is
    follows from Python's hash, keyed anew in each process, so that nobody can choose ids that crowd one of them."""

    __slots__ = ("_half", "_old", "_old_count", "_young", "_young_count")

    def __init__(self, most: int) -> None:
        self._half = max(1, most // 2)
        self._young, self._old = self._empty(), self._empty()
        self._young_count = self._old_count = 0

    def __repr__(self) -> str:
        return f"<{len(self)} ids>"

    def _empty(self) -> list[bytes]:
        return [b""] * min(BUCKETS_MAX, max(1, self._half // BUCKET_IDS))

    def __len__(self) -> int:
        return self._young_count + self._old_count

    def __contains__(self, id: bytes) -> bool:
        packed, at = id[:HALF_BYTES] + id[-HALF_BYTES:], hash(id) % len(self._young)
        for bucket in (self._young[at], self._old[at]):
            if (found := bucket.find(packed)) >= 0 and (not found % PACKED_BYTES or _place(bucket, packed) >= 0):
                return True
        return False

    def add(self, id: bytes) -> None:
        """Remember an id as one of the newest."""
        packed, young = id[:HALF_BYTES] + id[-HALF_BYTES:], self._young
        at = hash(id) % len(young)
        bucket = young[at]
        if bucket.find(packed) >= 0 and _place(bucket, packed) >= 0:
            return
        young[at] = bucket + packed
        self._young_count += 1
        if self._young_count >= self._half:
            self._old, self._old_count = young, self._young_count
            self._young, self._young_count = self._empty(), 0

    def update(self, ids: Iterable[bytes]) -> None:
        """Remember several ids."""
        for id in ids:
            self.add(id)

    def discard(self, id: bytes) -> None:
        """Forget an id, if it is remembered."""
        packed, at = id[:HALF_BYTES] + id[-HALF_BYTES:], hash(id) % len(self._young)
        for is_old, buckets in enumerate((self._young, self._old)):
            bucket = buckets[at]
            if (place := _place(bucket, packed)) >= 0:
                buckets[at] = bucket[:place] + bucket[place + PACKED_BYTES :]
                self._old_count -= is_old
                self._young_count -= 1 - is_old


def _place(bucket: bytes, packed: bytes) -> int:
    """Return where an id stands in a bucket; a negative number if it is not there."""
    at = bucket.find(packed)
    while at > 0 and at % PACKED_BYTES:
        at = bucket.find(packed, at + 1)
    return at
