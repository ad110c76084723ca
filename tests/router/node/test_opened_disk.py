"""A store beside a log that has gone on without it: the operator is told, and new events go on behind the log's end."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from samples.log_facts import Log, read_log
from samples.logs import outward
from samples.stores import parcel

from router.core.log.events import Logged
from router.core.log.life import EVENTS_PER_MS, LEAP_MIN, Life, Restored
from router.core.log.line import GAP_MAX
from router.core.routing.disorder import DISORDERED
from router.core.routing.effects import Changes
from router.core.wire.now import Now
from router.disk import life_file, private_file
from router.disk.limits import LogLimits, StoreLimits
from router.disk.log.eventlog import Segments
from router.disk.log.sealer import Sealer
from router.disk.store.file import life_number
from router.disk.store.store import Store
from router.node.opened_disk import OpenedDisk, open_disk
from router.settings import keyring, last_start
from router.settings.config import Config
from router.settings.home import Home

NOW = Now(1_800_000_000 * 10**9, 10**9)
EVENTS = 5
"""Events of each transaction here."""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = Home(tmp_path / "home")
    found.create()
    keyring.load_or_create(found, keyring.NODE)
    return found


@contextmanager
def running(home: Home) -> Iterator[OpenedDisk]:
    key = keyring.load(home, keyring.NODE)
    with open_disk(home, Config(), key, NOW) as disk:
        disk.logbook.catch_up(NOW)
        yield disk


def commit(disk: OpenedDisk, times: int, at_s: int) -> None:
    for _ in range(times):
        disk.logbook.committed(_committed(disk.store, at_s), NOW)


def _committed(store: Store, at_s: int) -> Logged:
    applied = store.apply(Changes(events=[outward(at_s) for _ in range(EVENTS)]), at_s)
    store.commit()
    assert applied.logged is not None
    return applied.logged


def seal(home: Home) -> None:
    """Let a next run seal all that the store holds, as one that runs for long does."""
    key = keyring.load(home, keyring.NODE)
    with running(home) as disk:
        values = [value for _, value in disk.store.log_values(0, 10_000)]
    sealer = Sealer(Segments(home.log_path, key, LogLimits()))
    for value in values:
        sealer.add(value, 0)
    sealer.seal()


def log_of(home: Home) -> Log:
    return read_log(home.log_path, keyring.load(home, keyring.NODE).public)


def times(log: Log) -> list[int]:
    """Return the seconds of all events but gaps, in their order."""
    return [row.t // 10**9 for row in log.lines if row.event != "log_gap"]


def put_back(home: Home, aside: Path) -> None:
    shutil.rmtree(home.store_path)
    shutil.copytree(aside, home.store_path)


def a_log_that_went_on(home: Home, aside: Path) -> None:
    """Leave a store as it was after 10 events beside a log that counts 40; of the 10, some are in the store as well."""
    with running(home) as disk:
        commit(disk, 2, at_s=1)
    shutil.copytree(home.store_path, aside)
    with running(home) as disk:
        commit(disk, 6, at_s=2)
    seal(home)
    put_back(home, aside)


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]


def test_older_store_is_told_of_and_the_log_goes_on_from_its_end(
    home: Home, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    a_log_that_went_on(home, tmp_path / "aside")
    with running(home) as disk:
        [said] = warned(caplog)
        assert f"the store in {home.store_path} is older than the log beside it, which counts 40 events" in said
        assert "the numbers from 11 on" in said and "restore store/ and log/ from a copy of one moment" in said
        assert disk.store.next_seq == 42 and disk.recovered.next_arrival == NOW.wall_ns // 1000
        commit(disk, 3, at_s=3)
    caplog.clear()
    with running(home) as disk:
        assert warned(caplog) == [], "it is said once"
        commit(disk, 1, at_s=4)
    seal(home)
    log = log_of(home)
    assert times(log) == [1] * 10 + [2] * 30 + [3] * 15 + [4] * 5
    assert log.problems == ["events 41 to 41: its router found them missing when it sealed its log, and wrote down so"]


@pytest.mark.parametrize("transactions", [3, 20])
def test_events_of_a_run_that_repeated_numbers_are_in_the_log_as_well(
    transactions: int, home: Home, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An earlier version of this program went on in the older store with numbers that the log has, up to its end and
    beyond."""
    a_log_that_went_on(home, tmp_path / "aside")
    store = Store(home.store_path, StoreLimits(), b"another run here")
    store.recover(bytes(keyring.load(home, keyring.NODE).public))
    for _ in range(transactions):
        _committed(store, at_s=3)
    store.close()
    with running(home) as disk:
        [said] = warned(caplog)
        assert "the numbers from 11 on" in said
        commit(disk, 2, at_s=4)
    seal(home)
    assert times(log_of(home)) == [1] * 10 + [2] * 30 + [3] * EVENTS * transactions + [4] * 10
    assert len(log_of(home).problems) == 1


