"""`router backup` and `router restore` on the home of a node that does not run, and what they say of bad input."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import time
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import Result
from rigs.commands import ROUTER, run_in, start_node, stop_node
from rigs.patience import HANG_S
from rigs.small_disk import on_a_small_disk

from router.disk.limits import StoreLimits
from router.disk.store.store import Store
from router.disk.store.terms import Beginning
from router.settings import keyring
from router.settings.home import Home

KEPT = ("groups/friends", "keys/node.key", "router.toml")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a group and a store, in a folder with a space."""
    home = Home(tmp_path / "the home")
    home.create()
    key = keyring.load_or_create(home, keyring.NODE)
    assert run_in(home.path)("group", "new", "friends").exit_code == 0
    with closing(Store(home.store_path, StoreLimits(), bytes(16))) as store:
        store.recover(bytes(key.public), Beginning())
    return home.path


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "secret"
    file.touch(mode=0o600)
    file.write_text("a passphrase\n")
    return file


def restored(file: Path, home: Path, *more: str) -> Result:
    return run_in(home)("restore", str(file), "--yes", *more)


def test_a_sealed_snapshot_becomes_the_same_home(home: Path, secret: Path, tmp_path: Path) -> None:
    file, other = tmp_path / "snapshot", tmp_path / "other"
    taken = run_in(home)("backup", str(file), "--passphrase-file", str(secret))
    assert taken.exit_code == 0, taken.output
    assert file.stat().st_mode & 0o777 == 0o600
    assert not [one for one in home.iterdir() if one.name.startswith(".")]
    assert restored(file, other, "--passphrase-file", str(secret)).exit_code == 0
    for path in KEPT:
        assert (other / path).read_bytes() == (home / path).read_bytes()
    with closing(Store(other / "store", StoreLimits(), bytes(16))) as store:
        store.recover(bytes(keyring.load_or_create(Home(other), keyring.NODE).public))


