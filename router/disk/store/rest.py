"""A lock beside the commits of a store, so that another process may begin to read several databases at one moment.

LMDB lets other processes read while commits go on, each database at a moment of its own. So that those of a snapshot
are of the same moment, a commit shares a lock of the store's file itself (flock, which LMDB does not use), and a
snapshot holds it alone while it begins to read. The lock ends with its process.

A snapshot that was stopped (Ctrl-Z) just then must not hold up the node: after `REST_S_MAX` a commit goes on without
the lock, and later ones do not wait until the lock could be had again. The snapshot notices, since each commit changes
a page in which LMDB names its last transaction.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from router.disk.room import PAGE_BYTES

REST_S_MAX = 10.0
POLL_S = 0.002
_HEADS_BYTES = 2 * PAGE_BYTES  # two pages, written in turn, each with the number of a transaction


class Disturbed(Exception):
    """A commit went on while the moment was taken."""


class Rest:
    """The commits' side of the lock, on the store's file."""

    def __init__(self, file: Path, wait_s: float = REST_S_MAX) -> None:
        self._descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        self._wait_s = wait_s
        self._has_given_up = False  # a copy that was stopped holds up one commit, not each

    def __repr__(self) -> str:
        return f"<lock of commits, descriptor {self._descriptor}>"

    @property
    def is_free(self) -> bool:
        """Whether nobody copies the file now, so that a commit need not wait."""
        if is_ours := _locked(self._descriptor, fcntl.LOCK_SH):
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        return is_ours

    @contextmanager
    def disturbed(self) -> Iterator[None]:
        """Wait until nobody copies the file, for `wait_s` at the most, and keep copies waiting for the block."""
        until_s = time.monotonic() + (0 if self._has_given_up else self._wait_s)
        while not (is_ours := _locked(self._descriptor, fcntl.LOCK_SH)) and time.monotonic() < until_s:
            time.sleep(POLL_S)
        self._has_given_up = not is_ours
        try:
            yield
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Release the file; may be called again, as that of the store."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


@contextmanager
def at_rest(file: Path) -> Iterator[int]:
    """Give a descriptor of the store's file, which no commit changes during the block; raise `Disturbed` after it if
    one did, because the block took too long."""
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        before = os.pread(descriptor, _HEADS_BYTES, 0)
        yield descriptor
        if os.pread(descriptor, _HEADS_BYTES, 0) != before:
            raise Disturbed
    finally:
        os.close(descriptor)


def _locked(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
