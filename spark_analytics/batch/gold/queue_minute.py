"""`queue_minute`, key (router, recipient, minute): a recipient's queue: messages added, ended, open at the minute's
end: none where a clock that was set lets ends lie before the acceptance."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_analytics.batch.gold.names import named
from spark_analytics.batch.gold.pieces import is_event
from spark_analytics.batch.span import first_of
from spark_analytics.judgement.schema import ENDS
from spark_analytics.report.summary import Windows


def ended(pieces: DataFrame, *more: str, step: int = 1) -> DataFrame:
    """Key (router, recipient, minute) and `more`: messages that `ended` in that minute; further ends in
    ranges that lie `outside` of their parcel; `early`: expired before they were due; `depth_max`: null where no outward
    line gives the depth. The first of `step` minutes stands for all."""
    inside = F.col("stop") - F.col("start")
    return pieces.groupBy("router", "recipient", first_of("minute", step).alias("minute"), *more).agg(
        F.sum(F.when(is_event(*ENDS), inside).otherwise(0)).alias("ended"),
        F.sum(F.when(is_event(*ENDS), F.col("count") - inside).otherwise(0)).alias("outside"),
        F.coalesce(F.sum(F.when(F.col("is_within"), F.col("early"))), F.lit(0)).alias("early"),
        F.max("depth").alias("depth_max"),
    )


def queues(ended: DataFrame, unit_windows: DataFrame) -> DataFrame:
    """Return the queues by minute, with the routers' numbers. Ends count in their own minute. `ended`, `unit_windows`:
    rows that may have one key, to be added up."""
    none = F.lit(0).cast("bigint")
    added = unit_windows.where("owed <> 0").select(
        "router", "recipient", "minute", F.col("owed").alias("added"), none.alias("ended")
    )
    more = ended.select("router", "recipient", "minute", none.alias("added"), "ended", "depth_max")
    sums = (
        added.unionByName(more, allowMissingColumns=True)
        .groupBy("router", "recipient", "minute")
        .agg(F.sum("added").alias("added"), F.sum("ended").alias("ended"), F.max("depth_max").alias("depth_max"))
    )
    so_far = Window.partitionBy("router", "recipient").orderBy("minute")
    so_far = so_far.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    open_ = F.greatest(F.sum(F.col("added") - F.col("ended")).over(so_far), F.lit(0).cast("bigint"))
    return sums.select("router", "recipient", "minute", "added", "ended", open_.alias("open"), "depth_max")


def queue_minute(queues: DataFrame, routers: DataFrame) -> DataFrame:
    return named(queues, routers).select("router", "recipient", "minute", "added", "ended", "open", "depth_max")


def by_window(queues: DataFrame, told: Windows) -> DataFrame:
    """Return the queues by window; `open` is that at the end of a window."""
    window = F.expr(f"greatest({told.first}L, least({told.last}L, minute div {told.step}L * {told.step}L))")
    return (
        queues.withColumn("window", window)
        .groupBy("router", "recipient", "window")
        .agg(
            F.sum("added").alias("added"),
            F.sum("ended").alias("ended"),
            F.max_by("open", "minute").alias("open"),
            F.max("depth_max").alias("depth_max"),
        )
    )
