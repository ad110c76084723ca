"""From the tables of an audit to what logs contradict. What must be looked for row by row is looked for only where a
sum says that there is some."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import xor
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .fingerprint import mark
from .gold.accepted import arrivals_twice
from .gold.names import named, rows
from .gold.pieces import early_of
from .gold.tables import Tables
from .schema import OVERDUE_NS

Rows = list[dict[str, Any]]


def overdue(tables: Tables, due: Rows) -> Rows:
    """What is pending though its time is over for a day or more where the log ends. `due`: the earliest due times."""
    now = tables.span.as_of_ns
    if not any(row["due_ns"] <= now - OVERDUE_NS for row in due):
        return []
    ends = F.broadcast(tables.routers.select(F.col("number").alias("router"), "end_ns", "is_doubted"))
    pending = tables.units.where("pending > 0").join(ends, "router", "inner")
    late = pending.where(f"due_ns <= least(end_ns, {now}L) - {OVERDUE_NS}L")
    sums = late.groupBy("router").agg(
        F.sum("pending").alias("count"), F.count_distinct("recipient").alias("recipients"),
        F.max("is_doubted").alias("is_doubted"),
        F.min(F.struct("due_ns", "seq", "recipient", "parcel")).alias("first"),
    )  # fmt: skip
    return rows(named(sums, tables.routers).select("router", "count", "recipients", "is_doubted", "first.*"))


def early(tables: Tables) -> Rows:
    """Ends as expired before the time of the message was over."""
    ends = tables.pieces.where("early > 0").drop("recipients")
    lines = tables.accepted.select(
        "router", "parcel", "seq", F.col("t").alias("accepted_t"), "due_ns", "lives", "recipients"
    )
    life = F.broadcast(tables.routers.select(F.col("number").alias("router"), "ttl_s", "config_seq"))
    found = ends.join(lines, ["router", "parcel"], "inner").join(life, "router", "inner")
    messages = early_of(found.where("array_contains(recipients, recipient)"))
    first = F.struct("seq", "arrival", "recipient", F.col("t").alias("expired_t"), "due_ns")
    sums = messages.groupBy("router").agg(
        F.count("*").alias("count"), F.count(F.expr("CASE WHEN seq > config_seq THEN 1 END")).alias("sure"),
        F.min(first).alias("first"),
    )  # fmt: skip
    return rows(named(sums, tables.routers).select("router", "count", "sure", "first.*"))


def again(tables: Tables, words: Rows) -> Rows:
    """Arrival numbers that are given more than once. `words`: rows of `findings.tally`."""
    by_router: dict[str, Rows] = {}
    for row in words:
        if row.get("low") is not None:
            by_router.setdefault(row["router"], []).append(row)
    doubted = [router for router, own in by_router.items() if not given_once(own)]
    if not doubted:
        return []
    numbers = F.broadcast(tables.routers.where(F.col("router").isin(doubted)).select(F.col("number").alias("router")))
    lines = given(tables.rows).join(numbers, "router", "left_semi")
    return rows(named(arrivals_twice(lines), tables.routers))


def given_once(found: Iterable[dict[str, Any]]) -> bool:
    """Whether the arrival numbers that these rows of a tally add up lie side by side."""
    own = list(found)
    low, high = min(row["low"] for row in own), max(row["high"] for row in own)
    marks = reduce(xor, (row["marks"] for row in own))
    return bool(sum(row["given"] for row in own) == high - low and marks == mark(low) ^ mark(high))


def given(table: DataFrame) -> DataFrame:
    """The stretches of arrival numbers that accepted lines of the layout give: parcel .. stop - 1."""
    lines = table.where("event = 'accepted' AND parcel >= 0 AND accepted.n > 0")
    return lines.select("router", "seq", "parcel", F.expr("parcel + accepted.n").alias("stop"))
