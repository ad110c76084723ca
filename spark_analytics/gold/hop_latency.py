"""`hop_latency`, key (router, recipient, event, minute, bucket): how long messages took from acceptance to their hop's
end."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_analytics.gold.names import named
from spark_analytics.gold.pieces import event_of, is_event


def waits(pieces: DataFrame, *more: str) -> DataFrame:
    """Pieces added up by event, minute of the accepted line, own minute (`ended_minute`) and bucket of the wait (null:
    of no interest, -1: one that cannot be).

    `outside`: messages of ranges that lie outside of their parcel; `depth_max`: of the recipient's queue.
    """
    wait = F.when(is_event("delivered", "acked"), F.col("wait_ns"))
    rows = pieces.select(
        "router", "recipient", "code", F.col("accepted_minute").alias("minute"), F.col("minute").alias("ended_minute"),
        "is_within", "count", "depth", wait.alias("wait_ns"), F.expr("count - (stop - start)").alias("outside"), *more,
    )  # fmt: skip
    rows = rows.withColumn("bucket", F.when(F.col("wait_ns") < 0, -1).otherwise(bucket("wait_ns")))
    return rows.groupBy("router", "recipient", "code", "minute", "ended_minute", "is_within", "bucket", *more).agg(
        F.sum("count").alias("count"), F.max("wait_ns").alias("max_ns"), F.sum("outside").alias("outside"),
        F.max("depth").alias("depth_max"),
    )  # fmt: skip


def bucket(name: str) -> Column:
    """As `latency.bucket`: the value itself below 256, then 128 buckets for every power of two."""
    about = f"least(62, cast(floor(log2(greatest({name}, 1L))) AS int))"
    # The logarithm may round across a power of two, up or down.
    high = (
        f"{about} + CASE WHEN shiftright({name}, {about} + 1) > 0 THEN 1 WHEN shiftright({name}, {about}) = 0 THEN -1"
    )
    exponent = f"({high} ELSE 0 END - 7)"
    return F.expr(f"CASE WHEN {name} < 256 THEN {name} ELSE 128L * {exponent} + shiftright({name}, {exponent}) END")


def timed(waits: DataFrame) -> DataFrame:
    """Those that tell a latency, by the event's word."""
    return waits.where("bucket >= 0 AND is_within").withColumn("event", event_of())


def hop_latency(waits: DataFrame, routers: DataFrame) -> DataFrame:
    key = ("router", "recipient", "event", "minute", "bucket")
    sums = timed(waits).groupBy(*key).agg(F.sum("count").alias("count"), F.max("max_ns").alias("max_ns"))
    return named(sums, routers).select(*key, "count", "max_ns")
