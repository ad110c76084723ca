"""The directory of a node's own snapshots: what it removes there, and that everything else stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from router.disk import removal
from router.disk.snapshot.directory import (
    PASSPHRASE_BYTES_MAX,
    check_directory,
    look,
    read_passphrase,
    remove_drafts,
    remove_expired,
    whole_file,
)
from router.disk.snapshot.form import FIRST
from router.disk.snapshot.series import draft_name, next_name
from router.disk.snapshot.terms import SnapshotFault

KEY, OTHER = bytes(range(32)), bytes(32)


def fill(directory: Path, key: bytes, count: int) -> list[str]:
    for at_s in range(count):
        (directory / next_name(key, look(directory, key), at_s)).write_bytes(FIRST + b"1\n")
    return [one.name for one in look(directory, key)]


def test_the_oldest_snapshots_go_and_foreign_files_stay(tmp_path: Path) -> None:
    ours, theirs = fill(tmp_path, KEY, 5), fill(tmp_path, OTHER, 5)
    (tmp_path / ours[0]).write_bytes(b"something else by that name")
    (tmp_path / ours[1]).unlink()
    (tmp_path / ours[1]).symlink_to(tmp_path / theirs[0])
    (tmp_path / "notes").mkdir()
    assert remove_expired(tmp_path, KEY, 1) == 2
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted(["notes", *theirs, ours[0], ours[1], ours[4]])


def test_what_is_removed_or_replaced_is_freed_in_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is freed at once holds up everybody's next sync."""
    freed, sync = list[int](), os.fdatasync

    def note(descriptor: int) -> None:
        freed.append(os.fstat(descriptor).st_size)
        sync(descriptor)

    monkeypatch.setattr(os, "fdatasync", note)
    monkeypatch.setattr(removal, "STEP_BYTES", 1000)
    names = fill(tmp_path, KEY, 3)
    for name in names:
        (tmp_path / name).write_bytes(FIRST + bytes(2500 - len(FIRST)))
    draft = tmp_path / draft_name(next_name(KEY, [], 1))
    draft.write_bytes(bytes(2600))
    remove_drafts(tmp_path, KEY)
    assert freed == [1600, 600]
    assert remove_expired(tmp_path, KEY, 1) == 2
    assert freed == [1600, 600, 1500, 500, 1500, 500]
    with whole_file(tmp_path / names[2]) as out:
        out.write(b"newer")
    assert freed[6:] == [1500, 500]


def test_drafts_of_this_node_go_and_others_stay(tmp_path: Path) -> None:
    ours, theirs = draft_name(next_name(KEY, [], 1)), draft_name(next_name(OTHER, [], 1))
    for name in (ours, theirs, ".notes.draft"):
        (tmp_path / name).touch()
    remove_drafts(tmp_path, KEY)
    assert {one.name for one in tmp_path.iterdir()} == {theirs, ".notes.draft"}


def test_a_file_that_does_not_become_whole_leaves_the_older_one_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "snapshot").write_bytes(b"older")
    with pytest.raises(ZeroDivisionError), whole_file(tmp_path / "snapshot") as out:
        out.write(b"half")
        raise ZeroDivisionError
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("snapshot", b"older")]
    with whole_file(tmp_path / "snapshot") as out:
        out.write(b"newer")
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("snapshot", b"newer")]
    assert (tmp_path / "snapshot").stat().st_mode & 0o777 == 0o600


def test_directories_that_cannot_take_snapshots_are_told_with_what_to_do(tmp_path: Path) -> None:
    home, locked = tmp_path / "home", tmp_path / "locked"
    (home / "keys").mkdir(parents=True)
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(home / "keys")
    for directory, said in (
        (tmp_path / "away", "connect its disk, or make that directory"),
        (tmp_path / "file", "is no directory"),
        (home, "would be lost with it"),
        (tmp_path / "link", "would be lost with it"),
    ):
        with pytest.raises(SnapshotFault, match=said):
            check_directory(directory, home)
    check_directory(tmp_path, home)
    locked.mkdir(mode=0o500)
    if not os.access(locked, os.W_OK):  # root may write everywhere
        with pytest.raises(SnapshotFault, match="cannot be written by this user"):
            check_directory(locked, home)


def test_a_passphrase_is_read_from_a_file_that_nobody_else_may_read(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    with pytest.raises(SnapshotFault, match="cannot be read"):
        read_passphrase(file)
    file.touch(mode=0o600)
    for content in (b"", b"\n", bytes(PASSPHRASE_BYTES_MAX + 1)):
        file.write_bytes(content)
        with pytest.raises(SnapshotFault, match="1 to 1024 bytes"):
            read_passphrase(file)
    file.write_bytes("naïve words \n".encode())
    assert read_passphrase(file) == "naïve words ".encode()
    file.chmod(0o640)
    with pytest.raises(SnapshotFault, match="chmod 600"):
        read_passphrase(file)
