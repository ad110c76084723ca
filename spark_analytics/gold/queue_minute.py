"""`queue_minute`, key (router, recipient, minute): a recipient's queue: messages added, ended, open at the minute's
end."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_analytics.gold.names import named
from spark_analytics.gold.pieces import is_event
from spark_analytics.schema import ENDS
from spark_analytics.summary import Windows


def queues(waits: DataFrame, unit_windows: DataFrame) -> DataFrame:
    """With the routers' numbers. Ends count in their own minute; `depth_max`: null where no outward line told the
    depth."""
    none = F.lit(0).cast("bigint")
    added = unit_windows.where("owed > 0").select(
        "router", "recipient", "minute", F.col("owed").alias("added"), none.alias("ended")
    )
    ended = waits.select(
        "router", "recipient", F.col("ended_minute").alias("minute"), none.alias("added"),
        F.when(is_event(*ENDS), F.col("count") - F.col("outside")).otherwise(none).alias("ended"), "depth_max",
    )  # fmt: skip
    sums = (
        added.unionByName(ended, allowMissingColumns=True)
        .groupBy("router", "recipient", "minute")
        .agg(F.sum("added").alias("added"), F.sum("ended").alias("ended"), F.max("depth_max").alias("depth_max"))
    )
    so_far = Window.partitionBy("router", "recipient").orderBy("minute")
    so_far = so_far.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    open_ = F.sum(F.col("added") - F.col("ended")).over(so_far)
    return sums.select("router", "recipient", "minute", "added", "ended", open_.alias("open"), "depth_max")


def queue_minute(queues: DataFrame, routers: DataFrame) -> DataFrame:
    return named(queues, routers).select("router", "recipient", "minute", "added", "ended", "open", "depth_max")


def by_window(queues: DataFrame, told: Windows) -> DataFrame:
    """The queues by windows; `open` at the end of a window."""
    window = F.expr(f"greatest({told.first}L, least({told.last}L, minute div {told.step}L * {told.step}L))")
    return queues.withColumn("window", window).groupBy("router", "recipient", "window").agg(
        F.sum("added").alias("added"), F.sum("ended").alias("ended"), F.max_by("open", "minute").alias("open"),
        F.max("depth_max").alias("depth_max"),
    )  # fmt: skip
