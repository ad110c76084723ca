"""A copy of the store's file is of one moment: commits wait for it, and one that did not wait is noticed."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from contextlib import closing, nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from samples.stores import BOOT, KEYS, LIMITS

from router.core.routing.effects import Changes
from router.disk.store import rest
from router.disk.store.commit_thread import CommitThread
from router.disk.store.rest import Disturbed, Rest, at_rest
from router.disk.store.store import Store
from router.disk.store.terms import Beginning


def test_the_stores_commits_wait_for_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Store(tmp_path, LIMITS, BOOT)) as store:
        copy, waited = os.open(tmp_path / "data.mdb", os.O_RDONLY), list[float]()

        def end_the_copy(seconds: float) -> None:
            waited.append(seconds)
            fcntl.flock(copy, fcntl.LOCK_UN)

        def commit() -> None:
            store.apply(Changes(), 0)
            store.commit()

        monkeypatch.setattr(rest, "time", SimpleNamespace(monotonic=time.monotonic, sleep=end_the_copy))
        writes: tuple[Callable[[], object], ...] = (
            lambda: store.recover(KEYS[0], Beginning()),
            commit,
            lambda: store.renumber(1, Beginning()),
        )
        for count, write in enumerate(writes, 1):
            fcntl.flock(copy, fcntl.LOCK_EX)
            write()
            assert len(waited) == count
        os.close(copy)


def test_no_commit_waits_in_the_loop_for_a_copy(tmp_path: Path) -> None:
    """While a copy begins, transactions go to the thread, whose waiting holds up nobody."""
    with closing(CommitThread()) as commits, closing(Store(tmp_path, LIMITS, BOOT, commits)) as store:
        store.recover(KEYS[0], Beginning())
        for began_s in range(100):
            commits.speed.observe(began_s, began_s)
        where = []
        for is_copied in (False, True, False):
            with at_rest(tmp_path / "data.mdb") if is_copied else nullcontext():
                store.apply(Changes(), 0)
                where.append(store.turns.is_here)
            store.commit()
        assert where == [True, False, True]


def test_a_copy_that_was_stopped_holds_up_one_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "data.mdb"
    file.touch()
    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda seconds: now.append(now.pop() + seconds))
    monkeypatch.setattr(rest, "time", clock)  # of that module alone: other threads of this process sleep, too
    with closing(Rest(file, wait_s=10)) as commits:
        with at_rest(file):
            for _ in range(3):
                with commits.disturbed():
                    assert 10 <= now[0] < 10.1
        with commits.disturbed(), pytest.raises(BlockingIOError), file.open() as copy:
            fcntl.flock(copy, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with at_rest(file), commits.disturbed():
            assert 20 <= now[0] < 20.2


def test_a_copy_during_which_a_commit_went_on_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "data.mdb"
    file.write_bytes(bytes(3 * 4096))
    with closing(Rest(file, wait_s=0)) as commits, pytest.raises(Disturbed), at_rest(file), commits.disturbed():
        file.write_bytes(b"1" + bytes(3 * 4096))


def test_a_commit_of_the_store_changes_what_the_copy_looks_at(tmp_path: Path) -> None:
    with closing(Store(tmp_path, LIMITS, BOOT)) as store:
        store.recover(KEYS[0], Beginning())
        store._rest._wait_s = 0
        with pytest.raises(Disturbed), at_rest(tmp_path / "data.mdb"):
            store.apply(Changes(), 0)
            store.commit()


def test_a_commit_afterwards_does_no_harm(tmp_path: Path) -> None:
    file = tmp_path / "data.mdb"
    file.write_bytes(bytes(3 * 4096))
    with closing(Rest(file, wait_s=0)) as commits:
        with at_rest(file):
            pass
        with commits.disturbed():
            file.write_bytes(b"1")


def test_a_store_may_be_closed_twice(tmp_path: Path) -> None:
    store = Store(tmp_path, LIMITS, BOOT)
    store.close()
    store.close()
