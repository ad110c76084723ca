"""Find the contradictions in logs from the tables of an audit. Rows are searched only where a sum shows that there is
something to find."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import xor
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_analytics.batch.fingerprint import mark
from spark_analytics.batch.gold.accepted import arrivals_twice
from spark_analytics.batch.gold.custody import ID
from spark_analytics.batch.gold.names import named, rows
from spark_analytics.batch.gold.pieces import early_of
from spark_analytics.batch.gold.tables import Tables
from spark_analytics.batch.log_ends import HOLE_SEQ
from spark_analytics.judgement.schema import LEAP_MIN, OVERDUE_NS

Rows = list[dict[str, Any]]
REACHES = """t - start_ns >= apart_ns AND (pruned_to = 0 OR kind = 'unicast' AND is_steady
    AND t - start_ns - apart_ns >= (ttl_s + 86400L) * 1000000000L)"""
"""Whether the beginning of the log of the neighbour that is said to have brought a message lies early enough."""
IS_UNSENT = f"is_whole AND seq < followed_seq AND {REACHES}"
"""Whether the log of the neighbour that is said to have brought a message must tell of it."""
IS_BOUND = "upper_ns IS NOT NULL AND coalesce(lower_ns <= upper_ns, true)"
"""Whether it is known how far two clocks are apart at most, and nothing contradicts that: else a clock was set, or a
router accepted again what it had in a store before."""
IS_FIRST_LIFE = f"seq < {LEAP_MIN}"
"""Whether a router had not been restored before a line: what it accepts later it may have accepted before."""


def overdue(tables: Tables, due: Rows) -> Rows:
    """Find messages still pending a day or more after their due time, where the log goes on that long. `due`: the
    earliest due times."""
    now = tables.span.as_of_ns
    if not any(row["due_ns"] <= now - OVERDUE_NS for row in due):
        return []
    ends = F.broadcast(tables.routers.select(F.col("number").alias("router"), "end_ns", "is_doubted"))
    pending = tables.units.where("pending > 0").join(ends, "router", "inner")
    late = pending.where(f"due_ns <= least(end_ns, {now}L) - {OVERDUE_NS}L")
    sums = late.groupBy("router").agg(
        F.sum("pending").alias("count"),
        F.count_distinct("recipient").alias("recipients"),
        F.max("is_doubted").alias("is_doubted"),
        F.min(F.struct("due_ns", "seq", "recipient", "parcel")).alias("first"),
    )
    return rows(named(sums, tables.routers).select("router", "count", "recipients", "is_doubted", "first.*"))


def early(tables: Tables) -> Rows:
    """Find messages that ended as expired before they were due."""
    ends = tables.pieces.where("early > 0").drop("recipients")
    lines = tables.accepted.select(
        "router", "parcel", "seq", F.col("t").alias("accepted_t"), "due_ns", "lives", "recipients"
    )
    life = F.broadcast(tables.routers.selectExpr("number AS router", "ttl_s", "config_seq", HOLE_SEQ))
    found = ends.join(lines, ["router", "parcel"], "inner").join(life, "router", "inner")
    messages = early_of(found.where("array_contains(recipients, recipient)"))
    first = F.struct("seq", "arrival", "recipient", F.col("t").alias("expired_t"), "due_ns")
    sums = messages.groupBy("router").agg(
        F.count("*").alias("count"),
        F.count(F.expr("CASE WHEN seq > config_seq AND seq < hole_seq THEN 1 END")).alias("sure"),
        F.min(first).alias("first"),
    )
    return rows(named(sums, tables.routers).select("router", "count", "sure", "first.*"))


def again(tables: Tables, words: Rows) -> Rows:
    """Find arrival numbers that are given more than once. `words`: rows of `findings.tally`."""
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
    """Whether the ranges of arrival numbers in these rows of a tally lie side by side."""
    own = list(found)
    low, high = min(row["low"] for row in own), max(row["high"] for row in own)
    marks = reduce(xor, (row["marks"] for row in own))
    return bool(sum(row["given"] for row in own) == high - low and marks == mark(low) ^ mark(high))


def given(table: DataFrame) -> DataFrame:
    """Return the ranges of arrival numbers that accepted lines of the layout give: parcel .. stop - 1."""
    lines = table.where("event = 'accepted' AND parcel >= 0 AND accepted.n > 0")
    return lines.select("router", "seq", "parcel", F.expr("parcel + accepted.n").alias("stop"))


def unsent(tables: Tables, words: Rows) -> Rows:
    """Find messages that a router attributes to a neighbour but that are missing from the neighbour's log, although
    that log is whole and must hold them. Follows `findings/unsent.sql` of the local engine. `words`: rows of
    `findings.tally`."""
    messages = _brought(tables)
    there = tables.accepted_id.select("id", F.col("router").alias("brought"))
    known = (
        messages.join(there, ["id", "brought"], "left_anti")
        .join(_followed(tables, messages), ["router", "brought"], "inner")
        .join(F.broadcast(logs_of_neighbours(tables, words)), "brought", "inner")
        .where(IS_UNSENT)
    )
    found = rows(added_up_unsent(known))
    return named_unsent(tables, found, carried(tables) if found else {})


def added_up_unsent(known: DataFrame) -> DataFrame:
    """Count messages by router, neighbour and kind, with the `first`."""
    return known.groupBy("router", "brought", "kind").agg(
        F.count("*").alias("count"), F.min(F.struct("seq", "i", "id")).alias("first")
    )


def named_unsent(tables: Tables, found: Rows, carriers: Mapping[tuple[int, str], int]) -> Rows:
    """Return rows of `added_up_unsent` with the routers' keys. `carriers`: as of `carried`."""
    if not found:
        return []
    names = {row["number"]: row["router"] for row in rows(tables.routers.select("number", "router"))}
    return [
        {
            "router": names[row["router"]],
            "peer": names[row["brought"]],
            "kind": row["kind"],
            "count": row["count"],
            "carriers": carriers.get((row["brought"], names[row["router"]]), 0),
            "first": {**row["first"], "id": row["first"]["id"].hex()},
        }
        for row in found
    ]


