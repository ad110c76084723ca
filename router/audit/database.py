"""The database of one audit: DuckDB on a file in a private directory, bounded in memory, deleted at the end."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb

from router.audit.disk_space import NO_ROOM, no_room

MEMORY_BYTES = 2 * 10**9
"""Most memory that DuckDB may take, in bytes; data that does not fit goes to the directory."""
MEMORY_BYTES_MIN = 256 * 10**6
CHECKPOINT_PART = 8
"""DuckDB writes a checkpoint when what it wrote since the last one has this part of its memory."""
ALONE_BYTES = 1 << 16
"""Logs of fewer bytes are audited by one thread: their audit consists of planning a hundred statements, and sharing out
a few rows among threads costs a tenth more CPU time."""
_UNTRUSTED = ("join_order", "build_side_probe_side", "join_filter_pushdown")
"""Optimizers that are off, so that a join keeps its right side, as written, in memory: DuckDB 2.0 fails where a join
with a small table feeds that side (its issue 24807), and filters pushed from one side to the other have lost rows
(22075, 25702)."""
_SAID_OF_NO_ROOM = (*map(os.strerror, NO_ROOM), "max_temp_directory_size")
_PREFIX, _LOCK = ".router-audit-", "lock"
UNLOCKED_S = 86_400
"""Seconds without a change after which a directory without a lock file counts as abandoned."""
_HERE = Path(__file__).parent
_PARSED: dict[str, Sequence[duckdb.Statement]] = {}
"""The statements of the files beside this one, by name, as far as this process has needed them."""


class AuditFailed(Exception):
    """The audit cannot go on; the text says what happened and what to do."""


class Database:
    """One connection; statements are the files of `tables/` and `findings/`.

    All tables are in the database's file, none is temporary: data already on disk can leave memory at any time, while
    temporary tables first have to be spilled, for which DuckDB finds no room when memory is scarce.
    """

    def __init__(self, directory: Path, connection: duckdb.DuckDBPyConnection) -> None:
        self.directory = directory
        self.connection = connection
        self._thread = ThreadPoolExecutor(1)  # frees the main thread for signals, which DuckDB may ignore

    def __repr__(self) -> str:
        return f"<the database of an audit in {self.directory}>"

    def run(
        self, statement: str | duckdb.Statement, values: Sequence[object] | Mapping[str, object] | None = None
    ) -> None:
        statement_done = self._thread.submit(self.connection.execute, statement, values)
        try:
            statement_done.result()
        except BaseException:
            if not statement_done.done():
                self.connection.interrupt()
                wait([statement_done])
            raise

    def close(self) -> None:
        self._thread.shutdown()
        with suppress(duckdb.Error):  # DuckDB writes once more here, perhaps to a full disk.
            self.connection.close()

    def rows(
        self, statement: str | duckdb.Statement, values: Sequence[object] | Mapping[str, object] | None = None
    ) -> list[dict[str, Any]]:
        """Run a statement; return each row as a dictionary by column name."""
        self.run(statement, values)
        names = [column[0] for column in self.connection.description or ()]
        return [dict(zip(names, row, strict=True)) for row in self.connection.fetchall()]

    def let(self, **values: object) -> None:
        """Set variables that the statements read with `getvariable`."""
        for name, value in values.items():
            self.run(f"SET VARIABLE {name} = ?", [value])

    def make(self, table: str) -> None:
        """Run `tables/<table>.sql`."""
        for statement in self._statements(f"tables/{table}.sql"):
            self.run(statement)

    def find(self, finding: str) -> list[dict[str, Any]]:
        """Return the rows of `findings/<finding>.sql`."""
        [statement] = self._statements(f"findings/{finding}.sql")
        return self.rows(statement)

    def _statements(self, name: str) -> Sequence[duckdb.Statement]:
        """Return the statements of a file here, which is parsed once for all audits of a process: parsing takes a sixth
        of the CPU time of an audit of a few lines."""
        if name not in _PARSED:
            _PARSED[name] = self.connection.extract_statements((_HERE / name).read_text("utf-8"))
        return _PARSED[name]


@contextmanager
def database(memory_bytes: int, near: Path | None = None, threads: int | None = None) -> Iterator[Database]:
    """Open a new database, in a directory beside `near` or, without it, where the system keeps temporary files.
    `threads`: how many DuckDB has; one for each core if that is None.

    Errors of DuckDB within the block become `AuditFailed`.
    """
    with scratch(near) as directory:
        try:
            with closing(Database(directory, duckdb.connect(str(directory / "audit.duckdb")))) as tables:
                tables.run("PRAGMA disable_checkpoint_on_shutdown")  # What is deleted need not be whole on disk.
                for name, value in _settings(directory, memory_bytes, threads or cores()).items():
                    tables.run(f"SET {name} = {value}")
                yield tables
        except duckdb.Error as error:
            raise AuditFailed(_sentence(error, memory_bytes, no_room(directory.parent, near))) from error


def threads_for(log_bytes: int) -> int:
    """Return how many threads audit logs of this size."""
    return 1 if log_bytes < ALONE_BYTES else cores()


def cores() -> int:
    return os.cpu_count() or 1


@contextmanager
def scratch(near: Path | None = None) -> Iterator[Path]:
    """Make a private directory that is deleted afterwards; those left by killed audits are deleted first.

    A file in it is locked for as long as this lasts. A full disk becomes `AuditFailed`.
    """
    where = near or _temporary()
    _remove_left(where)
    try:
        directory = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=where))
        lock = _lock(directory)
    except OSError as error:
        if error.errno in NO_ROOM:
            raise AuditFailed(no_room(where, near)) from None
        raise AuditFailed(f"no temporary directory can be made in {where}: {error.strerror}") from None
    try:
        yield directory
    except OSError as error:
        if error.errno in NO_ROOM:
            raise AuditFailed(no_room(where, near)) from error
        raise
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(lock)


def _temporary() -> Path:
    try:
        return Path(tempfile.gettempdir())
    except OSError as error:
        raise AuditFailed(f"{error.strerror}: make room in one of them, or set TMPDIR to another directory") from None


def _lock(directory: Path) -> int:
    """Return the descriptor that holds the lock; the lock file gets its name only once it is locked."""
    draft = directory / f"{_LOCK}.new"
    lock = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        draft.rename(directory / _LOCK)
    except OSError:  # A file system without locks: other audits judge the directory by its age.
        draft.unlink(missing_ok=True)
    return lock


def _remove_left(where: Path) -> None:
    """Delete our own directories that an audit left there and that no process uses any more."""
    with suppress(OSError):
        for directory in where.glob(f"{_PREFIX}*"):
            with suppress(OSError):
                found = directory.lstat()
                if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
                    _remove_unused(directory)


def _remove_unused(directory: Path) -> None:
    """Delete the directory if it is abandoned; raise `OSError` if it is in use."""
    try:
        lock = os.open(directory / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        changed = max(path.lstat().st_mtime for path in (directory, *directory.iterdir()))
        if time.time() - changed > UNLOCKED_S:
            shutil.rmtree(directory, ignore_errors=True)
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(directory, ignore_errors=True)
    finally:
        os.close(lock)


def _settings(directory: Path, memory_bytes: int, threads: int) -> dict[str, str]:
    return {
        "memory_limit": f"'{memory_bytes // 10**6}MB'",
        # At the default, each 16 MB, checkpoints are a tenth of an audit; what is in none takes memory.
        "checkpoint_threshold": f"'{memory_bytes // CHECKPOINT_PART // 10**6}MB'",
        "fsync_mode": "'NONE'",  # Nothing here outlives the audit.
        "temp_directory": quoted(str(directory / "spill")),
        "threads": str(threads),
        "preserve_insertion_order": "false",
        "disabled_optimizers": quoted(",".join(_UNTRUSTED)),
        "write_buffer_row_group_count": "1",  # Keeping more in memory makes nothing faster.
        "enable_progress_bar": "false",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "timezone": "'UTC'",
    }


def quoted(text: str) -> str:
    """Return the text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def exact(path: str) -> str:
    """Return the pattern that matches this path only, whatever characters it has."""
    return re.sub(r"[*?\[]", r"[\g<0>]", path)


def _sentence(error: duckdb.Error, memory_bytes: int, full: str) -> str:
    if any(text in str(error) for text in _SAID_OF_NO_ROOM):
        return full
    said = " ".join(str(error).split())[:300]
    if isinstance(error, duckdb.OutOfMemoryException):
        return f"{memory_bytes // 10**6} MB of memory are too little for these logs: allow more with --memory ({said})"
    if isinstance(error, duckdb.IOException):
        return f"a file changed or went away while it was read, or the disk fails: audit again ({said})"
    return f"the audit's database failed: {said}"
