"""Tell a full disk or file from one that fails, and LMDB's file from what is no file."""

from __future__ import annotations

import os
import resource
import shutil
import stat
from contextlib import suppress
from errno import EDQUOT, EFBIG, EIO, ENOSPC
from pathlib import Path

import lmdb

DATA, LOCK = "data.mdb", "lock.mdb"
LOCK_BYTES = 8192
"""The size of LMDB's lock file, for the 126 readers that it has room for."""
FREE_BYTES_MIN = 16 << 20  # a disk with less is full: a large commit does not fit
PAGE_BYTES = 4096


def check_data_file(path: Path) -> None:
    """Raise `OSError` if LMDB's file in the folder `path` is no regular file: opening a pipe waits for ever."""
    try:
        mode = (path / DATA).stat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        raise OSError(f"its {DATA} is no regular file")


def allot_lock_file(path: Path) -> None:
    """Give LMDB's lock file in the folder `path` its room on the disk; raise `OSError` if there is none. LMDB maps that
    file without writing it, and on a full disk the first use of the map would end the process by a bus error.

    A file that has its room is not opened: to close it would give up the locks of an environment of this process."""
    file = path / LOCK
    with suppress(FileNotFoundError):
        if file.stat().st_blocks:
            return
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, LOCK_BYTES)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno in (ENOSPC, EDQUOT, EFBIG):
            raise


def lack_of_room(path: Path, error: Exception) -> tuple[str, str] | None:
    """Return what is full and what to do, if that is why LMDB could not write in the folder `path`; else None."""
    said, number = str(error), getattr(error, "errno", 0)
    was_cut_short = os.strerror(EIO) in said  # LMDB says so of a write of which a part was written
    if number == EFBIG or os.strerror(EFBIG) in said or (was_cut_short and _is_at_its_limit(path / DATA)):
        return "its file may grow no larger", "raise the limit on the size of files (ulimit -f, LimitFSIZE)"
    if number == EDQUOT or os.strerror(EDQUOT) in said:
        return "the quota of its disk is used up", "make room"
    is_full = isinstance(error, lmdb.DiskError) or number == ENOSPC or os.strerror(ENOSPC) in said
    return ("its disk is full", "make room") if is_full or (was_cut_short and _is_full(path)) else None


def _is_at_its_limit(file: Path) -> bool:
    most, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        return most != resource.RLIM_INFINITY and file.stat().st_size > most - PAGE_BYTES
    except OSError:
        return False


def _is_full(path: Path) -> bool:
    try:
        return shutil.disk_usage(path).free < FREE_BYTES_MIN
    except OSError:  # the disk does fail
        return False
