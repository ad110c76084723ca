"""A directory of snapshots: what a node makes there by itself, and removes. Whatever it did not make is left alone."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from router.disk import private_file
from router.disk.removal import freed_in_steps, remove_file
from router.disk.snapshot.form import FIRST
from router.disk.snapshot.series import Made, draft_name, expired, made_of, snapshot_of_draft
from router.disk.snapshot.terms import SnapshotFault

PASSPHRASE_BYTES_MAX = 1024


def check_directory(directory: Path, home: Path) -> None:
    """Raise `SnapshotFault` if the directory cannot take snapshots of that home: it is missing, is no directory, lies
    in the home, or cannot be written."""
    try:
        mode = directory.stat().st_mode
    except FileNotFoundError:
        raise SnapshotFault(f"there is no {directory}: connect its disk, or make that directory") from None
    if not stat.S_ISDIR(mode):
        raise SnapshotFault(f"{directory} is no directory: name one")
    if directory.resolve().is_relative_to(home.resolve()):
        raise SnapshotFault(f"{directory} lies in the home, and would be lost with it: name one elsewhere")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise SnapshotFault(f"{directory} cannot be written by this user: change its mode or owner, or name another")


def look(directory: Path, router: bytes, formers: Sequence[bytes] = ()) -> list[Made]:
    """Return the node's own snapshots there, in order, also those of its former keys; none if the directory is missing.
    `OSError` passes."""
    try:
        with os.scandir(directory) as found:
            names = [one.name for one in found if one.is_file(follow_symlinks=False)]
    except FileNotFoundError:
        return []
    return made_of(router, names, formers)


def remove_drafts(directory: Path, router: bytes, formers: Sequence[bytes] = ()) -> None:
    """Remove what killed snapshots of this node have left there."""
    with os.scandir(directory) as found:
        names = [one.name for one in found if one.is_file(follow_symlinks=False)]
    for name in names:
        if made_of(router, [snapshot_of_draft(name)], formers):
            remove_file(directory / name)


def remove_expired(directory: Path, router: bytes, keep: int, formers: Sequence[bytes] = ()) -> int:
    """Remove the node's oldest snapshots, so that `keep` stay; return how many were removed. A file that does not begin
    as a snapshot does is left alone, whatever its name."""
    count = 0
    for one in expired(look(directory, router, formers), keep):
        path = directory / one.name
        with path.open("rb") as file:
            is_ours = file.read(len(FIRST)) == FIRST
        if is_ours:
            remove_file(path)
            count += 1
    private_file.sync_directory(directory)
    return count


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Give a file to write to, and to read, which gets its name after the block; an older one of that name is replaced.
    After an exception nothing is left of it."""
    draft = path.with_name(draft_name(path.name))
    remove_file(draft)
    descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, private_file.FILE_MODE)
    try:
        with os.fdopen(descriptor, "w+b") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        with freed_in_steps(path):
            draft.replace(path)
    except BaseException:
        remove_file(draft)
        raise
    private_file.sync_directory(path.parent)


def read_passphrase(file: Path) -> bytes:
    """Return the passphrase in a file; raise `SnapshotFault` if it cannot be used or may be read by others."""
    try:
        said = private_file.read(file, PASSPHRASE_BYTES_MAX).rstrip(b"\r\n")
    except private_file.Exposed as error:
        raise SnapshotFault(f"{error}: chmod 600 {file}") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise SnapshotFault(f"the passphrase in {file} cannot be read: {why}; name a file of this user") from None
    if not said or len(said) > PASSPHRASE_BYTES_MAX:
        raise SnapshotFault(f"{file} has to hold a passphrase of 1 to {PASSPHRASE_BYTES_MAX} bytes")
    return said
