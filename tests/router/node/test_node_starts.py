"""Starts of a node on a home in which something is missing or wrong: the key, the store, the clock."""

from __future__ import annotations

import shutil
import time
from contextlib import closing
from pathlib import Path

import pytest
from rigs.serving import serving
from samples.logs import seal_each

from router.audit.engine import AuditSpan, audit
from router.audit.tail import logs_of
from router.cli.command import Invocation
from router.core.wire.text import key_text
from router.disk import private_file
from router.disk.limits import LogLimits, StoreLimits
from router.disk.log.eventlog import Segments
from router.disk.log.sealer import Sealer
from router.disk.store.store import Store
from router.disk.store.terms import StoreError
from router.node.node import SystemClock
from router.settings import keyring
from router.settings.home import Home, HomeError


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the warnings except that of the clock, which is far ahead of the events in `log_samples`."""
    said = [one.getMessage() for one in caplog.records]
    return [one for one in said if "the clock of this machine" not in one]


@pytest.mark.parametrize("has_file", [False, True])
async def test_an_empty_store_beside_a_log_cannot_be_missed(
    has_file: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home = Home(tmp_path / "home")
    home.create()
    if has_file:
        (home.store_path / "data.mdb").write_bytes(b"")
    private_file.create(home.key_path, (b"r" * 32).hex().encode())  # that of `log_samples`
    seal_each(home.log_path, 1, 2, 3)
    async with serving(home.path, {}):
        [said] = [one.getMessage() for one in caplog.records if "is new and empty" in one.getMessage()]
        assert "the log beside it counts 3 events" in said and "restore store/ and log/" in said
        assert "move log/ away as well" in said
    caplog.clear()
    async with serving(home.path, {}):
        assert not warnings(caplog), "the store goes on where the log was"
    shutil.rmtree(home.log_path)
    async with serving(home.path, {}):
        [said] = warnings(caplog)
        assert f"the log in {home.log_path} lacks 4 events after the first 0" in said and "restore the segments" in said


async def test_a_node_whose_store_is_older_than_its_log_says_so_and_logs_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Half a restore: `store/` was put back, `log/` was not. The audit of the home misses the events in between, and
    accuses nobody."""
    home = tmp_path / "home"
    async with serving(home, {}):
        pass
    shutil.copytree(home / "store", tmp_path / "aside")
    for _ in range(2):
        async with serving(home, {}):
            pass
    key = keyring.load(Home(home), keyring.NODE)
    sealer = Sealer(Segments(home / "log", key, LogLimits()))
    with closing(Store(home / "store", StoreLimits(), bytes(16))) as store:
        for _, value in store.log_values(0, 999):
            sealer.add(value, 0)
    last = sealer.seal()
    shutil.rmtree(home / "store")
    (tmp_path / "aside").rename(home / "store")
    caplog.clear()
    for _ in range(2):
        async with serving(home, {}):
            pass
    [said] = warnings(caplog)
    assert f"is older than the log beside it, which counts {last} events" in said and "restore store/ and log/" in said
    with logs_of([home], lambda *_: None) as listing:
        found = audit(listing, AuditSpan(time.time_ns()))
    starts = [one["lines"] for one in found["events"] if one["event"] == "start"]
    assert starts == [3 + 2], "each start is in the log, those before the restore and after it"
    [hole] = found["holes"]
    assert (hole["first_seq"], hole["last_seq"]) == (last + 1, last + 1) and found["verdict"] == "attention"


async def test_a_first_start_warns_of_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(tmp_path / "home", {"limits.connections_max": 10}):
        assert not caplog.records


async def test_a_store_without_its_key_gets_no_other_key(tmp_path: Path) -> None:
    async with serving(tmp_path / "home", {}) as home:
        address = key_text("addr", keyring.load(home, keyring.NODE).public)
    home.key_path.unlink()
    with pytest.raises(
        HomeError, match=rf"belongs to {address}; its key is missing: restore .*node\.key, or move store"
    ):
        home.create()
    with pytest.raises(HomeError, match="its key is missing: restore"):
        _ = Invocation(str(home.path)).home  # no advice to `init`, which would refuse
    assert not home.key_path.exists()
    shutil.rmtree(home.store_path)
    home.create()


async def test_a_clock_after_all_times_is_named_and_nothing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SystemClock, "wall_ns", staticmethod(lambda: (1 << 32) * 1_000_000_000))
    with pytest.RaisesGroup(pytest.RaisesExc(StoreError, match="the clock of this machine is wrong")):
        async with serving(tmp_path / "home", {}):
            raise AssertionError("it started")
    assert not list((tmp_path / "home" / "store").iterdir())
