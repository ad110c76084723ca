"""One moment of an LMDB database of another process, read while that one goes on committing.

A read transaction holds it: LMDB does not use its pages again until it ends, so meanwhile the file grows by what is
written. That is why the moment is let go of as soon as it is copied. Whoever reads the copy slowly, a pipe over the
network for example, does not hold it: after `SPILL_S` the rest goes to a file beside. A process that was stopped cannot
let go of anything; the kernel ends it after `STOPPED_S_MAX` (`hold_limit.py`).
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, BinaryIO, Protocol

import lmdb

from router.disk import private_file
from router.disk.removal import remove_file
from router.disk.room import DATA, LOCK, allot_lock_file
from router.disk.snapshot.hold_limit import HoldLimit
from router.disk.snapshot.in_order import calm
from router.disk.snapshot.lmdb_pages import FileHead, PagesCheck, PagesFault, free_pages, read_head
from router.disk.snapshot.steady_writer import SteadyWriter
from router.disk.snapshot.terms import SnapshotFault
from router.disk.store.file import UNREADABLE

SPILL_S = 15.0
"""How long what reads a copy may hold the moment; then the rest of the copy goes to a file first."""
HOLD_S_MAX = 3600.0
"""How long a moment is held at the most; then there is no snapshot."""
STOPPED_S_MAX = 60.0
CHUNK_BYTES, CHUNKS_AHEAD, PIPE_BYTES = 1 << 20, 16, 1 << 20
SPARE_BYTES = 1 << 30  # by which the file may grow between opening and reading; it costs addresses only
FREE_PART_MAX = 0.2
"""If more of the pages are free, they are left out, which takes longer than to clear them."""
_UNKEPT = 1  # how many commits LMDB's lock file may lag behind the store's file, while one is being made


class HeldDatabase:
    """The database in a folder. `limit` ends this process if it is held and nothing goes on. Errors of LMDB pass,
    also those of a damaged file."""

    def __init__(self, folder: Path, limit: HoldLimit) -> None:
        self.folder, self._limit = folder, limit
        self._descriptor = os.open(folder / DATA, os.O_RDONLY | os.O_CLOEXEC)
        self._txn: Any = None
        self._heads, self._size, self._held_until_s = b"", 0, 0.0
        try:
            size = os.fstat(self._descriptor).st_size
            allot_lock_file(folder)
            self._env = lmdb.open(
                str(folder), map_size=2 * size + SPARE_BYTES, readonly=True, max_dbs=1, mode=private_file.FILE_MODE
            )
            self._give_lock_file()
            self._env.reader_check()  # those that were killed
            self._extend(size)
        except BaseException:
            os.close(self._descriptor)
            raise

    def __repr__(self) -> str:
        return f"<{self.folder}, {'held' if self._txn else 'not held'}>"

    @property
    def size(self) -> int:
        """The bytes of the file at its moment."""
        return self._size

    def hold(self) -> None:
        """Hold the last commit from now on."""
        try:
            self._txn = self._env.begin()
        except lmdb.MapResizedError:
            self._env.set_mapsize(0)
            self._txn = self._env.begin()
        self._limit.hold()
        self._heads = os.pread(self._descriptor, 2 * self._env.stat()["psize"], 0)
        self._size = os.fstat(self._descriptor).st_size
        self._held_until_s = time.monotonic() + HOLD_S_MAX

    def let_go(self) -> None:
        """Let its pages be used again; may be called again."""
        txn, self._txn = self._txn, None
        if txn is not None:
            txn.abort()
            self._limit.let_go()

    def close(self) -> None:
        """Let go of it, and of its files; may be called again."""
        self.let_go()
        self._env.close()
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    def goes_on(self) -> None:
        """Put off the end by the kernel; raise `SnapshotFault` if it has been held for too long."""
        self._limit.goes_on()
        if time.monotonic() > self._held_until_s:
            said = f"its copy took longer than {HOLD_S_MAX:,.0f} s, and all the while the file grows"
            raise SnapshotFault(f"{said}; see what holds up that disk, or stop the node first")

    def row(self, table: str, key: bytes) -> bytes | None:
        """Return a row of a table, None if one of them is not there."""
        try:
            found = self._txn.get(key, db=self._env.open_db(table.encode(), self._txn, create=False))
        except lmdb.NotFoundError:
            return None
        return None if found is None else bytes(found)

    def pages(self) -> Generator[bytearray, None, None] | None:
        """Return the file of that moment in parts, with its free pages cleared; None if so many are free, or it is such
        a file, that `copy` has to do it. The parts raise `PagesFault` where the file is damaged."""
        size = self._env.stat()["psize"]
        try:
            head = max(read_head(self._heads[:size]), read_head(self._heads[size:]), key=lambda one: one.transaction)
            if head.transaction != self._txn.id() or head.page_bytes != size:
                return None  # a commit came between the transaction and the heads, and its pages are not kept
            if head.last * size > self._size + SPARE_BYTES:
                return None
            free = free_pages(head, lambda first, count: os.pread(self._descriptor, count * size, first * size))
        except (PagesFault, ValueError):
            return None
        return None if free.count(1) > FREE_PART_MAX * len(free) else self._cleared(head, free)

    def _cleared(self, head: FileHead, free: bytearray) -> Generator[bytearray, None, None]:
        yield bytearray(self._heads)
        check, size, step = PagesCheck(head, free), head.page_bytes, max(1, CHUNK_BYTES // head.page_bytes)
        for first in range(2, head.last + 1, step):
            block = bytearray(min(step, head.last + 1 - first) * size)
            os.preadv(self._descriptor, [block], first * size)
            check.look(first, block)
            yield block
        self._check_kept()

    def copy(self, descriptor: int) -> None:
        """Write the database without its free pages; raise `SnapshotFault` if it was not held."""
        try:
            self._env.copyfd(descriptor, compact=True, txn=self._txn)
        finally:
            self._check_kept()

    def _check_kept(self) -> None:
        """Raise `SnapshotFault` if commits have been made by a program that does not look who reads."""
        last = self._env.info()["last_txnid"]  # before the other, which may be later for it
        with self._env.begin() as txn:
            told = txn.id()
        if last > told + _UNKEPT:
            said = f"an earlier version of this program is writing {self.folder}, and does not wait for readers"
            raise SnapshotFault(f"{said}: start the node again, or stop it first")

    def copy_raw(self, target: BinaryIO) -> None:
        """Write the file as it was at its moment, with its free pages, whose content counts for nothing."""
        target.write(self._heads)
        at = len(self._heads)
        while data := os.pread(self._descriptor, min(CHUNK_BYTES, max(0, self._size - at)), at):
            target.write(data)
            at += len(data)
            self.goes_on()

    def _extend(self, size: int) -> None:
        """Extend a file that is shorter than its pages, which would end this process by a bus error. One that another
        process extends just now is not cut."""
        needed = (self._env.info()["last_pgno"] + 1) * self._env.stat()["psize"]
        if size < needed:
            descriptor = os.open(self.folder / DATA, os.O_RDWR | os.O_CLOEXEC)
            try:
                os.posix_fallocate(descriptor, needed - 1, 1)
            finally:
                os.close(descriptor)

    def _give_lock_file(self) -> None:
        """Let the lock file belong to whom the database belongs: the superuser may have made it just now."""
        if os.geteuid() == 0:
            owner = os.fstat(self._descriptor)
            with suppress(OSError):
                os.chown(self.folder / LOCK, owner.st_uid, owner.st_gid)


class Copying(Protocol):
    """The part of a held database that is copied as a stream."""

    def pages(self) -> Generator[bytearray, None, None] | None: ...
    def copy(self, descriptor: int) -> None: ...
    def goes_on(self) -> None: ...
    def let_go(self) -> None: ...


class HeldStream:
    """The copy of a held database without its free pages, to be read once; `spill` is the path of the file for what is
    not read in time. The moment is let go of when it is copied, but not if that failed."""

    def __init__(self, held: Copying, spill: Path, spill_s: float = SPILL_S) -> None:
        self._held, self._path = held, spill
        self._until_s = time.monotonic() + spill_s
        self._spill: BinaryIO | None = None
        self._spilling: SteadyWriter | None = None
        self._chunks, self._room = SimpleQueue[bytearray](), threading.Semaphore(CHUNKS_AHEAD)
        self._is_drained = self._is_closed = False
        self._damage, self._fault = list[Exception](), list[Exception]()
        parts = held.pages()
        self._draining = threading.Thread(
            target=self._drain, args=(self._piped() if parts is None else parts,), name="read a database", daemon=True
        )
        self._draining.start()

    def __repr__(self) -> str:
        return f"<copy of {self._held!r}>"

    def read(self, size: int = -1, /) -> bytes | bytearray:
        """Return the next part, whatever the size asked for; none at the end. Raise what kept the rest from being
        kept."""
        if not self._is_drained:
            if chunk := self._chunks.get():
                self._room.release()
                return chunk
            self._is_drained = True
            self._draining.join()
            for fault in self._fault:
                raise fault
            if self._spill is not None and self._spilling is not None:
                self._spilling.finish()
                self._spill.seek(0)
        return self._spill.read(CHUNK_BYTES) if self._spill is not None else b""

    def is_whole(self) -> bool:
        """Whether LMDB could read all of it; asked at its end."""
        return not self._damage

    def close(self) -> None:
        """Give up what was not read."""
        self._is_closed = True
        self._room.release()
        self._draining.join()
        if self._spill is not None and self._spilling is not None:
            self._spilling.close()
            self._spill.close()
            remove_file(self._path)

    def _piped(self) -> Generator[bytearray, None, None]:
        """Yield what LMDB copies without the free pages, from a pipe."""
        reads, writes = os.pipe()
        with suppress(OSError):  # the system may allow less; then it takes more turns
            fcntl.fcntl(writes, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        copying = threading.Thread(target=self._copy, args=(writes,), name="copy a database", daemon=True)
        copying.start()
        try:
            with os.fdopen(reads, "rb", buffering=0) as pipe:
                while chunk := _filled(pipe):
                    yield chunk
        finally:
            copying.join()

    def _copy(self, writes: int) -> None:
        calm()
        try:
            self._held.copy(writes)
        except (lmdb.Error, ValueError, OSError, *UNREADABLE) as error:
            self._damage.append(error)
        except SnapshotFault as fault:
            self._fault.append(fault)
        finally:
            os.close(writes)

    def _drain(self, parts: Generator[bytearray, None, None]) -> None:
        calm()
        try:
            for chunk in parts:
                self._keep(chunk)
                self._held.goes_on()
                if self._is_closed:
                    break
        except PagesFault as error:
            self._damage.append(error)
        except (OSError, SnapshotFault) as fault:
            self._fault.append(fault)
        parts.close()  # and with it what makes them
        if not self._damage:
            self._held.let_go()
        self._chunks.put(bytearray())

    def _keep(self, chunk: bytearray) -> None:
        if self._spilling is None:
            if self._room.acquire(timeout=max(0.0, self._until_s - time.monotonic())):
                self._chunks.put(chunk)
                return
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, private_file.FILE_MODE)
            self._spill = os.fdopen(descriptor, "w+b")
            self._spilling = SteadyWriter(self._spill)
        self._spilling.write(chunk)


def _filled(pipe: Any) -> bytearray:
    """Return the next `CHUNK_BYTES`, fewer at the end."""
    chunk = bytearray(CHUNK_BYTES)
    view, count = memoryview(chunk), 0
    while count < CHUNK_BYTES and (more := pipe.readinto(view[count:])):
        count += more
    view.release()
    del chunk[count:]
    return chunk
