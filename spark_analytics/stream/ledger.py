"""The small tables of a stream's state: Python rows, kept as text, all in one part of each batch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spark_analytics.batch import log_ends
from spark_analytics.batch.findings import Rows
from spark_analytics.batch.local_rows import table_of

SCHEMA = "table string, row string"
_ADDED = ("lines", "count", "within", "future", "more", "noted", "handovers")


def merged_words(words: Iterable[dict[str, Any]]) -> Rows:
    """Merge the rows of `findings.tally` that have the same router, event, reason and `at_door`."""
    found: dict[tuple[object, ...], dict[str, Any]] = {}
    for row in words:
        key = row["router"], row["event"], row["reason"], row["at_door"]
        if key not in found:
            found[key] = dict(row)
            continue
        one = found[key]
        one |= {name: one[name] + row[name] for name in _ADDED}
        one["latest_t"] = max((t for t in (one["latest_t"], row["latest_t"]) if t is not None), default=None)
        if row["first_seq"] < one["first_seq"]:
            one |= {name: row[name] for name in ("first_seq", "first_t")}
        if row["last_seq"] > one["last_seq"]:
            one |= {name: row[name] for name in ("last_seq", "last_t")}
    return list(found.values())


def ends_ns(before: Rows, new: Rows) -> list[int]:
    """Return when each router of the new rows of `findings.tally` wrote its last line before."""
    routers = {row["router"] for row in new}
    last: dict[str, dict[str, Any]] = {}
    for row in (one for one in before if one["router"] in routers):
        if row["router"] not in last or row["last_seq"] > last[row["router"]]["last_seq"]:
            last[row["router"]] = row
    return [row["last_t"] for row in last.values() if row["last_t"] is not None]


TABLES: Mapping[str, Callable[[Rows], Rows]] = {
    "facts": list,
    "authentic": list,
    "doubted": list,
    "counted": list,
    "stretches": list,
    "words": merged_words,
    "told": log_ends.merged,
}
"""The small tables, each with the function that merges the rows of several batches. `facts`: of every file;
`authentic`: footers whose signature holds; `doubted`: files whose lines cannot be read; `counted`: segments;
`stretches`: ranges of arrival numbers that their lines give; `words`: `findings.tally`; `told`: rows of
`log_ends.self_reports`."""
Ledger = dict[str, Rows]


def empty() -> Ledger:
    return {table: [] for table in TABLES}


def joined(before: Ledger, new: Mapping[str, Rows]) -> Ledger:
    return {table: merge([*before[table], *new.get(table, ())]) for table, merge in TABLES.items()}


def to_frame(spark: SparkSession, tables: Mapping[str, Rows]) -> DataFrame:
    rows = [(table, json.dumps(row)) for table, found in tables.items() for row in found]
    return table_of(spark, rows, SCHEMA).coalesce(1)


def from_frame(frame: DataFrame) -> Ledger:
    new = empty()
    for row in frame.collect():
        new[row.table].append(json.loads(row.row))
    return joined(empty(), new)
