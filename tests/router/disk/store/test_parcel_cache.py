"""The cache of parcels is bounded by its memory, not only by its frames."""

from __future__ import annotations

import os
import tracemalloc
from array import array
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from samples.stores import KEYS, WALL_S, apply, opened
from samples.stores import parcel as stored

from router.core.routing.effects import Changes, Finished
from router.core.routing.parcel import U32, Parcel
from router.disk.limits import StoreLimits
from router.disk.store.parcel_cache import ParcelCache
from router.disk.store.parcels import LOOKED_AT_PART

BYTES_MAX = 1 << 20
CACHE_BYTES_MAX = 64 << 10


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


@pytest.mark.parametrize(("keep_s", "history_s"), [(600, 0), (600, 3600), (0, 0)])
def test_what_is_owed_to_nobody_gives_its_memory_back(tmp_path: Path, keep_s: int, history_s: int) -> None:
    """The cache is for what is owed. Of the rest a small part stays, for those who ask for single messages."""
    limits = StoreLimits(synced=False, keep_s=keep_s, history_s=history_s, cache_bytes_max=CACHE_BYTES_MAX)
    store = opened(tmp_path, limits)
    store.keep_history_for(KEYS[1])
    shown = set[str]()
    for first in range(1, 201):
        one = replace(stored(Random(first), first, WALL_S, count=1, size=300), recipients=(KEYS[1], KEYS[2]))
        apply(store, Changes(parcels=[one]))
        ends = [Finished(key, first, 0, 1, one.size(0, 1)) for key in one.recipients]
        apply(store, Changes(finished=ends[:1]))
        assert repr(store._parcels).startswith("<owed: <1 parcels in memory, ")
        apply(store, Changes(finished=ends[1:]))
        shown.add(repr(store._parcels))
    [owed], settled = {one.partition(";")[0] for one in shown}, [one.partition("at: <")[2] for one in shown]
    assert owed == "<owed: <0 parcels in memory, 0 bytes>"
    counts = [(int(words[0]), int(words[4])) for words in map(str.split, settled)]
    assert max(size for _, size in counts) <= CACHE_BYTES_MAX // LOOKED_AT_PART
    assert max(number for number, _ in counts) == (4 if keep_s else 0)
    store.close()
