"""Put the files of an audit into the place of an earlier one, whose history they take over.

Several audits may do so at the same time: each waits until the one before has finished, by a lock on the directory that
holds the place.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb

from router.audit.database import AuditFailed, exact, quoted
from router.audit.delta_log import delta_table, is_delta
from spark_analytics.report.history import RUNS_MAX

HISTORY = "audit_history"
WAIT_S = 60
"""Longest wait for another audit that puts its files into the same directory; one takes milliseconds."""
LOOK_S = 0.02
_AT_CWD, _EXCHANGE = -100, 2


def table_files(out: Path, table: str) -> list[Path]:
    """Return the Parquet files of a table: one of the local engine, or those below a directory of Spark's, of a Delta
    table those in force; none if the table is missing. What is hidden is left out, with its name or a folder's: no
    signature covers it. Raise `AuditFailed` if a Delta table does not tell its files."""
    alone, below = out / f"{table}.parquet", out / table
    if alone.is_file():
        return [alone]
    found = delta_table(below).files if is_delta(below) else below.rglob("*.parquet")
    return sorted(path for path in found if _is_shown(path, below))


def _is_shown(path: Path, below: Path) -> bool:
    """Whether Spark would read the file as a part of the table below that directory."""
    return not any(part.startswith((".", "_")) for part in path.relative_to(below).parts)


def check_history(out: Path) -> None:
    """Raise `AuditFailed` if the history in `out` cannot be read, and would be lost."""
    if files := table_files(out, HISTORY):
        with closing(duckdb.connect()) as connection:
            _run(connection, out, f"SELECT count(*) FROM {_rows(files)}")


def put_in_place(new: Path, out: Path, old: Path, finish: Callable[[], None] = lambda: None) -> None:
    """Add the history in `out` to that in `new`, `finish` what is written about its files, then give `new` the name
    `out`; what was there is deleted, or `old` afterwards. Raise `AuditFailed` with the reason."""
    with _alone(out.parent):
        _take_over(new, out)
        finish()
        give_name(new, out, old)


def give_name(new: Path, out: Path, old: Path) -> None:
    """Rename `new` to `out`, and an existing `out` to `old`: in one step where the system can do that, so that a kill
    in between loses nothing; else undo the first step if the second fails."""
    if _exchanged(new, out):
        new.rename(old)
        return
    try:
        if out.exists():
            out.rename(old)
        new.rename(out)
    except BaseException:
        if old.exists() and not out.exists():
            old.rename(out)
        raise


def _exchanged(new: Path, out: Path) -> bool:
    """Exchange the names of two directories; return False if one is missing or the system cannot do it."""
    exchange = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if exchange is None:
        return False
    return bool(exchange(_AT_CWD, os.fsencode(new), _AT_CWD, os.fsencode(out), _EXCHANGE) == 0)


def _take_over(new: Path, out: Path) -> None:
    files = table_files(new, HISTORY)
    if not files:
        return
    before = table_files(out, HISTORY)
    draft = new / f"{HISTORY}.draft"
    rows = f"SELECT * FROM {_rows([*files, *before])} ORDER BY written_ns DESC LIMIT {RUNS_MAX}"
    with closing(duckdb.connect()) as connection:
        _run(
            connection,
            out,
            f"COPY (SELECT * FROM ({rows}) ORDER BY written_ns) TO {quoted(os.fspath(draft))} (FORMAT parquet)",
        )
    shutil.rmtree(new / HISTORY, ignore_errors=True)
    draft.rename(new / f"{HISTORY}.parquet")


def _rows(files: list[Path]) -> str:
    names = ", ".join(quoted(exact(os.fspath(file))) for file in files)
    return f"read_parquet([{names}], union_by_name = true, hive_partitioning = false)"


def _run(connection: duckdb.DuckDBPyConnection, out: Path, statement: str) -> None:
    try:
        connection.execute(statement)
    except duckdb.Error as error:
        said = " ".join(str(error).split())[:200]
        raise AuditFailed(
            f"the history of audits in {out / HISTORY}.parquet cannot be read ({said}): put back an unharmed copy, or"
            " move it away, and audit again"
        ) from None


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Wait until no other audit puts files into this directory, and hold others off; raise `AuditFailed` if that takes
    too long. Where the directory cannot be read, or its file system has no locks, nothing is held off."""
    try:
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:
        yield
        return
    try:
        until = time.monotonic() + WAIT_S
        while not _is_locked(handle):
            if time.monotonic() > until:
                raise AuditFailed(
                    f"another process has held {directory} locked for {WAIT_S} s, so the audit was not written there:"
                    " end it, or name a directory elsewhere, and audit again"
                )
            time.sleep(LOOK_S)
        yield
    finally:
        os.close(handle)


def _is_locked(handle: int) -> bool:
    """Lock the directory; return False if another process has it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EAGAIN):
            return False
    return True
