"""Answer a question from the tables that an audit wrote, by DuckDB: of the local engine, of Spark, or of a stream."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
from msgspec import Struct

from router.audit.database import MEMORY_BYTES, Database, database, exact, quoted
from router.audit.delta_log import delta_table, is_delta
from router.audit.publish import GOLD
from router.audit.put_in_place import table_files
from spark_analytics.report.history import UNFINISHED

ADDITIONS = {"delivery": "delivery_open"}
"""Tables of a stream that hold the other rows of a table: what is not over for good."""
STREAM_KEYS = {"delivery": ("router", "parcel", "recipient"), "route_change": ("router", "seq")}
"""The keys of tables to which each batch of a stream adds rows, some of which replace earlier ones."""
STREAM_STATE = "state"
"""The directory that a stream keeps beside its tables."""
STREAM_CHECKPOINT = "checkpoint"
"""The directory in which Spark keeps how far a stream has come."""
STREAM_LOCK = ".lock"
"""The file by which a stream has its directory for itself, the first that it makes there."""
NOT_OF_STREAMS = {
    "message": "it has a row for each message, which the log of each other router changes again",
    "journey": "how a message went is told by the logs of all routers together",
}
"""The tables that a stream does not keep, and why."""
_AGAIN = "run `router audit LOGS --out {out}` again"


class NoAnswer(Exception):
    """The tables cannot answer the question; the text says why, and what to do."""


class SqlAnswer(Struct, frozen=True):
    """The rows of an answer, in order, and the names of its columns."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def dicts(self) -> list[dict[str, Any]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def check_output(out: Path) -> None:
    """Raise `NoAnswer` unless an audit wrote tables to this directory."""
    if not out.is_dir():
        there = "is a file" if out.exists() else "does not exist"
        raise NoAnswer(f"{out} {there}: name the directory that `router audit LOGS --out DIR` wrote")
    files = table_files(out, "audit_run")
    if not files and any((out / name).exists() for name in (STREAM_STATE, STREAM_CHECKPOINT, STREAM_LOCK)):
        raise NoAnswer(f"no batch of the stream that writes to {out} has ended: let it go on, or run it again")
    if not files:
        raise NoAnswer(f"{out} holds no audit: `router audit LOGS --out DIR` writes one")
    if _is_unfinished(files):
        raise NoAnswer(
            f"the audit in {out} is unfinished, and its tables may be of two audits: wait until the job that writes"
            " them has ended; if it was killed, run it again"
        )


def _is_unfinished(files: list[Path]) -> bool:
    """Whether `audit_run` says that the tables beside it are being written. What it is else is not judged here."""
    with closing(duckdb.connect()) as connection:
        try:
            found = connection.sql(f"SELECT verdict FROM {_reader(files)}").fetchall()
        except duckdb.Error:
            return False
    return (UNFINISHED,) in found


def answer(out: Path, sql: str, tables: Iterable[str]) -> SqlAnswer:
    """Return the answer of the SQL, which reads these tables; raise `NoAnswer`, or `AuditFailed` if it takes too much
    memory or the disk fails."""
    check_output(out)
    with database(MEMORY_BYTES) as opened:
        for table in tables:
            _open_table(opened, out, table)
        try:
            opened.run(sql)
        except (duckdb.BinderException, duckdb.CatalogException) as error:
            said = " ".join(str(error).split())[:200]
            raise NoAnswer(
                f"another version of the audit wrote {out}, and its tables lack what the question needs ({said}):"
                f" {_AGAIN.format(out=out)}"
            ) from None
        columns = tuple(str(column[0]) for column in opened.connection.description or ())
        return SqlAnswer(columns, tuple(opened.connection.fetchall()))


def _open_table(opened: Database, out: Path, table: str) -> None:
    """Give the table its name in the database."""
    assert table in GOLD, f"no audit writes the table {table}"
    files = table_files(out, table)
    if not files and not is_delta(out / table):
        raise NoAnswer(_missing(out, table))
    more = table_files(out, ADDITIONS[table]) if table in ADDITIONS else []
    parts = " UNION ALL BY NAME ".join(f"FROM {_reader(one)}" for one in (files, more) if one)
    parts = parts or f"FROM {delta_table(out / table).no_rows}"
    try:
        opened.run(f"CREATE VIEW {table} AS {parts}")
    except (duckdb.InvalidInputException, duckdb.IOException) as error:
        said = " ".join(str(error).split())[:200]
        raise NoAnswer(f"the table {table} in {out} cannot be read ({said}): {_AGAIN.format(out=out)}") from None


def _missing(out: Path, table: str) -> str:
    """Return the sentence about a table that the directory lacks."""
    if not (out / STREAM_STATE).is_dir():
        return f"{out} lacks the table {table}: an older version wrote this audit; {_AGAIN.format(out=out)}"
    if table in NOT_OF_STREAMS:
        return (
            f"a stream wrote {out}, and keeps no table {table}: {NOT_OF_STREAMS[table]}; run `router audit LOGS --out"
            " DIR` on the same logs, with another directory, and ask there"
        )
    return (
        f"a stream wrote {out}, and the table {table} is not there: it has had no batch yet, or an older version wrote"
        " it; let it run once, with another --out if it says that its state is of another version"
    )


def _reader(files: list[Path]) -> str:
    """Return the SQL that reads the files: of rows with the same key that batches of a stream wrote, the last."""
    names = ", ".join(quoted(exact(os.fspath(file))) for file in files)
    if not files[0].parent.name.startswith("batch="):
        return f"read_parquet([{names}], hive_partitioning = false)"
    rows = f"read_parquet([{names}], hive_partitioning = false, filename = true)"
    batch = "CAST(regexp_extract(filename, 'batch=([0-9]+)/[^/]*$', 1) AS BIGINT)"
    key = ", ".join(STREAM_KEYS[files[0].parent.parent.name])
    return (
        f"(SELECT * EXCLUDE (filename) FROM {rows}"
        f" QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY {batch} DESC) = 1)"
    )