def test_a_plain_snapshot_is_listed_and_verified(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "snapshot"
    taken = run_in(home)("backup", str(file), "--plain")
    assert (taken.exit_code, "holds secret keys" in taken.stderr) == (0, True)
    listed = json.loads(run_in(home)("backup", "list", str(file), "--json").stdout)
    assert sorted(one["path"] for one in listed["parts"]) == [*KEPT, "store/data.mdb"]
    assert "is whole" in run_in(home)("backup", "verify", str(file)).stdout
    data = file.read_bytes()
    file.write_bytes(data[:-1])
    assert "it ends too early" in run_in(home)("backup", "verify", str(file)).stderr
    refused = restored(file, tmp_path / "other")
    assert (refused.exit_code, "nothing of it is left" in refused.stderr) == (1, True)
    assert not (tmp_path / "other").exists()


def test_a_snapshot_through_a_pipe_is_the_same(home: Path, tmp_path: Path) -> None:
    taken = run_in(home)("backup", "-", "--plain")
    made = run_in(tmp_path / "other")("restore", "-", "--yes", stdin=taken.stdout_bytes)
    assert made.exit_code == 0, made.output
    assert (tmp_path / "other/keys/node.key").read_bytes() == (home / "keys/node.key").read_bytes()


def test_a_home_that_is_there_is_never_overwritten(home: Path, tmp_path: Path) -> None:
    run_in(home)("backup", str(tmp_path / "snapshot"), "--plain")
    before = {one: one.stat().st_mtime_ns for one in home.rglob("*")}
    refused = restored(tmp_path / "snapshot", home)
    assert (refused.exit_code, "never overwritten" in refused.stderr) == (1, True)
    assert {one: one.stat().st_mtime_ns for one in home.rglob("*")} == before


def test_restoring_asks_first_whether_the_old_node_is_gone(home: Path, tmp_path: Path) -> None:
    run_in(home)("backup", str(tmp_path / "snapshot"), "--plain")
    asked = run_in(tmp_path / "other")("restore", str(tmp_path / "snapshot"))
    assert (asked.exit_code, "give --yes" in asked.stderr) == (2, True)
    assert not (tmp_path / "other").exists()


def test_a_damaged_store_is_saved_as_it_is_and_named(home: Path, tmp_path: Path) -> None:
    data = home / "store/data.mdb"
    data.write_bytes(b"\xff" * data.stat().st_size)
    taken = run_in(home)("backup", str(tmp_path / "snapshot"), "--plain")
    assert (taken.exit_code, "store/data.mdb is damaged" in taken.stderr) == (0, True)
    made = restored(tmp_path / "snapshot", tmp_path / "other")
    assert "store/data.mdb was damaged" in made.stderr
    assert (tmp_path / "other/store/data.mdb").read_bytes() == data.read_bytes()


def test_what_a_killed_backup_has_left_goes_with_the_next(home: Path, tmp_path: Path) -> None:
    (home / ".snapshot/store").mkdir(parents=True)
    (home / ".snapshot/store/data.mdb").write_bytes(b"half")
    (tmp_path / ".snapshot.draft").write_bytes(b"half")
    assert run_in(home)("backup", str(tmp_path / "snapshot"), "--plain").exit_code == 0
    assert not (home / ".snapshot").exists()
    assert not (tmp_path / ".snapshot.draft").exists()


def test_two_snapshots_at_once_are_refused(home: Path, tmp_path: Path) -> None:
    (home / ".snapshot").mkdir()
    descriptor = os.open(home / ".snapshot", os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        refused = run_in(home)("backup", str(tmp_path / "snapshot"), "--plain")
    finally:
        os.close(descriptor)
    assert (refused.exit_code, "another snapshot" in refused.stderr) == (1, True)
    assert not (tmp_path / "snapshot").exists()


@pytest.mark.long
def test_a_full_disk_leaves_nothing(home: Path, tmp_path: Path) -> None:
    (home / "groups/large").write_bytes(os.urandom(1 << 20))
    assert run_in(home)("backup", str(tmp_path / "good"), "--plain").exit_code == 0
    one, router = shlex.quote(str(home)), shlex.join(ROUTER)
    script = f"""{router} --home {one} backup full/snapshot --plain 2>&1
{router} --home full/home restore good --yes"""
    backup, restore, *left = on_a_small_disk(tmp_path, script)
    assert "No space left on device" in backup
    assert "No space left on device" in restore
    assert left == ["code 1", "full"]


def test_snapshots_by_the_clock_stand_in_the_settings_are_shown_and_ended(
    home: Path, secret: Path, tmp_path: Path
) -> None:
    run, media = run_in(home), tmp_path / "media"
    begin = ("backup", "--every", "1d", "--keep", "3", str(media))
    for more, said in (
        ((), "give --passphrase-file PATH, or --plain"),
        (("--plain",), "connect its disk, or make that directory"),
        (("--passphrase-file", str(tmp_path / "none")), "connect its disk"),
    ):
        refused = run(*begin, *more)
        assert refused.exit_code and said in refused.stderr, refused.output
    media.mkdir()
    assert "cannot be read" in run(*begin, "--passphrase-file", str(tmp_path / "none")).stderr
    assert "--keep belongs to --every" in run("backup", str(tmp_path / "one"), "--plain", "--keep", "3").stderr
    assert json.loads(run("backup", "schedule", "--json").stdout)["directory"] == ""
    begun = run(*begin, "--passphrase-file", str(secret))
    assert begun.exit_code == 0, begun.output
    assert "once the node runs" in begun.stdout and "keep a copy of it elsewhere" in begun.stderr
    assert secret.read_text().strip() not in begun.output + (home / "router.toml").read_text()
    shown = json.loads(run("backup", "schedule", "--json").stdout)
    wanted = {"directory": str(media), "every_s": 86_400, "keep": 3, "passphrase_file": str(secret), "plain": False}
    assert shown == {**wanted, "node": None}
    assert "every 1 d 0 h" in run("backup", "schedule").stdout
    assert run("backup", "schedule", "--off").exit_code == 0
    assert "makes no snapshots by itself" in run("backup", "schedule").stdout
    assert list(media.iterdir()) == []


@pytest.mark.long
def test_running_node_takes_up_its_snapshots_and_they_become_its_home(home: Path, secret: Path, tmp_path: Path) -> None:
    run, media = run_in(home), tmp_path / "media"
    media.mkdir()
    process, _ = start_node(home, "--verifiers", "0")
    try:
        begun = run("backup", "--every", "1d", str(media), "--passphrase-file", str(secret))
        assert begun.exit_code == 0 and "shows it" in begun.stdout, begun.output
        until_s = time.monotonic() + HANG_S
        while not (node := json.loads(run("backup", "schedule", "--json").stdout)["node"])["made"]:
            assert time.monotonic() < until_s and not node["problem"], node
        assert "backup" in run("status").stdout
        assert run("health").exit_code == 0
    finally:
        assert stop_node(process) == 0
    [file] = media.iterdir()
    assert file.name == node["newest"]
    assert restored(file, tmp_path / "other", "--passphrase-file", str(secret)).exit_code == 0
    assert (tmp_path / "other/keys/node.key").read_bytes() == (home / "keys/node.key").read_bytes()
