"""`audit_window`, key (router, minute): the states of the units of a minute's accepted lines, and whether they are
final."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_analytics.judgement.schema import GRACE_NS, STATES


def audit_window(by_window: DataFrame, routers: DataFrame) -> DataFrame:
    sums = (
        by_window.where("owed > 0 AND is_within")
        .groupBy(F.col("router").alias("number"), "minute")
        .agg(*(F.sum(name).alias(name) for name in ("owed", *STATES)), F.max("due_ns").alias("due_ns"))
    )
    judged = F.expr(f"is_whole AND end_ns >= due_ns + {GRACE_NS}L")
    return sums.join(F.broadcast(routers), "number", "inner").select(
        "router", "minute", "owed", *STATES, judged.alias("judged")
    )
