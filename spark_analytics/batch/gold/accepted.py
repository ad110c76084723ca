"""Accepted lines by (router, parcel): n messages with the arrival numbers parcel .. parcel + n - 1; and the recipients
they are owed to.

An arrival number is given once; a line that gives it again (our routers never do) counts as an event only.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_analytics.batch.span import Span
from spark_analytics.judgement.schema import COPY, GRACE_NS

STEP = 1 << 16
"""The size of the ranges in which arrival numbers are compared with each other."""

_COLUMNS = ("n", "ids", "due_ns", "ttl_s", "recipients", "lives", "bytes", "sizes", "expiry", "ttls", "expiries")
_SAID = ("kind", "signer", "destination", "peer")


def accepted(rows: DataFrame, routers: DataFrame, span: Span) -> DataFrame:
    """Return the accepted lines. `hole_first`: the beginning of the first hole that ends after the line. `is_within`:
    accepted in the audit's time span. `is_over`: the log is long enough to hold the ends of all its messages."""
    ends = routers.select(F.col("number").alias("router"), "end_ns", "holes", "settled_ns", "is_doubted")
    hole_first = F.expr("array_min(transform(filter(holes, hole -> hole.last_seq > seq), hole -> hole.first_seq))")
    is_over = F.expr(f"NOT is_doubted AND greatest(due_ns, settled_ns) <= end_ns - {GRACE_NS}L")
    return (
        _lines(rows)
        .where("time = 1 AND n > 0")
        .join(F.broadcast(ends), "router", "inner")
        .select(
            "router",
            "parcel",
            "n",
            "seq",
            "t",
            span.minute().alias("minute"),
            "mono",
            "boot",
            "said",
            "ids",
            "recipients",
            "due_ns",
            "ttl_s",
            "lives",
            "bytes",
            "sizes",
            "expiry",
            "ttls",
            "expiries",
            hole_first.alias("hole_first"),
            is_over.alias("is_over"),
            span.is_within().alias("is_within"),
        )
    )


def _lines(rows: DataFrame) -> DataFrame:
    """Return the accepted lines with their own columns. `time`: 1 for the first line that gives its arrival number, 2
    for the second, and so on."""
    order = Window.partitionBy("router", "parcel").orderBy("seq")
    columns = [F.col(f"accepted.{name}").alias(name) for name in _COLUMNS]
    said = F.struct(*(F.col(f"accepted.{name}").alias(name) for name in _SAID))
    return rows.where("event = 'accepted' AND parcel IS NOT NULL").select(
        "router",
        "parcel",
        "seq",
        "t",
        "mono",
        "boot",
        *columns,
        said.alias("said"),
        F.row_number().over(order).alias("time"),
    )


def counted() -> tuple[Column, Column]:
    """Return the sums over accepted lines: messages (`n`), and `copies` among them, which a service of the router sent
    on to one other router."""
    n = F.col("n")
    return F.sum(n).alias("n"), F.sum(F.when(F.col("said.kind") == COPY, n).otherwise(0)).alias("copies")


def owed(accepted: DataFrame) -> DataFrame:
    """Return a row for each parcel and recipient; each of its messages with this recipient is a unit."""
    return accepted.select(
        "router",
        "parcel",
        F.explode("recipients").alias("recipient"),
        "n",
        "seq",
        "t",
        "minute",
        "due_ns",
        "hole_first",
        "is_over",
        "is_within",
    )


def arrivals_twice(given: DataFrame) -> DataFrame:
    """Count by router the arrival numbers that lie in more than one of the ranges parcel .. stop - 1, once for each
    repetition; give the least of them, and the first two events that give it. The search goes range by range of
    `STEP` numbers."""
    cut = given.withColumn("part", F.explode(F.expr(f"sequence(parcel div {STEP}L, (stop - 1) div {STEP}L)")))
    edges = cut.withColumns(
        {
            "first": F.expr(f"greatest(parcel, part * {STEP}L)"),
            "end": F.expr(f"least(stop, (part + 1) * {STEP}L)"),
        }
    )
    order = Window.partitionBy("router", "part").orderBy("first", "seq")
    before = F.max("end").over(order.rowsBetween(Window.unboundedPreceding, -1))
    over = edges.withColumn("before", before).where("first < before")
    twice = over.groupBy("router").agg(
        F.sum(F.expr("least(end, before) - first")).alias("count"), F.min("first").alias("arrival")
    )
    found = given.join(F.broadcast(twice), "router", "inner").where("arrival >= parcel AND arrival < stop")
    seqs = found.groupBy("router", "count", "arrival").agg(F.sort_array(F.collect_list("seq")).alias("seqs"))
    return seqs.select(
        "router", "count", "arrival", F.expr("seqs[0]").alias("first_seq"), F.expr("seqs[1]").alias("seq")
    )
