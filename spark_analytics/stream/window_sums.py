"""Sums of closed parcels as coarse as a summary shows them: what a batch reads of them does not grow with the minutes.

A summary has windows of some minutes, more of them the longer the logs are (`summary.step_of`). Once a window is an
hour or a day, it stays a multiple of that, so sums are kept by the hour or the day from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_analytics.batch.gold.pieces import is_event
from spark_analytics.batch.span import first_of

from .state import COUNTS, added_up

WINDOWED = ("window_units", "window_waits", "window_queues")
"""The sums by window, whose `minute` is its first one."""
GRAINS = (1440, 60)
"""The minutes of a day and of an hour."""
TABLES = (*WINDOWED, "hop_waits", "router_sums")


def grain_of(step: int) -> int:
    """Return by how many minutes sums are kept while a window of the summary has `step` minutes."""
    return next((grain for grain in GRAINS if step % grain == 0), 1)


def units(by_minute: DataFrame, grain: int) -> DataFrame:
    """Return `window_units`. `by_minute`: rows of `units`; so `waits`, `ended` below."""
    window = first_of("minute", grain).alias("minute")
    return added_up("window_units", by_minute.select("router", window, "hole_first", "is_within", *COUNTS))


def waits(by_minute: DataFrame, grain: int) -> DataFrame:
    """Return `window_waits`."""
    window = first_of("minute", grain).alias("minute")
    return added_up("window_waits", by_minute.select("code", window, "is_within", "bucket", "count", "max_ns"))


def queues(units: DataFrame, ended: DataFrame, grain: int) -> DataFrame:
    """Return `window_queues`."""
    window, none = first_of("minute", grain).alias("minute"), F.lit(0).cast("bigint")
    added = units.where("owed <> 0").select("router", "recipient", window, "owed", none.alias("ended"))
    more = ended.select("router", "recipient", window, none.alias("owed"), "ended", "depth_max")
    return added_up("window_queues", added.unionByName(more, allowMissingColumns=True))


def hops(by_minute: DataFrame) -> DataFrame:
    """Return `hop_waits`: only acknowledged messages have their recipient, another router."""
    recipient = F.when(is_event("acked"), F.col("recipient")).alias("recipient")
    columns = ("router", recipient, "code", "is_within", "bucket", "count", "max_ns")
    return added_up("hop_waits", by_minute.select(*columns))


def of_lines(lines: DataFrame) -> DataFrame:
    """Return messages accepted, by router and minute, as rows of `router_sums`."""
    edges = (F.col("minute").alias(name) for name in ("first", "last"))
    none = (F.lit(None).cast("bigint").alias(name) for name in ("outside", "early"))
    return lines.select("router", *edges, "n", "copies", *none)


def of_ends(ended: DataFrame) -> DataFrame:
    """Return rows of `ended` as rows of `router_sums`."""
    none = (F.lit(None).cast("bigint").alias(name) for name in ("first", "last", "n", "copies"))
    return ended.select("router", *none, "outside", "early")


def of_closed(closed: Mapping[str, DataFrame], lines: DataFrame | None, grain: int) -> dict[str, DataFrame]:
    """Return the sums of closed parcels. `closed`: rows of `units`, `waits` and `ended`; `lines`: messages accepted, by
    router and minute, None if there are no new ones."""
    ends = of_ends(closed["ended"])
    return {
        "window_units": units(closed["units"], grain),
        "window_waits": waits(closed["waits"], grain),
        "window_queues": queues(closed["units"], closed["ended"], grain),
        "hop_waits": hops(closed["waits"]),
        "router_sums": added_up("router_sums", ends if lines is None else ends.unionByName(of_lines(lines))),
    }


def settled(grain: int) -> dict[str, Callable[[DataFrame], DataFrame]]:
    """Return what gives the windows of earlier batches this grain, for `Store.fold`."""
    window = first_of("minute", grain)
    return {name: lambda table: table.withColumn("minute", window) for name in WINDOWED}
