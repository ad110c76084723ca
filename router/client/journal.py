"""The ids of the messages that an app has handled, on disk, so that it never sees one again, even after a crash.

Each app has its own SQLite file. An id is kept until its message cannot come any more (expiry and ten minutes); beyond
`ids_max` the oldest are deleted, which matters only if the node then forgets what it has delivered. Ids are written in
groups: those handled while one commit runs go into the next. The heads of each group are written with them; the app's
next message there names them as its causes (R-E9).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import trio

from router.client.bell import Bell
from router.client.errors import ClientError
from router.client.interrupts import uninterrupted
from router.core.routing.seen import KEEP_AFTER_EXPIRY_S
from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.lifetime import expiry_min
from router.disk.private_file import FILE_MODE

IDS_MAX = 10_000_000
LOOK_UP_MAX = 500
PRUNE_EVERY = 1000

_SCHEMA = """
    CREATE TABLE IF NOT EXISTS handled (n INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, until_s INTEGER NOT NULL);
    CREATE INDEX IF NOT EXISTS handled_until ON handled (until_s);
    CREATE TABLE IF NOT EXISTS heads (
        grp BLOB NOT NULL, n INTEGER NOT NULL, id BLOB NOT NULL, until_min INTEGER NOT NULL, PRIMARY KEY (grp, n)
    ) WITHOUT ROWID;
