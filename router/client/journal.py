"""The journal of an app: the ids of the messages that it has handled, so that it never sees one again after a crash.

The ids lie in the app's state (`router/disk/state/app_state.py`), where they commit with whatever else follows from a
message. The file that an app names as its journal says which of them are its own: one process at a time holds it, and
who moves it away begins anew. An id is kept until its message cannot come any more (expiry and ten minutes). The heads
of each group are written with them; the app's next message there names them as its causes (R-E9).
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path

from router.client.errors import JournalError
from router.client.interrupts import uninterrupted
from router.client.old_places import is_sqlite, take_over_journal
from router.client.state_writer import StateWriter
from router.core.routing.seen import KEEP_AFTER_EXPIRY_S
from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.lifetime import expiry_min
from router.disk import private_file
from router.disk.state.app_rows import AppBatch
from router.disk.state.environment import StateError

JOURNAL_ID_BYTES = 8
_LINE = re.compile(rb"router journal 1 ([0-9a-f]{16})\n")
_LINE_BYTES = 34

Row = tuple[MessageId, int]
"""An id, and the Unix second after which its message has expired."""
Head = tuple[MessageId, int]
"""An id, and the minute in which its message expires."""


@uninterrupted
class Journal:
    """The journal of one app, opened by one process at a time. `open`, `known` and `heads` block, the others do not.
    Without a path, and before `open`, nothing is known."""

    def __init__(self, path: str | os.PathLike[str] | None, writer: StateWriter) -> None:
        self.path = None if path is None else Path(path)
        self._writer = writer
        self._id = b""
        self._descriptor = -1
        self._is_taken_over = False

    def __repr__(self) -> str:
        return f"<journal {self.path} by {self._writer!r}>"

    # -- the file ------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Open the journal, if there is to be one: hold its file, and take over one of an older version. Raise
        `JournalError`."""
        if self.path is None:
            return
        try:
            self._hold(self.path)
            self._id = self._found_id(self.path)
            if not self._is_taken_over:  # then its file stays as it is for now
                self._writer.state.begin_log(self._descriptor, self._id)
        except BaseException as error:
            self._let_go()
            if isinstance(error, OSError):
                raise self._unusable(error.strerror or str(error)) from None
            if isinstance(error, StateError):
                raise JournalError(str(error)) from None
            raise

    def _hold(self, path: Path) -> None:
        """Hold the file that is at the path; one that another process has just replaced is not it."""
        while True:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, private_file.FILE_MODE)
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                said = f"the journal {path} is in use by another process"
                raise JournalError(
                    f"{said}; stop that one first, or give each a name and a journal of its own"
                ) from None
            if os.path.samestat(os.fstat(self._descriptor), path.stat()):
                return
            self._let_go()

    def _found_id(self, path: Path) -> bytes:
        """Return the id under which the journal's rows lie in the state."""
        state, now_min = self._writer.state, self._writer.now_min
        state.open(now_min)
        head = os.pread(self._descriptor, _LINE_BYTES, 0)
        if found := _LINE.fullmatch(head):
            return bytes.fromhex(found[1].decode())
        if is_sqlite(head):
            self._is_taken_over = True
            return take_over_journal(state, path, os.urandom(JOURNAL_ID_BYTES), now_min)
        if head.strip(b"\0"):
            raise self._unusable("it is not a database, nor the file of a journal")
        id = os.urandom(JOURNAL_ID_BYTES)
        os.pwrite(self._descriptor, _line(id), 0)
        os.fsync(self._descriptor)
        private_file.sync_directory(path.resolve().parent)
        return id

    def close(self) -> None:
        """Let go of the file; one of an older version, which is taken over, is replaced."""
        if self.is_open:
            with suppress(StateError):  # what stays in the file is read from there by the next run
                self._writer.state.end_log()
        if self._is_taken_over and self.is_open and self.path is not None:
            try:
                private_file.replace(self.path, _line(self._id))
                for kind in ("-wal", "-shm"):
                    Path(f"{self.path}{kind}").unlink(missing_ok=True)
            except OSError:
                pass  # it stays beside until an app can replace it: nothing is lost
        self._let_go()

    def _let_go(self) -> None:
        descriptor, self._descriptor, self._id = self._descriptor, -1, b""
        if descriptor >= 0:
            os.close(descriptor)

    def _unusable(self, why: str) -> JournalError:
        advice = "see that its directory exists and has room, or move a damaged file away"
        return JournalError(f"the journal {self.path} cannot be used: {why}; {advice}")

    # -- what is in it -------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether handled messages are written: there is a path, and `open` has succeeded."""
        return bool(self._id)

    def known(self, ids: Sequence[MessageId]) -> Collection[MessageId]:
        """Return the ids among `ids` that were handled before. Raise `JournalError`."""
        if not self.is_open:
            return ()
        try:
            found = self._writer.state.known([self._id + id for id in ids])
        except StateError as error:
            raise JournalError(str(error)) from None
        return {MessageId(key[JOURNAL_ID_BYTES:]) for key in found}

    def heads(self, group: PublicKey) -> list[Head]:
        """Return the heads of a group, oldest first, as they were written last. Raise `JournalError`."""
        if not self.is_open:
            return []
        try:
            return [(MessageId(id), end) for id, end in self._writer.state.heads(self._id + group)]
        except StateError as error:
            raise JournalError(str(error)) from None

    def batch(self, rows: Sequence[Row]) -> AppBatch:
        """Return what is to be written of handled messages, each with the Unix second at which it expires."""
        return AppBatch([(self._id + id, expiry_min(until_s + KEEP_AFTER_EXPIRY_S)) for id, until_s in rows])

    def gather(self, rows: Sequence[Row], then: Callable[[], None]) -> None:
        """Add the rows to the writer's next commit; `then` is called when they are on disk."""
        self._writer.gather(self.batch(rows), then)

    def keep_heads(self, group: PublicKey, heads: Callable[[], list[Head]]) -> None:
        """Write the result of `heads` at the next commit."""
        self._writer.keep_heads(self._id + group, heads)

    def check(self) -> None:
        """Raise, once, the error that kept gathered rows from the disk; see `StateWriter.check`."""
        self._writer.check()

    async def flush(self) -> None:
        """Return when all gathered rows are on disk. Raise `JournalError`."""
        await self._writer.flush()

    async def remember(self, rows: Sequence[Row]) -> None:
        """Return when the rows are on disk. Raise `JournalError`."""
        await self._writer.write(self.batch(rows))


def _line(id: bytes) -> bytes:
    return b"router journal 1 %b\n" % id.hex().encode()
