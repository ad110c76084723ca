"""The node's own log while it runs: a thread waits for the disk, and events committed meanwhile keep their order."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
from rigs.patience import HANG_S
from samples.log_facts import read_log
from samples.logs import KEY, names, outward, problems
from samples.stores import apply, opened

from router.core.routing.effects import Changes
from router.core.wire.now import Now
from router.disk.limits import LogLimits
from router.disk.log.eventlog import Segments
from router.disk.log.logbook import Logbook
from router.disk.log.sealer import IDLE_S

BIG = 40  # events that fill a segment


class Pair:
    """A store and its logbook, as the message router uses them; every commit brings that many events."""

    def __init__(self, path: Path, mono_s: float = 1.0) -> None:
        self.path = path
        self.store = opened(path / "store")
        self.book = self._open()
        self.mono_s = mono_s

    def _open(self) -> Logbook:
        return Logbook(Segments(self.path / "log", KEY, LogLimits(segment_bytes=4000)), self.store, 1e9, 1 << 40)

    def now(self) -> Now:
        return Now(10**18, int(self.mono_s * 1e9))

    def commit(self, events: int = BIG) -> None:
        changes = Changes(events=[outward(9) for _ in range(events)])
        applied = self.store.apply(changes, 9)
        self.store.commit()
        assert applied.logged is not None
        self.book.committed(applied.logged, self.now())

    def tick(self) -> int:
        self.mono_s += 1
        sealed = self.book.sealed(self.now())
        if sealed:
            self.store.log_is_sealed(sealed)
            apply(self.store, Changes())
        return sealed

    async def tidy(self) -> None:
        await self.book.tidy(self.now())

    def in_store(self) -> list[int]:
        return [seq for seq, _ in self.store.log_values(0, 999)]

    def sealed_runs(self) -> list[tuple[int, int]]:
        found = read_log(self.path / "log", KEY.public).evidence
        return [(seal.first_seq, seal.last_seq) for seal in found.seals]

    def close(self) -> None:
        self.book.close()
        self.store.close()


@contextmanager
def a_pair(path: Path) -> Iterator[Pair]:
    pair = Pair(path)
    pair.tick()
    try:
        yield pair
    finally:
        pair.close()
        assert problems(path / "log") == []


class SlowDisk:
    """`os.fsync` that waits until it is released, or fails."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.may_go = threading.Event(), threading.Event()
        self.failure: OSError | None = None
        self.threads: set[int] = set()
        self._fsync = os.fsync
        monkeypatch.setattr("router.disk.log.eventlog.os.fsync", self.fsync)

    def fsync(self, descriptor: int) -> None:
        self.threads.add(threading.get_ident())
        self.reached.set()
        assert self.may_go.wait(HANG_S)
        if self.failure is not None:
            raise self.failure
        self._fsync(descriptor)

    async def until_reached(self) -> None:
        assert await trio.to_thread.run_sync(self.reached.wait, HANG_S)


async def test_the_loop_goes_on_while_a_segment_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with a_pair(tmp_path) as pair:
        disk = SlowDisk(monkeypatch)
        pair.commit()
        assert pair.book.is_due(pair.now())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pair.tidy)
            await disk.until_reached()
            for _ in range(3):
                pair.commit()
                assert pair.tick() == 0, "nothing may be forgotten before it is on the disk"
            assert not pair.book.is_due(pair.now()), "one after the other"
            assert pair.in_store() == [1, 41, 81, 121] and pair.sealed_runs() == []
            disk.may_go.set()
        assert threading.get_ident() not in disk.threads
        assert pair.tick() == 40 and pair.tick() == 0 and pair.in_store() == [41, 81, 121]
        assert pair.book.is_due(pair.now())
        await pair.tidy()
        assert pair.tick() == 160 and pair.in_store() == []
        assert pair.sealed_runs() == [(1, 40), (41, 160)]


