"""`router backup` and `router restore` on the home of a node that does not run, and what they say of bad input."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import signal
import subprocess
import time
from contextlib import closing
from io import BytesIO
from pathlib import Path

import lmdb
import pytest
from click.testing import Result
from rigs.commands import AS_ANY_USER, ROUTER, run_in, start_node, stop_node
from rigs.patience import HANG_S
from rigs.small_disk import on_a_small_disk

from router.actors.process import program
from router.disk.limits import StoreLimits
from router.disk.snapshot import form, take
from router.disk.snapshot.form import SnapshotWriter
from router.disk.snapshot.series import made_of, newest_beside, newest_of_each, next_name
from router.disk.snapshot.terms import Cost
from router.disk.store.store import Store
from router.disk.store.terms import Beginning
from router.node import snapshot_process
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


@pytest.mark.parametrize("by_node", [False, True])
def test_no_moment_is_held_while_the_key_is_made(
    by_node: bool, home: Path, secret: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meanwhile the store would grow with each commit, and it takes as long as guessing the passphrase costs."""
    held, make_key = list[bool](), form._key

    def watched(passphrase: bytes, cost: Cost) -> bytes:
        held.append((home / take.STAGE).exists())
        return make_key(passphrase, cost)

    monkeypatch.setattr(form, "_key", watched)
    if by_node:
        (media := tmp_path / "media").mkdir()
        snapshot_process.make(home, bytes(32), media, 1, (b"a passphrase", Cost(bytes(16), 1, 8192)))
    else:
        taken = run_in(home)("backup", str(tmp_path / "snapshot"), "--passphrase-file", str(secret))
        assert taken.exit_code == 0, taken.output
    assert held[0] is False


@pytest.mark.parametrize("is_plain", [False, True])
def test_a_snapshot_of_another_home_is_not_replaced(is_plain: bool, home: Path, secret: Path, tmp_path: Path) -> None:
    file, other = tmp_path / "snapshot", run_in(tmp_path / "other")
    how = ("--plain",) if is_plain else ("--passphrase-file", str(secret))
    assert [run_in(home)("backup", str(file), *how).exit_code for _ in range(2)] == [0, 0]
    before, [address] = file.read_bytes(), run_in(home)("id").stdout.splitlines()
    assert other("init").exit_code == 0
    refused = other("backup", str(file), *how)
    assert (refused.exit_code, file.read_bytes() == before) == (2, True)
    assert f"{file} is a snapshot of another node, {address}: name another file" in refused.stderr
    assert run_in(home)("keys", "rotate-node").exit_code == 0
    assert run_in(home)("backup", str(file), *how).exit_code == 0


def test_a_snapshot_that_cannot_be_opened_is_replaced_and_that_is_said(
    home: Path, secret: Path, tmp_path: Path
) -> None:
    file = tmp_path / "snapshot"
    assert run_in(home)("backup", str(file), "--passphrase-file", str(secret)).exit_code == 0
    secret.write_text("another passphrase\n")
    for how in (("--passphrase-file", str(secret)), ("--plain",)):
        replaced = run_in(home)("backup", str(file), *how)
        assert replaced.exit_code == 0, replaced.stderr
        assert f"{file} is replaced, and of which node its snapshot was cannot be told: " in replaced.stderr


def test_a_snapshot_of_a_node_that_never_ran_is_replaced_and_that_is_said(home: Path, tmp_path: Path) -> None:
    file, other = tmp_path / "snapshot", run_in(tmp_path / "other")
    assert other("init").exit_code == 0
    assert other("backup", str(file), "--plain").exit_code == 0
    replaced = run_in(home)("backup", str(file), "--plain")
    said = f"{file} is replaced, and of which node its snapshot was cannot be told: that node had never run"
    assert replaced.exit_code == 0 and said in replaced.stderr


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


def test_a_name_in_a_snapshot_adds_no_line_to_its_list(home: Path, tmp_path: Path) -> None:
    """Whoever made the snapshot chose the names; they write nothing below the list, nor on the terminal."""
    with (tmp_path / "snapshot").open("wb") as out:
        writer = SnapshotWriter(out.write, None)
        writer.part("keys/a\n             0  keys/\x1b[2J\u202eb", BytesIO(b""))
        writer.finish(1, b"", [])
    listed = run_in(home)("backup", "list", str(tmp_path / "snapshot"))
    assert listed.stdout == "             0  keys/a              0  keys/ [2J b\n"


def test_a_snapshot_takes_the_place_of_an_older_one_alone(home: Path, tmp_path: Path) -> None:
    words, pipe, folder = tmp_path / "words.txt", tmp_path / "pipe", tmp_path / "folder"
    words.write_text("kept")
    os.mkfifo(pipe)
    folder.mkdir()
    for place, code, said in (
        (words, 2, f"{words} is there already, and no snapshot: name another file\n"),
        (pipe, 2, f"{pipe} is a device or a pipe, whose place the snapshot would take: name a file, or - for"),
        (folder, 2, f"{folder} is a directory: name a file in it, as {folder}/home.snapshot\n"),
        (folder / "none" / "new", 1, f"there is no {folder}/none: connect its disk, or make that directory\n"),
    ):
        done = run_in(home)("backup", str(place), "--plain")
        assert done.exit_code == code and done.stderr.startswith(said), done.stderr
    assert words.read_text() == "kept" and pipe.is_fifo() and not list(folder.iterdir())


