"""A snapshot becomes a home as a whole, or nothing of it stays; a home that is there stays as it is."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from collections.abc import Callable
from contextlib import closing
from errno import ENOSPC
from io import BytesIO
from pathlib import Path

import pytest
from samples.stores import KEYS, opened

from router.core.log.life import Restored
from router.disk import life_file
from router.disk.snapshot import put_back as module
from router.disk.snapshot.form import SnapshotReader, SnapshotWriter
from router.disk.snapshot.put_back import check_free, restore
from router.disk.snapshot.terms import Manifest, SavedFile, SnapshotFault

NOW_NS = 1_800_000_000 * 10**9


def written(*paths: str) -> bytes:
    out = BytesIO()
    writer = SnapshotWriter(out.write, None)
    for path in paths:
        writer.part(path, BytesIO(path.encode()))
    writer.finish(1, b"", [])
    return out.getvalue()


def put_back(data: bytes, home: Path) -> None:
    restore(SnapshotReader(BytesIO(data), lambda: b""), home, NOW_NS)


GOOD = written("router.toml", "keys/node.key", "services/pubsub/state/data.mdb", "store/data.mdb")


def test_only_the_owner_may_enter_any_folder_or_read_any_file(tmp_path: Path) -> None:
    home = tmp_path / "home"
    before = os.umask(0)
    try:
        put_back(GOOD, home)
    finally:
        os.umask(before)
    assert (home / "keys/node.key").read_text() == "keys/node.key"
    modes = {stat.S_IMODE(one.stat().st_mode) | one.is_dir() << 12 for one in (home, *home.rglob("*"))}
    assert modes == {0o700 | 1 << 12, 0o600}
    assert [one.name for one in tmp_path.iterdir()] == ["home"]


def test_a_home_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/lock").touch()
    with pytest.raises(SnapshotFault, match="a home is never overwritten"):
        put_back(GOOD, tmp_path / "home")
    assert [str(one.relative_to(tmp_path)) for one in sorted(tmp_path.rglob("*"))] == ["home", "home/lock"]


def test_an_empty_directory_becomes_the_home(tmp_path: Path) -> None:
    put_back(GOOD, tmp_path)
    assert (tmp_path / "router.toml").exists()


@pytest.mark.parametrize("data", [GOOD[:-1], GOOD[: len(GOOD) // 2], GOOD[:-20] + bytes(20)])
def test_nothing_stays_of_a_snapshot_that_was_cut_or_changed(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(SnapshotFault):
        put_back(data, tmp_path / "home")
    assert not [*tmp_path.iterdir()]


class FullDisk(BytesIO):
    """A snapshot at whose middle the disk is full."""

    def read(self, size: int | None = -1) -> bytes:
        if self.tell() > len(GOOD) // 2:
            raise OSError(ENOSPC, "No space left on device")
        return super().read(size)


def test_nothing_stays_when_the_disk_gets_full(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        restore(SnapshotReader(FullDisk(GOOD), lambda: b""), tmp_path / "home", NOW_NS)
    assert not [*tmp_path.iterdir()]


def said(**sizes: int) -> Manifest:
    return Manifest(1, b"", [SavedFile(name, size, bytes(32)) for name, size in sizes.items()])


def test_room_is_asked_for_before_anything_is_written(tmp_path: Path) -> None:
    home, more = tmp_path / "home", shutil.disk_usage(tmp_path).total
    with pytest.raises(SnapshotFault, match=rf"it takes [0-9,]+ bytes, and the disk of {tmp_path} has room"):
        restore(SnapshotReader(BytesIO(GOOD), lambda: b""), home, NOW_NS, said(store=more, keys=-more))
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("manifest", "told"),
    [
        (said(**{"router.toml": 10}), "holds more of 'router.toml' than its manifest says"),
        (said(**{"router.toml": 11}), "holds 'keys/node.key', which its manifest does not name"),
        (said(**{"router.toml": 11, "keys/node.key": 13}), "it was altered or damaged"),
    ],
)
def test_nothing_is_written_but_what_the_manifest_names(manifest: Manifest, told: str, tmp_path: Path) -> None:
    data = written("router.toml") if told.startswith("it was") else GOOD
    with pytest.raises(SnapshotFault, match=told):
        restore(SnapshotReader(BytesIO(data), lambda: b""), tmp_path / "home", NOW_NS, manifest)
    assert not [*tmp_path.iterdir()]


def test_a_snapshot_without_a_manifest_beforehand_leaves_room_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_BYTES", 1)
    monkeypatch.setattr(module, "FREE_BYTES_MIN", shutil.disk_usage(tmp_path).total)
    with pytest.raises(SnapshotFault, match="is full but for"):
        put_back(GOOD, tmp_path / "home")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../keys/node.key", "keys/../../x", "keys/./x", "lock", "apps/x", "keys/.x", "", "keys/\0"]
)
def test_a_path_that_is_no_part_of_a_home_is_refused(path: str, tmp_path: Path) -> None:
    with pytest.raises(SnapshotFault, match="no part of a home"):
        put_back(written(path), tmp_path / "home")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("paths", [("keys/a", "keys/a"), ("keys", "keys/a")])
def test_a_file_that_comes_twice_or_is_a_folder_too_is_refused(paths: tuple[str, str], tmp_path: Path) -> None:
    with pytest.raises(SnapshotFault, match="it was altered"):
        put_back(written(*paths), tmp_path / "home")
    assert not [*tmp_path.iterdir()]


def test_what_a_killed_restore_has_left_goes_with_the_next_one(tmp_path: Path) -> None:
    left = tmp_path / ".home.restoring" / "keys"
    left.mkdir(parents=True)
    (left / "half").touch()
    put_back(GOOD, tmp_path / "home")
    assert not (tmp_path / "home/keys/half").exists()
    assert [one.name for one in tmp_path.iterdir()] == ["home"]


def link_to_a_folder(draft: Path) -> None:
    draft.symlink_to(draft.parent / "theirs")


def link_to_nothing(draft: Path) -> None:
    draft.symlink_to(draft.parent / "nothing")


def file_there(draft: Path) -> None:
    draft.touch()


@pytest.mark.parametrize("prepare", [link_to_a_folder, link_to_nothing, file_there])
def test_what_another_user_has_put_beside_the_home_is_neither_followed_nor_emptied(
    prepare: Callable[[Path], None], tmp_path: Path
) -> None:
    """In a directory that others write to, as /tmp, anybody can be the first to use the name of the draft."""
    kept = tmp_path / "theirs" / "kept" / "file"
    kept.parent.mkdir(parents=True)
    kept.touch()
    prepare(tmp_path / ".home.restoring")
    with pytest.raises(SnapshotFault, match=r"\.home\.restoring, .* is no directory of this user: remove it, or"):
        put_back(GOOD, tmp_path / "home")
    assert kept.exists() and os.path.lexists(tmp_path / ".home.restoring")
    assert sorted(one.name for one in tmp_path.iterdir()) == [".home.restoring", "theirs"]


def test_a_draft_of_another_user_becomes_no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".home.restoring").mkdir()
    (tmp_path / ".home.restoring" / "file").touch()
    monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
    with pytest.raises(SnapshotFault, match="is no directory of this user"):
        put_back(GOOD, tmp_path / "home")
    assert (tmp_path / ".home.restoring" / "file").exists()


def test_a_draft_that_others_may_enter_is_closed_and_links_in_it_are_not_followed(tmp_path: Path) -> None:
    draft, kept = tmp_path / ".home.restoring", tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    draft.mkdir()
    draft.chmod(0o777)
    (draft / "keys").symlink_to(kept)
    put_back(GOOD, tmp_path / "home")
    assert (kept / "file").exists() and [one.name for one in kept.iterdir()] == ["file"]
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700


def test_a_link_in_the_place_of_the_home_is_told_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "home").symlink_to("empty")
    with pytest.raises(SnapshotFault, match="home is a symbolic link"):
        check_free(tmp_path / "home")


def test_the_superuser_makes_no_home_in_the_place_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.chown(tmp_path, os.getuid() or 4_321, -1)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("router.disk.private_file.NOBODY_UID", -1)  # as whom this test may run
    with pytest.raises(SnapshotFault, match=f"{tmp_path} belongs to the user .*; run this command as that user"):
        check_free(tmp_path / "home")


def test_two_restores_do_not_make_one_home(tmp_path: Path) -> None:
    draft = tmp_path / ".home.restoring"
    draft.mkdir()
    descriptor = os.open(draft, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(SnapshotFault, match="wait until it has ended"):
            put_back(GOOD, tmp_path / "home")
    finally:
        os.close(descriptor)
    assert draft.exists()


def test_each_restore_begins_a_life_after_that_of_its_snapshot(tmp_path: Path) -> None:
    for number, (before, expected) in enumerate(
        ((None, NOW_NS // 10**6), (7, NOW_NS // 10**6), (1 << 46, (1 << 46) + 1))
    ):
        store = tmp_path / f"store{number}"
        with closing(opened(store)) as found:
            found.recover(KEYS[0])
            if before is not None:
                found.begin_life(Restored(before, 1, 2))
        out = BytesIO()
        writer = SnapshotWriter(out.write, None)
        with (store / "data.mdb").open("rb") as data:
            writer.part("store/data.mdb", data)
        writer.finish(9, b"", [])
        home = tmp_path / f"home{number}"
        put_back(out.getvalue(), home)
        assert life_file.read(home) == Restored(expected, 9, NOW_NS // 10**9)


@pytest.mark.parametrize(("at_s", "now_ns"), [(1 << 32, NOW_NS), (1, 10**9 << 32)])
def test_a_clock_beyond_2105_is_told_and_nothing_stays(at_s: int, now_ns: int, tmp_path: Path) -> None:
    out = BytesIO()
    SnapshotWriter(out.write, None).finish(at_s, b"", [])
    with pytest.raises(SnapshotFault, match="set the clock right"):
        restore(SnapshotReader(BytesIO(out.getvalue()), lambda: b""), tmp_path / "home", now_ns)
    assert not [*tmp_path.iterdir()]