async def test_a_disk_that_takes_no_segment_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events committed meanwhile are in a segment that names the failed one: both are made again from the store."""
    with a_pair(tmp_path) as pair:
        disk = SlowDisk(monkeypatch)
        disk.failure = OSError(28, "No space left on device")
        pair.commit()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pair.tidy)
            await disk.until_reached()
            pair.commit()
            disk.may_go.set()
        pair.commit(2)
        assert names(tmp_path / "log") == [] and pair.book.head() is None
        disk.failure = None
        assert pair.tick() == 0 and pair.book.is_due(pair.now())
        await pair.tidy()
        assert pair.tick() == 82 and pair.sealed_runs() == [(1, 82)] and pair.in_store() == []


async def test_a_node_that_ends_before_the_thread_began_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    with a_pair(tmp_path) as pair:
        pair.commit()
        with trio.CancelScope() as scope:
            scope.cancel()
            await pair.tidy()
        assert pair.tick() == 0 and pair.in_store() == [1] and pair.sealed_runs() == []
        pair.book.close()
        pair.book = pair._open()
        pair.tick()
        await pair.tidy()
        assert pair.tick() == 40 and pair.sealed_runs() == [(1, 40)]


async def test_a_segment_that_got_its_name_but_was_not_forgotten_is_not_doubled(tmp_path: Path) -> None:
    """The crash comes between the thread's rename and the transaction that deletes the values."""
    with a_pair(tmp_path) as pair:
        pair.commit()
        await pair.tidy()
        pair.book.close()
        pair.book = pair._open()
        pair.tick()
        pair.commit()
        await pair.tidy()
        assert pair.tick() == 80 and pair.sealed_runs() == [(1, 40), (41, 80)] and pair.in_store() == []


async def test_what_is_committed_can_be_looked_up_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search covers sealed segments, the one being closed and the open one, but not events that the disk did not
    take."""
    with a_pair(tmp_path) as pair:

        def reach() -> tuple[int, list[tuple[int, int]], bool]:
            log = pair.book.log()
            return len(log.sealed), [(one.first_seq, one.last_seq) for one in log.unsealed], log.is_behind

        pair.commit()
        await pair.tidy()
        disk = SlowDisk(monkeypatch)
        pair.commit()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pair.tidy)
            await disk.until_reached()
            pair.commit(2)
            assert reach() == (1, [(41, 80), (81, 82)], False)
            disk.failure = OSError(28, "No space left on device")
            disk.may_go.set()
        assert reach() == (1, [], True)
        disk.failure = None
        pair.tick()
        assert reach() == (1, [(41, 82)], False)


def test_a_log_is_idle_when_nothing_was_logged_while_a_segment_may_stay_open(tmp_path: Path) -> None:
    with a_pair(tmp_path) as pair:
        pair.book = Logbook(Segments(tmp_path / "log", KEY, LogLimits(segment_s=30)), pair.store, 1e9, 1 << 40)
        pair.commit(1)
        pair.mono_s += 99
        assert not pair.book.is_idle(pair.now()), "what waits in the store comes first"
        pair.tick()
        assert not pair.book.is_idle(pair.now())
        pair.mono_s += 29
        pair.commit(1)
        pair.mono_s += 29
        assert not pair.book.is_idle(pair.now())
        pair.mono_s += 1
        assert pair.book.is_idle(pair.now())
        pair.commit(1)
        assert not pair.book.is_idle(pair.now())


def test_a_log_with_short_segments_is_idle_after_ten_seconds(tmp_path: Path) -> None:
    with a_pair(tmp_path) as pair:
        pair.book = Logbook(Segments(tmp_path / "log", KEY, LogLimits(segment_s=1)), pair.store, 1e9, 1 << 40)
        pair.tick()
        pair.commit(1)
        pair.mono_s += IDLE_S - 1
        assert not pair.book.is_idle(pair.now())
        pair.mono_s += 1
        assert pair.book.is_idle(pair.now())