def test_of_a_directory_the_newest_snapshot_is_named(home: Path, tmp_path: Path) -> None:
    keys = [bytes([number] * 32) for number in range(6)]
    empty = restored(tmp_path, tmp_path / "other")
    assert (empty.exit_code, empty.stderr) == (
        2,
        f"{tmp_path} is a directory; name a snapshot; no node made any in it\n",
    )
    names = [next_name(keys[0], [], 1), next_name(keys[0], made_of(keys[0], [next_name(keys[0], [], 1)]), 2)]
    for name in names:
        (tmp_path / name).touch()
    for command in (("restore", str(tmp_path)), ("backup", "verify", str(tmp_path))):
        said = f"{tmp_path} is a directory; the newest snapshot in it is {tmp_path / names[1]}: name that\n"
        assert run_in(tmp_path / "other")(*command).stderr == said
    found = newest_of_each([*names, *(next_name(key, [], 9) for key in keys[1:])])
    assert [one.number for one in found] == [2, 1, 1, 1, 1, 1]


def test_no_wait_of_a_node_is_told_where_none_runs(home: Path, tmp_path: Path) -> None:
    assert "bytes; no node runs here\n" in run_in(home)("backup", str(tmp_path / "snapshot"), "--plain").stderr


@pytest.mark.parametrize("name", ["groups", "services", "invitations", "keys", "log", "store"])
def test_a_folder_that_cannot_be_listed_is_not_left_out(home: Path, tmp_path: Path, name: str) -> None:
    (home / name).mkdir(exist_ok=True)
    (home / name).chmod(0)
    try:
        words = [*AS_ANY_USER, *ROUTER, "--home", str(home), "backup", str(tmp_path / "new"), "--plain"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=HANG_S)
    finally:
        (home / name).chmod(0o700)
    assert done.returncode == 1 and "Permission denied" in done.stderr and str(home) in done.stderr, done.stderr
    assert not (tmp_path / "new").exists()