"""


Row = tuple[MessageId, int]
"""An id, and the Unix second after which its message has expired."""
Head = tuple[MessageId, int]
"""An id, and the minute in which its message expires."""


def nothing() -> None:
    """Do nothing once rows are on disk."""


class JournalError(ClientError):
    """The journal cannot be opened, read or written; the text says why and what to do."""


@uninterrupted
class Journal:
    """The journal of one app, opened by one process at a time. `open`, `known`, `heads` and `write` block, the others
    do not. Without a path, and before `open`, nothing is known.

    `on_failed` is called when gathered rows could not be written: `check` raises why.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        wall_s: Callable[[], float],
        ids_max: int = IDS_MAX,
        on_failed: Callable[[], object] = nothing,
    ) -> None:
        self.path = None if path is None else Path(path)
        self._wall_s = wall_s
        self._ids_max = ids_max
        self._on_failed = on_failed
        self._since_pruned = 0
        self._rows: list[Row] = []
        self._then: list[Callable[[], None]] = []
        self._heads: dict[PublicKey, Callable[[], list[Head]]] = {}
        self._added = self._written = 0  # how often rows were added, and how many of these additions are on disk
        self._is_writing = False
        self._failed: JournalError | None = None
        self._work = Bell()
        self._lot = trio.lowlevel.ParkingLot()
        self._opened: sqlite3.Connection | None = None

    def __repr__(self) -> str:
        return f"<journal {self.path}: {self._written} messages written by this process>"

    def open(self) -> None:
        """Open the file, if there is to be one. Raise `JournalError`."""
        if self.path is None:
            return
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, FILE_MODE))
            database = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=0)
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from None
        try:
            self._prepare(database, self._wall_s())
        except sqlite3.Error as error:
            database.close()
            raise self._unusable(error) from None
        self._opened = database

    @property
    def is_open(self) -> bool:
        """Whether handled messages are written: there is a path, and `open` has succeeded."""
        return self._opened is not None

    @property
    def _database(self) -> sqlite3.Connection:
        assert self._opened is not None, "the journal has not been opened"
        return self._opened

    def _prepare(self, database: sqlite3.Connection, now_s: float) -> None:
        run = database.execute
        run("PRAGMA locking_mode = EXCLUSIVE")
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = FULL")
        database.executescript(_SCHEMA)
        run("BEGIN IMMEDIATE")
        self._prune(database, now_s)
        run("COMMIT")

    def _unusable(self, error: Exception) -> JournalError:
        if "locked" in str(error):
            return JournalError(f"the journal {self.path} is in use by another process; stop that one first")
        advice = "see that its directory exists and has room, or move a damaged file away"
        why = getattr(error, "strerror", None) or error
        return JournalError(f"the journal {self.path} cannot be used: {why}; {advice}")

    def known(self, ids: Sequence[MessageId]) -> Collection[MessageId]:
        """Return the ids among `ids` that were handled before."""
        found: set[MessageId] = set()
        if not self.is_open:
            return found
        try:
            for at in range(0, len(ids), LOOK_UP_MAX):
                some = ids[at : at + LOOK_UP_MAX]
                asked = f"SELECT id FROM handled WHERE id IN ({','.join('?' * len(some))})"
                found.update(MessageId(row[0]) for row in self._database.execute(asked, some))
        except sqlite3.Error as error:
            raise self._unusable(error) from None
        return found

    def heads(self, group: PublicKey) -> list[Head]:
        """Return the heads of a group, oldest first, as they were written last."""
        if not self.is_open:
            return []
        asked = "SELECT id, until_min FROM heads WHERE grp = ? ORDER BY n"
        try:
            return [(MessageId(id), until) for id, until in self._database.execute(asked, (bytes(group),))]
        except sqlite3.Error as error:
            raise self._unusable(error) from None

    def write(self, rows: Sequence[Row], now_s: float, heads: Mapping[PublicKey, Sequence[Head]] | None = None) -> None:
        """Write the ids, each with the Unix second its message expires, and the heads of groups in place of earlier
        ones; they are on disk when this returns."""
        kept = [(bytes(id), until_s + KEEP_AFTER_EXPIRY_S) for id, until_s in rows]
        run = self._database.execute
        try:
            run("BEGIN IMMEDIATE")
            try:
                self._database.executemany("INSERT OR IGNORE INTO handled (id, until_s) VALUES (?, ?)", kept)
                for group, ids in (heads or {}).items():
                    numbered = [(bytes(group), n, bytes(id), until) for n, (id, until) in enumerate(ids)]
                    run("DELETE FROM heads WHERE grp = ?", (bytes(group),))
                    self._database.executemany("INSERT INTO heads VALUES (?, ?, ?, ?)", numbered)
                self._since_pruned += len(kept)
                if self._since_pruned >= PRUNE_EVERY:
                    self._prune(self._database, now_s)
                run("COMMIT")
            except sqlite3.Error:
                if self._database.in_transaction:
                    run("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise self._unusable(error) from None

    def _prune(self, database: sqlite3.Connection, now_s: float) -> None:
        run = database.execute
        self._since_pruned = 0
        run("DELETE FROM handled WHERE until_s < ?", (int(now_s),))
        run("DELETE FROM heads WHERE until_min < ?", (expiry_min(now_s),))
        run("DELETE FROM handled WHERE n <= (SELECT max(n) FROM handled) - ?", (self._ids_max,))

    def count(self) -> int:
        return int(self._database.execute("SELECT count(*) FROM handled").fetchone()[0])

    # -- groups --------------------------------------------------------------------------------------------

    def gather(self, rows: Sequence[Row], then: Callable[[], None]) -> None:
        """Add the rows to the next commit of `run`; `then` is called when they are on disk."""
        self._rows += rows
        self._added += 1
        self._then.append(then)
        self._work.ring()

    def keep_heads(self, group: PublicKey, heads: Callable[[], list[Head]]) -> None:
        """Write the result of `heads` at the next commit."""
        self._heads[group] = heads

    async def remember(self, rows: Sequence[Row]) -> None:
        """Return when the rows are on disk. Many tasks may wait at once; they share commits."""
        self.gather(rows, nothing)
        mine = self._added
        while self._written < mine:
            if self._is_writing:
                await self._lot.park()
            else:
                await self._write_what_waits()

    async def run(self) -> None:
        """Write gathered rows, all that wait in one commit, until cancelled."""
        while True:
            await self._work.wait()
            try:
                await self.flush()
            except JournalError as error:
                self._failed = error
                self._on_failed()

    async def flush(self) -> None:
        """Return when all gathered rows are on disk."""
        while self._rows or self._is_writing:
            if self._is_writing:
                await self._lot.park()
            else:
                await self._write_what_waits()

    def check(self) -> None:
        """Raise, once, the error that kept `run` from writing; rows gathered later make it try again."""
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed

    async def _write_what_waits(self) -> None:
        rows, self._rows = self._rows, []
        then, self._then = self._then, []
        changed, self._heads = self._heads, {}
        heads = {group: found() for group, found in changed.items()}
        self._is_writing = True
        try:
            await trio.to_thread.run_sync(self.write, rows, self._wall_s(), heads)
        except BaseException:
            self._heads = changed | self._heads
            self._rows[:0] = rows
            self._then[:0] = then
            raise
        else:
            self._written += len(then)
            for act in then:
                act()
        finally:
            self._is_writing = False
            self._lot.unpark_all()

    def close(self) -> None:
        self._database.close()
