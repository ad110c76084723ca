"""Read the tables that an audit with --out published, of either engine, by DuckDB."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import duckdb

from router.audit.publish import GOLD

OF_A_RUN = ("audit_run", "audit_history")
TABLES = tuple(name for name in GOLD if name not in OF_A_RUN)
"""The tables in which two audits of the same logs must agree; the others describe the run itself."""


class Published(NamedTuple):
    """A table. `columns`: names and types, in order; `rows`: sorted, with repetitions."""

    columns: list[tuple[str, str]]
    rows: list[tuple[Any, ...]]


def published(out: Path, name: str) -> Published:
    """Read a table below `out`: one file of the local engine, a directory of Spark's."""
    alone = out / f"{name}.parquet"
    files = f"{alone}" if alone.exists() else f"{out}/{name}/**/*.parquet"
    with duckdb.connect() as connection:
        table = connection.sql(f"FROM read_parquet('{files}', hive_partitioning = false)")
        columns = [(column, str(kind)) for column, kind in zip(table.columns, table.types, strict=True)]
        return Published(columns, sorted(table.fetchall(), key=repr))


def unlike(one: Path, other: Path) -> dict[str, Any]:
    """Return the tables in which two audits differ, and how: their columns, else the rows that only one of them has."""
    found: dict[str, Any] = {}
    for name in TABLES:
        left, right = published(one, name), published(other, name)
        if left.columns != right.columns:
            found[name] = left.columns, right.columns
        elif left.rows != right.rows:
            found[name] = (
                [row for row in left.rows if row not in right.rows],
                [row for row in right.rows if row not in left.rows] or (len(left.rows), len(right.rows)),
            )
    return found
