"""Large files written so that those who sync other files of that disk hardly wait.

What lies in the page cache and is not on the disk yet holds up others: a file system with a journal, as ext4, writes
all of it before it syncs anybody's growing file. So large files are written past the page cache (`O_DIRECT`), a few
blocks at a time, which takes less CPU time, too. They get their room before: in a file that grows by such writes, one
waits for the other. Where a file system does not permit that, the file is synced again and again while it is written,
so that there is never much of it.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import stat
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import BinaryIO, Protocol

from router.disk.snapshot.terms import Content

BLOCK_BYTES, BLOCKS = 1 << 20, 3
"""How much is written at once past the page cache, and how many of these the disk gets at a time. A file that is
shorter than one is written as usual."""
ROOM_BYTES = 16 << 20
"""How much room a file gets ahead of what is written past the page cache; what it does not need is given back."""
STEP_BYTES = 16 << 20
"""After how many bytes a file is synced that is written through the page cache."""
_DIRECT = getattr(os, "O_DIRECT", 0)


class SteadyWriter:
    """Writes to a new file, from its beginning. What is written is not to be changed afterwards. `write` and `finish`
    raise `OSError`, also that of an earlier write."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._first, self._first_bytes = list[Content](), 0
        self._way: _Way | None = None

    def __repr__(self) -> str:
        return f"<{self._way or f'{self._first_bytes} bytes'}>"

    def write(self, data: Content) -> None:
        """Write the data."""
        if self._way is not None:
            self._way.write(data)
            return
        self._first.append(data)
        self._first_bytes += len(data)
        if self._first_bytes >= BLOCK_BYTES:
            self._begin()

    def finish(self) -> None:
        """Write and sync all of it."""
        if self._way is not None:
            self._way.finish()
            return
        self._file.writelines(self._first)
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Wait until nothing is written any more; the file stays open."""
        if self._way is not None:
            self._way.close()

    def _begin(self) -> None:
        self._way = _PastCache(self._file) if _permits_direct(self._file.fileno()) else _ThroughCache(self._file)
        first, self._first = self._first, []
        for data in first:
            self._way.write(data)


class _Way(Protocol):
    def write(self, data: Content) -> None: ...
    def finish(self) -> None: ...
    def close(self) -> None: ...


class _PastCache:
    """Writes whole blocks by threads, from memory that begins at a page, as the kernel asks for."""

    def __init__(self, file: BinaryIO) -> None:
        self._descriptor, self._file = file.fileno(), file
        self._block, self._fill, self._at, self._room = mmap.mmap(-1, BLOCK_BYTES), 0, 0, 0
        self._free = [mmap.mmap(-1, BLOCK_BYTES) for _ in range(BLOCKS)]
        self._running = deque[tuple[Future[None], mmap.mmap]]()
        self._threads = ThreadPoolExecutor(BLOCKS, thread_name_prefix="write")

    def __repr__(self) -> str:
        return f"{self._at + self._fill} bytes past the cache"

    def write(self, data: Content) -> None:
        rest = memoryview(data)
        while rest:
            part = rest[: BLOCK_BYTES - self._fill]
            self._block[self._fill : self._fill + len(part)] = part
            self._fill, rest = self._fill + len(part), rest[len(part) :]
            if self._fill == BLOCK_BYTES:
                self._send()

    def finish(self) -> None:
        while self._running:
            self._settle()
        _set_direct(self._descriptor, on=False)
        _write_at(self._descriptor, memoryview(self._block)[: self._fill], self._at)
        self._file.truncate(self._at + self._fill)
        self._file.seek(0, os.SEEK_END)
        os.fsync(self._descriptor)

    def close(self) -> None:
        self._threads.shutdown()

    def _send(self) -> None:
        """Have the block written when there are not too many others."""
        if len(self._running) == BLOCKS:
            self._settle()
        if self._at == self._room:
            with suppress(OSError):  # less may be enough
                os.posix_fallocate(self._descriptor, self._room, ROOM_BYTES)
            self._room += ROOM_BYTES
        writing = self._threads.submit(_write_at, self._descriptor, memoryview(self._block), self._at)
        self._running.append((writing, self._block))
        self._block, self._fill, self._at = self._free.pop(), 0, self._at + BLOCK_BYTES

    def _settle(self) -> None:
        writing, block = self._running.popleft()
        writing.result()
        self._free.append(block)


class _ThroughCache:
    """Writes as usual, and syncs beside that after each `STEP_BYTES`."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._unsynced = file, 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sync")
        self._syncing: Future[None] | None = None

    def __repr__(self) -> str:
        return f"{self._unsynced} bytes since the last sync"

    def write(self, data: Content) -> None:
        self._file.write(data)
        self._unsynced += len(data)
        if self._unsynced >= STEP_BYTES and (self._syncing is None or self._syncing.done()):
            self._check()
            self._syncing, self._unsynced = self._thread.submit(os.fdatasync, self._file.fileno()), 0

    def finish(self) -> None:
        self._check()
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._thread.shutdown()

    def _check(self) -> None:
        if self._syncing is not None:
            self._syncing.result()


def _permits_direct(descriptor: int) -> bool:
    """Have the descriptor write past the page cache from now on, if that is possible."""
    if not _DIRECT or not stat.S_ISREG(os.fstat(descriptor).st_mode):
        return False
    try:
        _set_direct(descriptor, on=True)
        with mmap.mmap(-1, mmap.PAGESIZE) as page:  # some file systems say no only then
            os.pwrite(descriptor, page, 0)
    except OSError:
        _set_direct(descriptor, on=False)
        return False
    return True


def _set_direct(descriptor: int, *, on: bool) -> None:
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL) & ~_DIRECT
    fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | (_DIRECT if on else 0))


def _write_at(descriptor: int, data: memoryview, at: int) -> None:
    while data:
        count = os.pwrite(descriptor, data, at)
        data, at = data[count:], at + count