def test_a_symbolic_link_leads_to_the_snapshot(home: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    link = tmp_path / "newest"
    link.symlink_to(tmp_path / "disk" / "home.snapshot")
    for _ in range(2):
        assert run_in(home)("backup", str(link), "--plain").exit_code == 0
        assert link.is_symlink() and run_in(home)("backup", "verify", str(link)).exit_code == 0


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


def test_a_snapshot_of_another_node_does_not_go_into_this_home(home: Path, tmp_path: Path) -> None:
    other = Home(tmp_path / "another")
    other.create()
    keyring.load_or_create(other, keyring.NODE)
    run_in(other.path)("backup", str(tmp_path / "snapshot"), "--plain")
    key = (home / "keys/node.key").read_bytes()
    refused = restored(tmp_path / "snapshot", home)
    assert (refused.exit_code, "choose another with --home DIR" in refused.stderr) == (1, True)
    assert (home / "keys/node.key").read_bytes() == key


def test_a_store_that_was_cut_is_saved_as_it_is_and_named(home: Path, tmp_path: Path) -> None:
    """Its first pages are good, so that a part of it is written before the damage is found."""
    data = home / "store/data.mdb"
    with lmdb.open(str(data.parent), map_size=64 << 20, max_dbs=40, lock=False) as environment:
        frames = environment.open_db(b"frames")
        with environment.begin(write=True) as txn:
            for number in range(500):
                txn.put(number.to_bytes(8, "big"), bytes([number % 251]) * 4000, db=frames)
    os.truncate(data, data.stat().st_size // 2)
    taken = run_in(home)("backup", str(tmp_path / "snapshot"), "--plain")
    assert (taken.exit_code, "store/data.mdb is damaged" in taken.stderr) == (0, True), taken.output
    made = restored(tmp_path / "snapshot", tmp_path / "other")
    assert "store/data.mdb was damaged" in made.stderr
    assert (tmp_path / "other/keys/node.key").read_bytes() == (home / "keys/node.key").read_bytes()
    assert (tmp_path / "other/store/data.mdb").read_bytes().startswith(data.read_bytes())


@pytest.mark.parametrize("name", ["with  spaces", "Größe ü", "a\nnew line", "-dash"])
def test_homes_with_odd_names_are_saved_and_restored(name: str, tmp_path: Path) -> None:
    home, other = Home(tmp_path / name), tmp_path / f"other {name}"
    home.create()
    keyring.load_or_create(home, keyring.NODE)
    file = tmp_path / f"snapshot of {name}"
    assert run_in(home.path)("backup", str(file), "--plain").exit_code == 0
    assert restored(file, other).exit_code == 0
    assert (other / "keys/node.key").read_bytes() == home.key_path.read_bytes()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_backup_that_ends_half_way_leaves_what_the_next_one_removes(
    number: signal.Signals, home: Path, tmp_path: Path
) -> None:
    (home / "groups/large").write_bytes(os.urandom(4 << 20))
    taking = subprocess.Popen(
        [*ROUTER, "--home", str(home), "backup", "-", "--plain"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    with taking:
        assert taking.stdout is not None
        taking.stdout.read(1 << 18)  # the rest of it waits for its reader
        taking.send_signal(number)
        assert taking.wait(HANG_S) == (128 + number if number == signal.SIGTERM else -number)
    assert (home / ".snapshot").exists() is (number == signal.SIGKILL)
    assert run_in(home)("backup", str(tmp_path / "snapshot"), "--plain").exit_code == 0
    assert not (home / ".snapshot").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_restore_that_ends_half_way_leaves_what_the_next_one_removes(
    number: signal.Signals, home: Path, tmp_path: Path
) -> None:
    (home / "groups/large").write_bytes(os.urandom(4 << 20))
    run_in(home)("backup", str(tmp_path / "snapshot"), "--plain")
    other, draft = tmp_path / "other", tmp_path / ".other.restoring"
    making = subprocess.Popen(
        [*ROUTER, "--home", str(other), "restore", "-", "--yes"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    with making:
        assert making.stdin is not None
        making.stdin.write((tmp_path / "snapshot").read_bytes()[: 2 << 20])
        making.stdin.flush()
        until_s = time.monotonic() + HANG_S
        while not (draft / "groups/large").exists():
            assert time.monotonic() < until_s
            time.sleep(0.01)
        making.send_signal(number)
        assert making.wait(HANG_S) == (128 + number if number == signal.SIGTERM else -number)
    assert (other.exists(), draft.exists()) == (False, number == signal.SIGKILL)
    assert restored(tmp_path / "snapshot", other).exit_code == 0
    assert not draft.exists()


@pytest.mark.long
def test_a_read_only_home_is_told(home: Path, tmp_path: Path) -> None:
    one, router = shlex.quote(str(home)), shlex.join(ROUTER)
    script = f"""cp -r {one} full/home
mount -o remount,ro full
{router} --home full/home backup snapshot --plain 2>&1
{router} --home full/new restore snapshot --yes"""
    lines = on_a_small_disk(tmp_path, script)
    assert "Read-only file system" in lines[0] and "mend that" in lines[0], lines
    assert not (tmp_path / "snapshot").exists()


@pytest.mark.long
def test_a_full_disk_keeps_the_older_snapshots_that_the_node_made(home: Path, tmp_path: Path) -> None:
    (home / "groups/large").write_bytes(os.urandom(400_000))
    one = shlex.join([*program("router.node.snapshot_process", str(home), "00" * 32, "full", "1", "")])
    script = f"""{one} < /dev/null >&2
echo >&2
cp full/* full/older.notes
{one} < /dev/null >&2
echo >&2
ls -A full >&2"""
    first, second, *left = on_a_small_disk(tmp_path, f"({script})")
    assert '"type":"done"' in first and "No space left on device" in second
    assert left[0].startswith("older.notes") and left[1].startswith("router-0000000000000000-000001-"), left


@pytest.mark.long
def test_a_full_disk_leaves_nothing(home: Path, tmp_path: Path) -> None:
    (home / "groups/large").write_bytes(os.urandom(1 << 20))
    assert run_in(home)("backup", str(tmp_path / "good"), "--plain").exit_code == 0
    one, router = shlex.quote(str(home)), shlex.join(ROUTER)
    script = f"""{router} --home {one} backup full/snapshot --plain 2>&1
{router} --home full/home restore good --yes"""
    backup, restore, *left = on_a_small_disk(tmp_path, script)
    assert "No space left on device" in backup
    assert "has room for" in restore and "make room" in restore
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
    assert "every 1 d into" in run("backup", "schedule").stdout
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


def test_older_snapshot_of_a_home_is_told_from_its_newest_whatever_the_key(tmp_path: Path) -> None:
    """By their names alone one of an earlier key may come last; restored, it brings back a key that was renewed."""
    tag, other = "0a" * 4, "0b" * 4
    first = next_name(b"\x99" * 32, [], 9, tag)
    second = next_name(b"\x6e" * 32, made_of(b"\x99" * 32, [first]), 10, tag)
    foreign = next_name(b"\x99" * 32, made_of(b"\x6e" * 32, [second]), 11, other)
    names = [first, second, foreign, next_name(b"\x99" * 32, [], 9)]
    assert second < first
    assert [newest_beside(name, names) for name in names] == [second, "", "", ""]
    assert newest_beside("hub.snapshot", names) == ""
    assert [made.name for made in newest_of_each(names)] == sorted([second, foreign, names[3]])
    for name in (first, second):
        (tmp_path / name).write_bytes(b"no snapshot")
    said = run_in(tmp_path / "home")("restore", "--yes", str(tmp_path / first)).stderr.splitlines()[0]
    assert said.startswith(f"{tmp_path / second} was made later by the same home")
