"""Snapshots by the node's own clock, made by real processes: what is told, what fails, and what stays."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from rigs.patience import HANG_S
from rigs.serving import serving

from router.client.node import connect
from router.core.log.life import Restored
from router.core.routing.effects import BeginAnew
from router.core.wire.crypto import SigningKey
from router.core.wire.now import Now
from router.core.wire.succession import make_succession
from router.disk import life_file
from router.disk.snapshot.directory import home_tag, look
from router.disk.snapshot.series import draft_name, next_name
from router.node.node import SystemClock
from router.node.node_starts import NodeStarts
from router.node.snapshot_process import make
from router.node.snapshots import Snapshots
from router.settings import own_successions
from router.settings.config_backup import Backup
from router.settings.home import Home

KEY = bytes(range(32))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home/groups").mkdir(parents=True)
    (tmp_path / "home/groups/friends").write_text("a link")
    return tmp_path / "home"


@pytest.fixture
def media(tmp_path: Path) -> Path:
    (tmp_path / "media").mkdir()
    return tmp_path / "media"


async def until(is_so: Callable[[], bool]) -> None:
    with trio.fail_after(HANG_S):
        while not is_so():
            await trio.sleep(0.02)


def test_old_snapshots_go_when_a_new_one_is_whole(home: Path, media: Path) -> None:
    names = [make(home, KEY, media, 2, None).name for _ in range(4)]
    assert [one.name for one in look(media, KEY)] == names[2:]
    assert [one.number for one in look(media, KEY)] == [3, 4]
    (home / "groups/\udcff").touch()
    with pytest.raises(Exception, match="not in UTF-8"):
        make(home, KEY, media, 1, None)
    assert sorted(one.name for one in media.iterdir()) == names[2:]


def test_those_of_the_former_key_are_followed_and_go(home: Path, media: Path) -> None:
    old, new = SigningKey(b"\1" * 32), SigningKey(b"\2" * 32)
    for _ in range(2):
        make(home, bytes(old.public), media, 2, None)
    (home / "keys").mkdir()
    own_successions.save(home / "keys", [make_succession(old, new, 1, 2)])
    done = make(home, bytes(new.public), media, 2, None)
    assert [one.number for one in look(media, bytes(new.public), [bytes(old.public)])] == [2, 3]
    assert [one.name for one in look(media, bytes(new.public))] == [done.name] and done.kept == 2


def test_two_homes_of_one_key_remove_none_of_each_others_snapshots(home: Path, media: Path) -> None:
    first = [make(home, KEY, media, 2, None).name for _ in range(2)]
    copy = Path(shutil.copytree(home, home.parent / "copy"))
    drafts = {media / draft_name(name) for name in first}
    for draft in drafts:
        draft.touch()
    done = [make(copy, KEY, media, 1, None) for _ in range(2)]
    assert [one.kept for one in done] == [1, 1] and all(draft.exists() for draft in drafts)
    assert [one.name for one in look(media, KEY)] == [*first, done[1].name]
    last = make(home, KEY, media, 2, None)
    assert [one.name for one in look(media, KEY)] == [first[1], done[1].name, last.name]
    assert [one.number for one in look(media, KEY)] == [2, 4, 5] and not any(draft.exists() for draft in drafts)


async def test_a_snapshot_is_made_when_it_is_due_and_told(home: Path, media: Path) -> None:
    clock = SystemClock()
    found = Snapshots(home, KEY, clock.now, Backup(directory=str(media), plain=True))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(found.run)
        await until(lambda: bool((found.facts() or {})["made"]))
        told = found.facts()
        assert told is not None
        [one] = look(media, KEY)
        assert (told["newest"], told["newest_at_s"], told["kept"]) == (one.name, one.at_s, 1)
        assert told["bytes"] == (media / one.name).stat().st_size
        assert not told["problem"] and not told["overdue"] and told["next_s"] > 86_000
        found.configure(Backup())
        await until(lambda: found.facts() is None)
        nursery.cancel_scope.cancel()
    again = Snapshots(home, KEY, clock.now, Backup(directory=str(media), plain=True))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(again.run)
        await until(lambda: bool((again.facts() or {})["newest"]))
        told = again.facts()
        assert told is not None
        assert (told["newest"], told["bytes"] > 0, told["kept"], told["made"]) == (one.name, True, 1, 0)
        assert told["next_s"] > 86_000
        nursery.cancel_scope.cancel()
    assert [one.name for one in media.iterdir()] == [one.name]


async def test_a_key_that_has_changed_since_the_newest_snapshot_is_saved_at_once(home: Path, media: Path) -> None:
    """An older snapshot brings back a key that the neighbours refuse."""
    (home / "keys").mkdir()
    (home / "keys/node.key").touch()
    done = make(home, KEY, media, 7, None)
    for changed_s, made in ((done.at_s - 60, 0), (done.at_s + 0.001, 1)):  # it was made later in that second
        os.utime(home / "keys/node.key", (changed_s, changed_s))
        found = Snapshots(home, KEY, SystemClock().now, Backup(directory=str(media), plain=True))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(found.run)
            await until(lambda found=found, made=made: (found.facts() or {})["kept"] == 1 + made)  # type: ignore[misc]
            told = found.facts()
            assert told is not None and told["made"] == made and told["next_s"] > 86_000
            nursery.cancel_scope.cancel()


async def test_what_keeps_snapshots_from_being_made_is_told_and_they_go_on_when_it_is_mended(
    home: Path, media: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ahead_s, clock = 0.0, SystemClock()

    def now() -> Now:
        return Now(clock.wall_ns(), clock.mono_ns() + int(ahead_s * 1e9))

    secret = home.parent / "secret"
    settings = Backup(directory=str(media / "disk"), passphrase_file=str(secret))
    found = Snapshots(home, KEY, now, settings)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(found.run)
        await until(lambda: (found.facts() or {})["failed"] == 1)
        told = found.facts()
        assert told is not None
        assert "cannot be read" in told["problem"] and told["next_s"] <= 60
        secret.touch(mode=0o600)
        secret.write_text("a passphrase")
        ahead_s += 3 * 86_400
        told = found.facts()
        assert told is not None and told["overdue"]
        found.configure(Backup(directory=str(media / "disk"), passphrase_file=str(secret), keep=2))
        await until(lambda: "connect its disk" in str((found.facts() or {})["problem"]))
        (media / "disk").mkdir()
        found.configure(settings)
        await until(lambda: (found.facts() or {})["made"] == 1)
        nursery.cancel_scope.cancel()
    assert [one.levelname for one in caplog.records] == ["WARNING", "WARNING"]
    assert not (home / ".snapshot").exists()


async def test_a_killed_process_is_told_and_the_end_of_the_node_ends_its_process(home: Path, media: Path) -> None:
    (home / "store").mkdir()
    os.mkfifo(home / "store/data.mdb")  # opening it waits until somebody writes
    found = Snapshots(home, KEY, SystemClock().now, Backup(directory=str(media), plain=True))

    def processes() -> list[int]:
        mine = Path(f"/proc/{os.getpid()}/task").glob("*/children")
        pids = [int(pid) for one in mine for pid in one.read_text().split()]
        return [pid for pid in pids if str(home).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()]

    async with trio.open_nursery() as nursery:
        nursery.start_soon(found.run)
        await until(lambda: bool(processes()) and (home / ".snapshot").exists())
        os.kill(processes()[0], 9)
        await until(lambda: (found.facts() or {})["failed"] == 1)
        told = found.facts()
        assert told is not None and "exit code -9" in told["problem"]
        found.configure(Backup(directory=str(media), plain=True, keep=3))
        await until(lambda: bool(processes()))
        nursery.cancel_scope.cancel()
    assert processes() == []
    assert list(media.iterdir()) == []


async def test_a_node_takes_its_snapshots_from_the_settings_and_stays_ready_when_they_fail(tmp_path: Path) -> None:
    settings = {"backup.directory": str(tmp_path / "away"), "backup.plain": True}
    async with serving(tmp_path / "home", settings) as home, connect(home=Home(home.path)) as asker:

        async def asked(word: str) -> dict[str, object]:
            found: dict[str, object] = json.loads(await asker.ask(word, timeout_s=HANG_S))
            return found

        with trio.fail_after(HANG_S):
            while not (status := (await asked("status"))["backup"])["problem"]:  # type: ignore[index]
                await trio.sleep(0.02)
        assert "connect its disk" in status["problem"]  # type: ignore[index]
        metrics = await asked("metrics")
        assert metrics["unready"] == []
        assert metrics["backup"] == {"age_s": None, "bytes": 0, "made": 0, "failed": 1, "overdue": False}


def test_name_of_the_next_snapshot_follows_the_newest_whatever_the_clock(home: Path, media: Path) -> None:
    (media / next_name(KEY, [], (1 << 32) - 1)).write_bytes(b"")
    done = make(home, KEY, media, 7, None)
    assert [one.number for one in look(media, KEY)] == [1, 2] and look(media, KEY)[-1].name == done.name


async def test_home_that_is_kept_of_two_copies_of_a_disk_makes_snapshots_of_its_own(home: Path) -> None:
    """A clone of a disk has the inode numbers of the other one, so that a home there has the same tag."""
    tag, starts = home_tag(home), NodeStarts(home)
    await starts.begin_anew(BeginAnew())
    assert home_tag(home) == tag, "a start changes nothing"
    await starts.begin_anew(BeginAnew(Restored(1, 2, 2)))
    assert home_tag(home) != tag and life_file.read(home) == Restored(1, 2, 2)