def _brought(tables: Tables) -> DataFrame:
    """Return the accepted messages that a neighbour brought which did not sign them, if its log is given. `brought`:
    the neighbour's number."""
    keys = tables.routers.select(F.col("number").alias("brought"), F.col("router").alias("peer"))
    lines = tables.accepted.where("is_within AND NOT said.peer <=> said.signer").select(
        "router", "seq", "t", "ttl_s", "said.kind", "said.peer", "ids", "n"
    )
    brought = lines.join(F.broadcast(keys), "peer", "inner").drop("peer")
    return brought.withColumn("i", F.explode(F.expr("sequence(0L, n - 1)"))).withColumn("id", F.expr(ID)).drop("ids")


def _followed(tables: Tables, messages: DataFrame) -> DataFrame:
    """Return by router and neighbour the last of these messages whose way from there is followed, of those before the
    router was restored, and how far the two clocks may be apart; none where that is not known."""
    handed = tables.handover.where(f"custody = 'followed' AND {IS_BOUND}").select(
        "id", F.col("router").alias("brought"), F.col("taker").alias("router"), "lower_ns", "upper_ns"
    )
    both = messages.where(IS_FIRST_LIFE).join(handed, ["id", "router", "brought"], "inner").groupBy("router", "brought")
    return both.agg(F.max("seq").alias("followed_seq"), F.max(F.expr("greatest(lower_ns, upper_ns)")).alias("apart_ns"))


def logs_of_neighbours(tables: Tables, words: Rows) -> DataFrame:
    """Return what is known of each log, by number (`brought`). `is_steady`: its router's clock was never set."""
    logs = tables.routers.select(
        F.col("number").alias("brought"), F.col("router").alias("peer"), "is_whole", "pruned_to", "start_ns", "end_ns"
    )
    stepped = sorted({row["router"] for row in words if row["event"] == "clock_step"})
    return logs.withColumn("is_steady", ~F.col("peer").isin(stepped)).drop("peer")


def carried(tables: Tables) -> dict[tuple[int, str], int]:
    """Count by router and destination the messages accepted for another router itself; each may have carried a
    message."""
    return {(row["router"], row["destination"]): row["n"] for row in rows(carriers(tables.accepted, tables.routers))}


def carriers(accepted: DataFrame, routers: DataFrame, *more: str) -> DataFrame:
    """Count the messages (`n`) accepted for other routers themselves, by router, `destination` and `more`."""
    keys = F.broadcast(routers.select(F.col("router").alias("destination")))
    lines = accepted.select("router", "n", "said.destination", *more).join(keys, "destination", "left_semi")
    return lines.groupBy("router", "destination", *more).agg(F.sum("n").alias("n"))
