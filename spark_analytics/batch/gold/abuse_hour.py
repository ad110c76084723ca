"""`abuse_hour`, key (router, hour, peer, prefix, signer, reason, event): messages turned away before they were
accepted, and the counts in events `…_refused` of services and the router, by neighbour or network."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_analytics.batch.gold.names import named
from spark_analytics.batch.span import Span
from spark_analytics.judgement.schema import NOTED, TURNED_EVENTS

KEY = ("router", "hour", "peer", "prefix", "signer", "reason", "event")


def abuse_hour(rows: DataFrame, routers: DataFrame, span: Span) -> DataFrame:
    """Return the table, made of the lines about messages that were turned away."""
    is_note = F.expr(f"event LIKE '%!{NOTED}' ESCAPE '!' AND other.fields['service'] IS NOT NULL")
    turned = (
        rows.where(F.col("event").isin(*TURNED_EVENTS) | is_note)
        .where(span.is_within())
        .withColumns(
            {
                "peer": F.when(is_note, F.expr("nullif(other.fields['router'], '')")).otherwise(F.col("other.peer")),
                "prefix": F.when(is_note, F.expr("nullif(other.fields['prefix'], '')")),
                "signer": F.when(~is_note, F.col("other.signer")),
            }
        )
    )
    sums = (
        turned.withColumn("hour", span.hour())
        .groupBy(*KEY)
        .agg(
            F.sum("count").alias("count"),
            F.count("*").alias("lines"),
            F.coalesce(F.sum("other.bytes"), F.lit(0)).alias("bytes"),
        )
    )
    return named(sums, routers).select(*KEY, "count", "lines", "bytes")
