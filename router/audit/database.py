"""The database of one audit: DuckDB on a file in a private directory, bounded in memory, thrown away at the end."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import duckdb

MEMORY_BYTES = 2 * 10**9
"""What DuckDB may take; what does not fit goes to the directory."""
MEMORY_BYTES_MIN = 256 * 10**6
_UNTRUSTED = ("join_order", "build_side_probe_side", "join_filter_pushdown")
"""So a join keeps in memory what stands right of it, as written: DuckDB 2.0 fails where a join with a small table feeds
that side (its issue 24807), and filters pushed from one side to the other have lost rows (22075, 25702)."""
_HERE = Path(__file__).parent


class AuditFailed(Exception):
    """The audit cannot go on; the text says what happened and what to do."""


class Database:
    """One connection; statements are the files of `tables/` and `findings/`.

    All tables are in the database's file, none is temporary: what is on disk already can leave memory at any time,
    while temporary tables first have to be spilled, for which DuckDB finds no room when memory is scarce.
    """

    def __init__(self, directory: Path, connection: duckdb.DuckDBPyConnection) -> None:
        self.directory = directory
        self.connection = connection

    def __repr__(self) -> str:
        return f"<the database of an audit in {self.directory}>"

    def run(self, statement: str, values: Sequence[object] | Mapping[str, object] | None = None) -> None:
        self.connection.execute(statement, values)

    def rows(self, statement: str, values: Sequence[object] | None = None) -> list[dict[str, Any]]:
        """Each row as a dictionary by the names of the columns."""
        found = self.connection.execute(statement, values)
        names = [column[0] for column in found.description or ()]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    def let(self, **values: object) -> None:
        """Variables that the statements read with `getvariable`."""
        for name, value in values.items():
            self.connection.execute(f"SET VARIABLE {name} = ?", [value])

    def make(self, table: str) -> None:
        """Run `tables/<table>.sql`."""
        self.connection.execute(_text(f"tables/{table}.sql"))

    def find(self, finding: str) -> list[dict[str, Any]]:
        """The rows of `findings/<finding>.sql`."""
        return self.rows(_text(f"findings/{finding}.sql"))


@cache
def _text(name: str) -> str:
    return (_HERE / name).read_text("utf-8")


@contextmanager
def database(memory_bytes: int, near: Path | None = None) -> Iterator[Database]:
    """A new one, in a directory beside `near` or, without it, where the system keeps temporary files.

    What DuckDB says within becomes `AuditFailed`.
    """
    with scratch(near) as directory:
        connection = None
        try:
            connection = duckdb.connect(str(directory / "audit.duckdb"))
            for name, value in _settings(directory, memory_bytes).items():
                connection.execute(f"SET {name} = {value}")
            yield Database(directory, connection)
        except duckdb.Error as error:
            raise AuditFailed(_sentence(error, memory_bytes, directory)) from error
        finally:
            if connection is not None:
                connection.close()


@contextmanager
def scratch(near: Path | None = None) -> Iterator[Path]:
    """A private directory that is gone afterwards."""
    try:
        directory = Path(tempfile.mkdtemp(prefix=".router-audit-", dir=near))
    except OSError as error:
        where = near or tempfile.gettempdir()
        raise AuditFailed(f"no temporary directory can be made in {where}: {error.strerror}") from None
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _settings(directory: Path, memory_bytes: int) -> dict[str, str]:
    return {
        "memory_limit": f"'{memory_bytes // 10**6}MB'",
        "fsync_mode": "'NONE'",  # Nothing here outlives the audit.
        "temp_directory": quoted(str(directory / "spill")),
        "threads": str(os.cpu_count() or 1),
        "preserve_insertion_order": "false",
        "disabled_optimizers": quoted(",".join(_UNTRUSTED)),
        "enable_progress_bar": "false",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "timezone": "'UTC'",
    }


def quoted(text: str) -> str:
    """As SQL writes text."""
    return "'" + text.replace("'", "''") + "'"


def exact(path: str) -> str:
    """The pattern that means this path and no other, whatever characters it has."""
    return re.sub(r"[*?\[]", r"[\g<0>]", path)


def _sentence(error: duckdb.Error, memory_bytes: int, directory: Path) -> str:
    said = " ".join(str(error).split())[:300]
    if isinstance(error, duckdb.OutOfMemoryException):
        if "No space left" in said or "max_temp_directory_size" in said:
            return (
                f"the disk of {directory.parent} has no room for the audit's tables: make room, or set TMPDIR ({said})"
            )
        return f"{memory_bytes // 10**6} MB of memory are too little for these logs: allow more with --memory ({said})"
    if isinstance(error, duckdb.IOException):
        return f"a file changed or went away while it was read, or the disk fails: audit again ({said})"
    return f"the audit's database failed: {said}"
