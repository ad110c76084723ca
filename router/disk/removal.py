"""Remove large files so that those who sync other files of that disk hardly wait.

A file system with a journal frees all blocks of a removed file in one commit, for which everybody's next sync waits: on
ext4 mounted with `discard`, a file of 1 GiB holds a sync of another file for 40 to 150 ms. So a large file loses its
name first, and then its content in steps, each of which is synced. What somebody else has open, or what has another
name, keeps its content. The file should be on the disk before: what is not would be written for nothing.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from router.disk.private_file import sync_directory

STEP_BYTES = 16 << 20
"""How much of a file is freed at once; a file that is no larger is removed as usual."""
_SET_LEASE = getattr(fcntl, "F_SETLEASE", None)


def remove_file(path: Path) -> None:
    """Remove the file, nothing if it is gone; it takes as long as the disk needs to free it, so not in a loop. Raise
    `OSError` if its name cannot be removed."""
    with freed_in_steps(path):
        path.unlink(missing_ok=True)


def remove_tree(path: Path, *, ignore_errors: bool = False) -> None:
    """Remove a directory and all that is in it, without following links. Raise `OSError` at what cannot be removed, or
    leave that there."""
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):
                remove_file(Path(folder, name))
    shutil.rmtree(path, ignore_errors=ignore_errors)


@contextmanager
def freed_in_steps(path: Path) -> Iterator[None]:
    """Free the content of this file in steps after the block, in which it loses its name. Content that is used still
    is left alone, and so is all of it after an exception."""
    descriptor = _opened(path)
    try:
        yield
        if descriptor >= 0:
            with suppress(OSError):  # what is left is freed when it is closed
                sync_directory(path.parent)  # after a crash its name leads to all of it or is gone
                _free(descriptor)
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _opened(path: Path) -> int:
    """Return a descriptor of a large file, -1 if it is none or cannot be written."""
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_size <= STEP_BYTES:
            return -1
        return os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return -1


def _free(descriptor: int) -> None:
    found = os.fstat(descriptor)
    if found.st_nlink or _SET_LEASE is None:
        return
    fcntl.fcntl(descriptor, _SET_LEASE, fcntl.F_WRLCK)  # refused if anybody else has it open
    fcntl.fcntl(descriptor, _SET_LEASE, fcntl.F_UNLCK)  # it has no name: nobody can open it from now on
    for size in range(found.st_size - STEP_BYTES, 0, -STEP_BYTES):
        os.ftruncate(descriptor, size)
        os.fdatasync(descriptor)
