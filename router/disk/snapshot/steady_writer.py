"""Large files written so that the disk has work from the beginning, and not all of it at the end: a sync of the whole
would hold up the syncs of all others on that file system."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import BinaryIO

from router.disk.snapshot.terms import Content

STEP_BYTES = 16 << 20


class SteadyWriter:
    """Writes to a file, which is synced beside that after each `STEP_BYTES`. `write` and `finish` raise `OSError`, also
    that of such a sync."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._unsynced = file, 0
        self._thread: ThreadPoolExecutor | None = None
        self._syncing: Future[None] | None = None

    def __repr__(self) -> str:
        return f"<{self._unsynced} bytes since the last sync>"

    def write(self, data: Content) -> None:
        """Write the data."""
        self._file.write(data)
        self._unsynced += len(data)
        if self._unsynced >= STEP_BYTES and (self._syncing is None or self._syncing.done()):
            self._check()
            self._thread = self._thread or ThreadPoolExecutor(1, thread_name_prefix="sync")
            self._syncing, self._unsynced = self._thread.submit(os.fdatasync, self._file.fileno()), 0

    def finish(self) -> None:
        """Sync all of it."""
        self._check()
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Wait until no sync runs; the file stays open."""
        if self._thread is not None:
            self._thread.shutdown()

    def _check(self) -> None:
        if self._syncing is not None:
            self._syncing.result()
