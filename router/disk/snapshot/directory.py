"""A directory of snapshots: what a home's node makes there by itself, and removes. Whatever that home did not make is
left alone, also where a copy of it writes there."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

from router.disk import private_file
from router.disk.removal import freed_in_steps, remove_file
from router.disk.snapshot.form import FIRST
from router.disk.snapshot.series import Made, draft_name, expired, made_of, of_home, snapshot_of_draft
from router.disk.snapshot.terms import SnapshotFault

PASSPHRASE_BYTES_MAX = 1024
HOME_TAG = ".snapshots-of"
"""The file in a home with its tag in the names of its snapshots, and its own inode number; a snapshot does not hold
it."""
_TAG_BYTES_MAX = 64


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


def home_tag(home: Path) -> str:
    """Return the eight hex digits that tell this home's snapshots from those of its copies. They are made once; in a
    copy the file has another inode number than it says, and they are made anew. `OSError` passes."""
    path = home / HOME_TAG
    try:
        with path.open("rb") as file:
            tag, _, inode = file.read(_TAG_BYTES_MAX).partition(b" ")
            if inode == b"%d\n" % os.fstat(file.fileno()).st_ino and len(tag) == 8:
                return bytes.fromhex(tag.decode()).hex()
    except (FileNotFoundError, ValueError):
        pass
    path.unlink(missing_ok=True)
    new = token_hex(4)
    with os.fdopen(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, private_file.FILE_MODE), "w"
    ) as out:
        out.write(f"{new} {os.fstat(out.fileno()).st_ino}\n")
        out.flush()
        os.fsync(out.fileno())
    private_file.sync_directory(home)
    return new


def forget_tag(home: Path) -> None:
    """Let the next snapshot of this home have another tag. `OSError` passes."""
    (home / HOME_TAG).unlink(missing_ok=True)


def look(directory: Path, router: bytes, formers: Sequence[bytes] = ()) -> list[Made]:
    """Return the node's snapshots there, of all its homes, in order, also those of its former keys; none if the
    directory is missing. `OSError` passes."""
    try:
        with os.scandir(directory) as found:
            names = [one.name for one in found if one.is_file(follow_symlinks=False)]
    except FileNotFoundError:
        return []
    return made_of(router, names, formers)


def remove_drafts(directory: Path, router: bytes, formers: Sequence[bytes] = (), home: str = "") -> None:
    """Remove what killed snapshots of the home with this tag have left there."""
    with os.scandir(directory) as found:
        names = [one.name for one in found if one.is_file(follow_symlinks=False)]
    for name in names:
        if of_home(made_of(router, [snapshot_of_draft(name)], formers), home):
            remove_file(directory / name)


def remove_expired(directory: Path, router: bytes, keep: int, formers: Sequence[bytes] = (), home: str = "") -> int:
    """Remove the oldest snapshots of the home with this tag, so that `keep` stay; return how many were removed. A file
    that does not begin as a snapshot does is left alone, whatever its name."""
    count = 0
    for one in expired(of_home(look(directory, router, formers), home), keep):
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
