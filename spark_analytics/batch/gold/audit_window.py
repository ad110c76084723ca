"""`audit_window`, key (router, minute): the states of the units of a minute's accepted lines, and whether they are
final."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_analytics.judgement.schema import GRACE_NS, STATES


def audit_window(by_window: DataFrame, routers: DataFrame) -> DataFrame:
    """Return the table. `by_window`: rows that may have one key, to be added up: of these some may take units back."""
    due_ns = F.max(F.expr("CASE WHEN owed > 0 THEN due_ns END"))
    sums = (
        by_window.where("is_within")
        .groupBy(F.col("router").alias("number"), "minute")
        .agg(*(F.sum(name).alias(name) for name in ("owed", *STATES)), due_ns.alias("due_ns"))
        .where("owed > 0")
    )
    judged = F.expr(f"is_whole AND end_ns >= due_ns + {GRACE_NS}L")
    return sums.join(F.broadcast(routers), "number", "inner").select(
        "router", "minute", "owed", *STATES, judged.alias("judged")
    )
