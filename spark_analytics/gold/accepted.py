"""Accepted lines by (router, parcel): n messages with the arrival numbers parcel .. parcel + n - 1; and whom they are
owed to.

An arrival number is given once; a line that gives it again (no router of ours does) counts as an event only.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_analytics.schema import GRACE_NS
from spark_analytics.span import Span

_COLUMNS = ("n", "ids", "due_ns", "recipients")
_SAID = ("kind", "signer", "destination", "peer")


def accepted(rows: DataFrame, routers: DataFrame, span: Span) -> DataFrame:
    """`hole_first`: where the first hole begins that ends behind the line. `is_within`: accepted in the time asked for.
    `is_over`: had its messages an end, the log would hold it."""
    order = Window.partitionBy("router", "parcel").orderBy("seq")
    columns = [F.col(f"accepted.{name}").alias(name) for name in _COLUMNS]
    said = F.struct(*(F.col(f"accepted.{name}").alias(name) for name in _SAID))
    lines = rows.where("event = 'accepted' AND parcel IS NOT NULL").select(
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
    ends = routers.select(F.col("number").alias("router"), "end_ns", "holes", "settled_ns", "is_doubted")
    hole_first = F.expr("array_min(transform(filter(holes, hole -> hole.last_seq > seq), hole -> hole.first_seq))")
    is_over = F.expr(f"NOT is_doubted AND greatest(due_ns, settled_ns) <= end_ns - {GRACE_NS}L")
    return lines.where("time = 1 AND n > 0").join(F.broadcast(ends), "router", "inner").select(
        "router", "parcel", "n", "seq", "t", span.minute().alias("minute"), "mono", "boot", "said", "ids", "recipients",
        "due_ns", hole_first.alias("hole_first"),
        is_over.alias("is_over"),
        span.is_within().alias("is_within"),
    )  # fmt: skip


def owed(accepted: DataFrame) -> DataFrame:
    """A row for each parcel and recipient: a unit is one of its messages and this recipient."""
    return accepted.select(
        "router", "parcel", F.explode("recipients").alias("recipient"), "n", "seq", "t", "minute", "due_ns",
        "hole_first", "is_over", "is_within",
    )  # fmt: skip
