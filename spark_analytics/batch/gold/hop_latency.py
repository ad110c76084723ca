"""`hop_latency`, key (router, recipient, event, minute, bucket): the time that messages took from acceptance to the end
of their hop."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_analytics.batch.gold.names import named
from spark_analytics.batch.gold.pieces import event_of, is_event
from spark_analytics.batch.span import first_of
from spark_analytics.judgement.schema import OVER_STEP_NS


def waits(pieces: DataFrame, *more: str, step: int = 1) -> DataFrame:
    """Count the delivered and acked messages by event, minute of the accepted line and bucket of the wait (-1: a
    negative one; -2: one over a jump of the clock). The first of `step` minutes stands for all; with more than one,
    only acked messages have their recipient."""
    hop = F.col("recipient") if step == 1 else F.when(is_event("acked"), F.col("recipient")).alias("recipient")
    timed = pieces.where(is_event("delivered", "acked")).select(
        "router",
        hop,
        "code",
        first_of("accepted_minute", step).alias("minute"),
        "is_within",
        "count",
        "wait_ns",
        *more,
        F.when(F.col("wait_ns") == OVER_STEP_NS, -2)
        .when(F.col("wait_ns") < 0, -1)
        .otherwise(bucket("wait_ns"))
        .alias("bucket"),
    )
    return timed.groupBy("router", "recipient", "code", "minute", "is_within", "bucket", *more).agg(
        F.sum("count").alias("count"), F.max("wait_ns").alias("max_ns")
    )


def bucket(name: str) -> Column:
    """Compute `latency.bucket` in Spark: the value itself below 256, then 128 buckets for every power of two."""
    about = f"least(62, cast(floor(log2(greatest({name}, 1L))) AS int))"
    # The logarithm may round across a power of two, up or down.
    high = (
        f"{about} + CASE WHEN shiftright({name}, {about} + 1) > 0 THEN 1 WHEN shiftright({name}, {about}) = 0 THEN -1"
    )
    exponent = f"({high} ELSE 0 END - 7)"
    return F.expr(f"CASE WHEN {name} < 256 THEN {name} ELSE 128L * {exponent} + shiftright({name}, {exponent}) END")


def timed(waits: DataFrame) -> DataFrame:
    """Return the valid waits of the audit's time span, with the event's name."""
    return waits.where("bucket >= 0 AND is_within").withColumn("event", event_of())


def hop_latency(waits: DataFrame, routers: DataFrame) -> DataFrame:
    key = ("router", "recipient", "event", "minute", "bucket")
    sums = timed(waits).groupBy(*key).agg(F.sum("count").alias("count"), F.max("max_ns").alias("max_ns"))
    return named(sums, routers).select(*key, "count", "max_ns")
