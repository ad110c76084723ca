"""A long life in miniature: parcels of all sizes come and go in a bounded queue, and the file and the commits stay as
they were. LMDB keeps free pages in a list of its own; large parcels need many in a row."""

from __future__ import annotations

import time
from array import array
from collections import deque
from pathlib import Path
from random import Random
from statistics import median

import pytest
from samples.stores import BOOT, KEYS, WALL_S, parcel

from router.core.routing.effects import Changes, Finished
from router.core.routing.parcel import U32, Parcel
from router.core.wire.lifetime import expiry_min
from router.disk.limits import StoreLimits
from router.disk.store.store import Store
from router.disk.store.terms import MapFull

QUEUE_BYTES = 48 << 20
CYCLES = 120_000  # of a second each
LIFE_S = 60
SIZES = [(1, 200)] * 5 + [(1, 4_000), (8, 1_000), (40, 1_000), (200, 1_000), (1, 60_000), (4, 250_000)]  # count, bytes
LIMITS = StoreLimits(synced=False, map_bytes_initial=16 << 20, keep_s=30, keep_bytes_max=8 << 20, cache_bytes_max=0)


class Churn:
    """Every cycle accepts two parcels; messages owed beyond `QUEUE_BYTES` end, mostly the oldest, some at random."""

    def __init__(self, path: Path) -> None:
        self.store = Store(path, LIMITS, BOOT)
        self.store.recover(KEYS[0])
        self.random = Random(8)
        self.samples = [parcel(self.random, 1, WALL_S, count=count, size=size, recipients=1) for count, size in SIZES]
        self.waiting: deque[Parcel] = deque()
        self.bytes = 0
        self.first = 1
        self.wall_s = WALL_S

    def cycle(self) -> float:
        """Run a cycle; return its duration in seconds."""
        self.wall_s += 1
        parcels = [self._next() for _ in range(2)]
        finished = []
        while self.bytes > QUEUE_BYTES:
            one = self.waiting.popleft()
            if self.random.random() < 0.1:
                self.waiting.append(one)  # somebody slow
                continue
            self.bytes -= len(one.blob)
            finished.append(Finished(one.recipients[0], one.first, 0, one.count, len(one.blob)))
        due = self.store.due(self.wall_s)
        changes = Changes(parcels=parcels, finished=finished, defer=[(one.first, 0) for one in due])
        began = time.perf_counter()
        self._commit(changes)
        return time.perf_counter() - began

    def _next(self) -> Parcel:
        """Return one of the samples, with new ids and times."""
        one = self.random.choice(self.samples)
        fresh = Parcel(
            self.first, one.kind, one.signer, one.destination, one.neighbour, one.via, one.recipients, self.wall_s,
            one.blob, one.ends, self.random.randbytes(32 * one.count), one.ttls,
            array(U32, [expiry_min(self.wall_s + LIFE_S)]) * one.count,
            array(U32, [self.wall_s + LIFE_S]) * one.count,
        )  # fmt: skip
        self.first += one.count
        self.bytes += len(one.blob)
        self.waiting.append(fresh)
        return fresh

    def _commit(self, changes: Changes) -> None:
        while True:
            try:
                self.store.apply(changes, self.wall_s)
                self.store.commit()
                return
            except MapFull:
                continue


@pytest.mark.long
def test_a_long_life_neither_grows_the_file_nor_slows_the_commits(tmp_path: Path) -> None:
    churn, took, sizes = Churn(tmp_path), list[float](), list[int]()
    for number in range(CYCLES):
        took.append(churn.cycle())
        if number % 100 == 0:
            sizes.append((tmp_path / "data.mdb").stat().st_size)
    churn.store.close()
    tenth = CYCLES // 10
    early, late = took[tenth : 2 * tenth], took[-tenth:]
    assert sizes[-1] <= 1.05 * sizes[len(sizes) // 2], [size >> 20 for size in sizes[:: len(sizes) // 20]]
    assert sizes[-1] < 2 * (QUEUE_BYTES + LIMITS.keep_bytes_max), "free pages are used again"
    assert median(late) < 2 * median(early), f"{1e3 * median(early):.2f} ms became {1e3 * median(late):.2f} ms"
