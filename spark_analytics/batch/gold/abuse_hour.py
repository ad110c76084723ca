"""`abuse_hour`, key (router, hour, peer, signer, reason, event): messages turned away before they were accepted."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_analytics.batch.gold.names import named
from spark_analytics.judgement.schema import TURNED_EVENTS
from spark_analytics.judgement.span import Span

KEY = ("router", "hour", "peer", "signer", "reason", "event")


def abuse_hour(rows: DataFrame, routers: DataFrame, span: Span) -> DataFrame:
    turned = (
        rows.where(F.col("event").isin(*TURNED_EVENTS))
        .where(span.is_within())
        .select("*", "other.peer", "other.signer")
    )
    sums = (
        turned.withColumn("hour", span.hour())
        .groupBy(*KEY)
        .agg(F.sum("count").alias("count"), F.count("*").alias("lines"))
    )
    return named(sums, routers).select(*KEY, "count", "lines")
