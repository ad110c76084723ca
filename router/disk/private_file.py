"""Small files that only their owner may read, written atomically: a reader finds all of a file or nothing of it.

Every function but `read_worded` lets `OSError` pass: its caller knows what the file is for and words the error.
"""

from __future__ import annotations

import errno
import fcntl
import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

FILE_MODE = 0o600
DIRECTORY_MODE = 0o700
OTHERS = 0o077
NOBODY_UID = 65534
"""What the kernel says of an owner who has no number in this user namespace."""
_ZEROS_AT_ONCE = 1 << 16


class Exposed(Exception):
    """Users besides the owner may read or change this path; `mode` is its mode."""

    def __init__(self, path: Path, mode: int) -> None:
        super().__init__(f"{path} is open to others (mode {mode:03o})")
        self.path = path
        self.mode = mode


def make_directory(path: Path) -> None:
    """Make the directory with 0700 if it is missing; missing parents get the usual mode."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=DIRECTORY_MODE, exist_ok=True)


def create(path: Path, data: bytes) -> None:
    """Write a new file with 0600; raise `FileExistsError` if there is one, and leave it as it is."""
    draft = _draft(path, data, FILE_MODE)
    try:
        os.link(draft, path)
    finally:
        draft.unlink()
    sync_directory(path.parent)


def replace(path: Path, data: bytes) -> None:
    """Replace the file's content; its mode and owner stay, and a symbolic link stays one. A new file gets 0600."""
    target = path.resolve()
    try:
        old = target.stat()
    except FileNotFoundError:
        old = None
    draft = _draft(target, data, FILE_MODE if old is None else stat.S_IMODE(old.st_mode))
    try:
        if old is not None and (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
            with suppress(PermissionError):  # Only root may give files away; the content matters more.
                os.chown(draft, old.st_uid, old.st_gid)
        draft.rename(target)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    sync_directory(target.parent)


def why_not_by_root(path: Path) -> str:
    """Return why the superuser makes no home at this path, and what to do: the nearest directory that is there is
    another user's, who could not read it; "" if that is not so."""
    if os.geteuid() != 0:
        return ""
    place = next(one for one in (path, *path.parents) if one.is_dir())
    uid = place.stat().st_uid
    if uid in (0, NOBODY_UID):
        return ""
    name = f"#{uid}"
    with suppress(KeyError):
        name = pwd.getpwuid(uid).pw_name
    said = f"{place} belongs to the user {name}, who could not use a home that root makes there"
    return f"{said}; run this command as that user (sudo -u '{name}' router …)"


def remove(path: Path) -> None:
    """Remove the file, so that no crash brings it back; nothing if it is gone."""
    path.unlink(missing_ok=True)
    sync_directory(path.parent)


def read(path: Path, bytes_max: int) -> bytes:
    """Return the content, at most one byte more than `bytes_max`; raise `Exposed` if others can read or write it."""
    with open(path, "rb", buffering=0, opener=_without_waiting) as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        mode = stat.S_IMODE(mode)
        if mode & OTHERS:
            raise Exposed(path, mode)
        return file.read(bytes_max + 1)


def read_worded(path: Path, bytes_max: int) -> bytes | str | None:
    """Return the content as `read` does, None if there is no file, or as a sentence why it cannot be read."""
    try:
        return read(path, bytes_max)
    except FileNotFoundError:
        return None
    except Exposed as exposed:
        return f"{path} can be read by others (mode {exposed.mode:03o}); run: chmod 600 {path}"
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}; it must be a file of the user who runs this"


def overwrite(path: Path) -> None:
    """Write zeros over all of a file, on the disk; a symbolic link is not followed. A file system that writes elsewhere
    (copy on write, a snapshot, the cells of a flash disk) keeps the old content all the same."""
    descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW)
    try:
        left = os.fstat(descriptor).st_size
        while left:
            left -= os.write(descriptor, bytes(min(left, _ZEROS_AT_ONCE)))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def erase(path: Path) -> None:
    """Overwrite a file and remove it; of a symbolic link only the link is removed."""
    if not path.is_symlink():
        overwrite(path)
    path.unlink()
    sync_directory(path.parent)


@contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Lock the directory while a file in it is read, changed and replaced; other processes that lock it wait."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; one that is a pipe would be waited for without end."""
    return os.open(path, flags | os.O_NONBLOCK)


def _draft(path: Path, data: bytes, mode: int) -> Path:
    """Write and sync the data under a temporary name in the same directory."""
    draft = path.with_name(f".{path.name}.{token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    return draft


def sync_directory(path: Path) -> None:
    """Return when the directory's names are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