def test_store_that_was_killed_before_it_forgot_sealed_events_is_not_older(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    with running(home) as disk:
        commit(disk, 4, at_s=1)
    seal(home)
    with running(home) as disk:
        assert [seq for seq, _ in disk.store.log_values(0, 99)] == [1, 6, 11, 16]
        commit(disk, 1, at_s=2)
    seal(home)
    assert warned(caplog) == [] and log_of(home).problems == [] and times(log_of(home)) == [1] * 20 + [2] * 5


def test_a_store_that_is_gone_is_missed_although_no_log_was_written(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    with running(home):
        pass
    last_start.keep(home.path, last_start.Start(["serve"]))
    with running(home):
        pass
    assert not caplog.records, "a first start, and one with its store"
    shutil.rmtree(home.store_path)
    with running(home):
        pass
    [said] = [one.getMessage() for one in caplog.records]
    assert str(home.store_path) in said and "has run before" in said and "restore store/ and log/" in said


RESTORED = Restored(1_799_999_999_000, 1_799_000_000, 1_799_999_999)


def test_a_restored_home_begins_a_new_life_once(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    """Its numbers leap, the log names the gap, and what waits may have been handed over already."""
    with running(home) as disk:
        commit(disk, 2, at_s=1)
        waiting = parcel(Random(1), 1, 1, recipients=2)
        disk.store.apply(Changes(parcels=[waiting]), 1)
        disk.store.commit()
    life_file.write(home.path, RESTORED)
    leap = LEAP_MIN + (RESTORED.life - RESTORED.snapshot_s * 1000) * EVENTS_PER_MS
    first = 11 + leap
    for commits in (1, 2):
        with running(home) as disk:
            life = disk.recovered.life
            assert life == Life(RESTORED.life, RESTORED.snapshot_s, RESTORED.restored_s, 10, first, leap)
            assert disk.recovered.next_arrival == waiting.first + waiting.count + leap
            assert {(DISORDERED + one, b"") for one in waiting.recipients} == {*disk.recovered.book}
            assert disk.store.next_seq == first + (commits - 1) * EVENTS and disk.logbook.behind_events() == 0
            commit(disk, 1, at_s=2)
    seal(home)
    assert warned(caplog) == []
    log = log_of(home)
    assert times(log) == [1] * 10 + [2] * 10
    assert [(row.seq, row.n) for row in log.lines if row.event == "log_gap"] == [
        (11, GAP_MAX), (11 + GAP_MAX, leap - GAP_MAX),
    ]  # fmt: skip
    assert life_number(home.store_path) == RESTORED.life


def test_a_life_after_all_events_were_sealed_lacks_nothing(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    with running(home) as disk:
        commit(disk, 2, at_s=1)
    seal(home)
    with running(home) as disk:
        disk.store.log_is_sealed(disk.logbook.sealed_seq())
        disk.store.apply(Changes(), 1)
        disk.store.commit()
    life_file.write(home.path, RESTORED)
    for _ in range(2):
        with running(home):
            pass
    with running(home) as disk:
        commit(disk, 1, at_s=2)
    assert warned(caplog) == []


@pytest.mark.parametrize("said", [b"", b"{}", b"[1]", b'{"life":0,"snapshot_s":1,"restored_s":1}', b"{" * 2000])
def test_a_life_that_cannot_be_read_is_told_of_and_nothing_changes(said: bytes, home: Home) -> None:
    with running(home) as disk:
        commit(disk, 1, at_s=1)
    private_file.replace(home.path / life_file.NAME, said)
    with pytest.raises(life_file.LifeUnknown, match="restore the snapshot again"), running(home):
        pass
    assert life_number(home.store_path) == 0
