"""The cache of parcels is bounded by its memory, not only by its frames."""

from __future__ import annotations

import os
import tracemalloc
from array import array

import pytest

from router.core.routing.parcel import U32, Parcel
from router.disk.store.parcel_cache import ParcelCache

BYTES_MAX = 1 << 20


def parcel(first: int, count: int, body: int, recipients: int, via: bytes | None) -> Parcel:
    """Return a parcel as it is read from the disk: with keys of its own."""
    ttls, expiries, deadlines = (array(U32, [number + 10**9 for number in range(count)]) for _ in range(3))
    names = tuple(os.urandom(32) for _ in range(recipients))
    frame = b"\x59" + (body - 3).to_bytes(2, "big") + bytes(body - 3)
    blob, ends = frame * count, array(U32, range(body, body * count + 1, body))
    signer, neighbour, ids = os.urandom(32), os.urandom(32), os.urandom(32 * count)
    return Parcel(first, 1, signer, None, neighbour, via, names, 10**9, blob, ends, ids, ttls, expiries, deadlines)


@pytest.mark.parametrize(("count", "body", "recipients"), [(1, 300, 1), (1, 1100, 3), (2, 300, 100), (500, 1100, 1)])
@pytest.mark.parametrize("is_local", [False, True])
def test_it_takes_no_more_memory_than_it_may(count: int, body: int, recipients: int, is_local: bool) -> None:
    cache, first = ParcelCache(BYTES_MAX), 10**12
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(4 * BYTES_MAX // (count * body + 2000)):
            one = parcel(first, count, body, recipients, os.urandom(32) if is_local else None)
            cache.put(one)
            one.frames(0, count, local=is_local)
            first += count
        took = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert took < BYTES_MAX * (2.2 if is_local else 1.1)
    assert cache.get(first - count) is one


def test_what_is_dropped_makes_room() -> None:
    cache = ParcelCache(BYTES_MAX)
    for round_ in range(3):
        for at in range(100):
            cache.put(parcel(round_ * 100 + at, 1, 300, 1, None))
        for at in range(100):
            cache.drop(round_ * 100 + at)
    assert repr(cache) == "<0 parcels in memory, 0 bytes>"
