"""The data files of a Delta table that are in force, by its transaction log: files that it has superseded lie beside
them until somebody removes them.

The log is a folder of commits, numbered from 0, each with a JSON object per line: `add` names a file, `remove` one that
counts no more, `metaData` the columns. A checkpoint (Parquet) stands for all commits up to its own, which may then be
missing. What this reader does not know (deletion vectors, checkpoints with sidecars, files elsewhere) it refuses.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import duckdb

from router.audit.database import AuditFailed, exact, quoted

LOG = "_delta_log"
LOG_BYTES_MAX = 256 << 20
"""Most bytes of a log that are read: a checkpoint and the commits after it. That of an audit has a few KiB."""
_COMMIT = re.compile(r"(\d{20})\.json", re.ASCII)
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet", re.ASCII)
_ELSEWHERE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:")
_REMEDY = (
    "write the table as Parquet with the Spark that wrote it (spark.read.format('delta').load(…).write.parquet(…)) into"
    " the same place below another directory, and ask there"
)
_KINDS = ("remove", "metaData", "add")
"""The actions that are read, in the order in which those of a commit count: it may remove a file and add it again."""
_TYPES = {"string": "VARCHAR", "long": "BIGINT", "integer": "INTEGER", "boolean": "BOOLEAN", "double": "DOUBLE"}
_Action = tuple[str, dict[str, Any]]


class DeltaTable(NamedTuple):
    """The newest state of a table. `columns`: their types in SQL, by name."""

    files: tuple[Path, ...]
    columns: dict[str, str]

    @property
    def no_rows(self) -> str:
        """Return SQL that reads the table while it has no file."""
        cells = ", ".join(
            f'NULL::{kind} AS "{name.replace(_QUOTE, _QUOTE * 2)}"' for name, kind in self.columns.items()
        )
        return f"(SELECT {cells} WHERE false)"


_QUOTE = '"'


def is_delta(folder: Path) -> bool:
    return (folder / LOG).is_dir()


def delta_table(folder: Path) -> DeltaTable:
    """Return the newest state of the table; raise `AuditFailed` with the reason if the log does not tell it."""
    found: dict[str, bool] = {}
    columns: dict[str, str] = {}
    for kind, of in _actions(folder):
        if kind == "metaData":
            columns = _columns(folder, of["schemaString"])
        elif _ELSEWHERE.match(of["path"]) or ".." in of["path"].split("/"):
            raise _unreadable(folder, f"it names a file elsewhere, {of['path'][:80]!r}")
        elif kind == "add":
            found[of["path"]] = of.get("deletionVector") is not None
        else:
            found.pop(of["path"], None)
    if any(found.values()):
        raise _unreadable(folder, "rows of its files are deleted by deletion vectors")
    return DeltaTable(tuple(sorted(folder / unquote(path) for path in found)), columns)


def _columns(folder: Path, schema: str) -> dict[str, str]:
    try:
        return {str(one["name"]): _type(one["type"]) for one in json.loads(schema)["fields"]}
    except (KeyError, TypeError, ValueError, RecursionError):
        raise _unreadable(folder, "its schema cannot be read") from None


def _type(told: Any) -> str:
    """Return the type in SQL of a column of the schema: of those that tables of an audit have, others as text."""
    if isinstance(told, dict) and told.get("type") == "array":
        return f"{_type(told['elementType'])}[]"
    return _TYPES.get(told, "VARCHAR") if isinstance(told, str) else "VARCHAR"


def _actions(folder: Path) -> Iterator[_Action]:
    """Yield what the newest checkpoint says, then each commit after it."""
    try:
        names = sorted(path.name for path in (folder / LOG).iterdir())
    except OSError as error:
        raise _unreadable(folder, f"{error.strerror}") from None
    commits = {int(match[1]): name for name in names if (match := _COMMIT.fullmatch(name))}
    version, parts = _checkpoint(names)
    after = [commits[number] for number in sorted(commits) if number > version]
    _check_size(folder, (*parts, *after))
    if parts:
        yield from _from_checkpoint(folder, parts)
    if not parts and not commits:
        raise _unreadable(folder, "it holds no commit")
    for number in range(version + 1, max(commits, default=version) + 1):
        if number not in commits:
            raise _unreadable(folder, f"its commit {number} is missing, and no checkpoint that can be read covers it")
        yield from _from_commit(folder, commits[number])


def _check_size(folder: Path, names: Iterable[str]) -> None:
    try:
        size = sum((folder / LOG / name).stat().st_size for name in names)
    except OSError as error:
        raise _unreadable(folder, f"{error.strerror}") from None
    if size > LOG_BYTES_MAX:
        raise _unreadable(folder, f"it has {size:,} bytes to read, more than {LOG_BYTES_MAX:,}")


def _checkpoint(names: list[str]) -> tuple[int, list[str]]:
    """Return the version of the newest checkpoint of which each part is there, and its parts; -1 if there is none."""
    of: dict[tuple[int, int], list[str]] = {}
    for name in names:
        if match := _CHECKPOINT.fullmatch(name):
            of.setdefault((int(match[1]), int(match[3] or 1)), []).append(name)
    whole = [(version, parts) for (version, many), parts in of.items() if len(parts) == many]
    return max(whole, default=(-1, []))


def _from_checkpoint(folder: Path, parts: list[str]) -> list[_Action]:
    names = ", ".join(quoted(exact(os.fspath(folder / LOG / part))) for part in parts)
    with closing(duckdb.connect()) as connection:
        try:
            rows = connection.sql(
                f"SELECT to_json({{'metaData': metaData, 'add': add}})::VARCHAR FROM read_parquet([{names}])"
                " WHERE metaData IS NOT NULL OR add IS NOT NULL"
            ).fetchall()
            return _in_order(json.loads(row[0]) for row in rows)
        except (duckdb.Error, KeyError, TypeError, ValueError) as error:
            said = " ".join(str(error).split())[:200]
            raise _unreadable(folder, f"its checkpoint {parts[0]} cannot be read: {said}") from None


def _from_commit(folder: Path, name: str) -> list[_Action]:
    try:
        lines = (folder / LOG / name).read_bytes().splitlines()
        return _in_order(json.loads(line) for line in lines if line.strip())
    except (OSError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise _unreadable(folder, f"its commit {name} cannot be read: {' '.join(str(error).split())[:200]}") from None


def _in_order(lines: Iterable[dict[str, Any]]) -> list[_Action]:
    """Return the actions that are read, as they count; raise an error if one lacks what is read of it."""
    found = [(kind, line[kind]) for line in lines for kind in _KINDS if line.get(kind) is not None]
    for kind, of in found:
        if not isinstance(of["schemaString" if kind == "metaData" else "path"], str):
            raise TypeError(f"what {kind} names is no text")
    return sorted(found, key=lambda one: _KINDS.index(one[0]))


def _unreadable(folder: Path, why: str) -> AuditFailed:
    return AuditFailed(f"the log of the Delta table {folder} does not tell which files are in force ({why}): {_REMEDY}")
