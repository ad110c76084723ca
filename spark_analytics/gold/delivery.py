"""`delivery`, key (router, parcel, recipient): how many of a parcel's messages are in which state at a recipient."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_analytics.gold.pieces import (
    EVENTS, bits_of, blocks, contradiction_bits, deliveries_of, ended_bits, state_bits,
)  # fmt: skip
from spark_analytics.schema import ENDS, STATES

_LINE = ("seq", "t", "minute", "due_ns", "hole_first")
_SUMS = ("deliveries", "forwards", "forwarded", "deferred", "contradictions")


def units(pieces: DataFrame, owed: DataFrame) -> DataFrame:
    """One row for each (router, parcel, recipient). `owed` is null where only strays are, which are `events` then.

    Bits are joined by blocks of 32 messages, then counted: no message has a row of its own, and rows that lie together by
    (router, parcel) are not shuffled again.
    """
    flags = ("is_over", "is_within")
    line = owed.select(
        "router", "parcel", "recipient", F.lit(-1).cast("bigint").alias("block"), F.col("n").alias("owed"), *_LINE,
        *(F.col(flag).cast("bigint").alias(flag) for flag in flags),
    )  # fmt: skip
    cut = blocks(pieces).select("router", "parcel", "recipient", "block", "event", "mask")
    both = cut.unionByName(line, allowMissingColumns=True)
    carried = ("owed", *_LINE, *flags)
    by_block = both.groupBy("router", "parcel", "recipient", "block").agg(
        *(bits_of(event) for event in (*ENDS, "forwarded")),
        deliveries_of("delivered").alias("deliveries"),
        deliveries_of("forwarded").alias("forwards"),
        deliveries_of("deferred").alias("deferred"),
        deliveries_of(*EVENTS).alias("events"),
        *(F.max(name).alias(name) for name in carried),
    )
    states = {name: F.bit_count(bits) for name, bits in state_bits().items()}
    counted = by_block.select(
        "router", "parcel", "recipient", *carried, "deliveries", "forwards", "deferred", "events",
        *(count.alias(name) for name, count in states.items()),
        F.bit_count("forwarded").alias("forwarded"), F.bit_count(ended_bits()).alias("ended"),
        F.bit_count(contradiction_bits()).alias("contradictions"),
    )  # fmt: skip
    found = counted.groupBy("router", "parcel", "recipient").agg(
        *(F.max(name).alias(name) for name in carried), F.sum("ended").alias("ended"), F.sum("events").alias("events"),
        *(F.sum(name).alias(name) for name in (*ENDS, *_SUMS)),
    )  # fmt: skip
    rest, is_hole, is_over = F.col("owed") - F.col("ended"), F.col("hole_first").isNotNull(), F.col("is_over") == 1
    return found.select(
        "router", "parcel", "recipient", *_LINE, "owed", *ENDS,
        F.when(is_hole, rest).otherwise(0).alias("unknown"),
        F.when(~is_hole & ~is_over, rest).otherwise(0).alias("pending"),
        F.when(~is_hole & is_over, rest).otherwise(0).alias("unaccounted"),
        *_SUMS, "events", (F.col("is_within") == 1).alias("is_within"),
    )  # fmt: skip


def delivery(units: DataFrame, accepted: DataFrame, routers: DataFrame) -> DataFrame:
    line = accepted.select("router", "parcel", "kind", "signer", "destination", "peer")
    names = F.broadcast(routers.select(F.col("number"), F.col("router").alias("key")))
    found = units.where("is_within").join(line, ["router", "parcel"], "inner")
    return found.join(names, F.col("router") == F.col("number"), "inner").select(
        F.col("key").alias("router"), "parcel", "recipient", "seq", "t", "minute", "kind", "signer", "destination", "peer",
        "owed", *STATES, *_SUMS, "due_ns", "hole_first",
    )  # fmt: skip


def by_window(units: DataFrame) -> DataFrame:
    """Units added up by (router, recipient, minute, hole_first): all that the summary asks of them.

    `strays`: events at recipients that the parcel does not name; `pending_due_ns`: the earliest due time of one pending.
    """
    within = F.col("is_within")
    sums = [F.sum(F.when(within, F.col(name)).otherwise(0)).alias(name) for name in ("owed", *STATES, *_SUMS)]
    return units.groupBy("router", "recipient", "minute", "hole_first").agg(
        *sums,
        F.sum(F.when(F.col("owed").isNull(), F.col("events")).otherwise(0)).alias("strays"),
        F.min(F.when(within & (F.col("pending") > 0), F.col("due_ns"))).alias("pending_due_ns"),
        F.max(F.when(within, F.col("due_ns"))).alias("due_ns"),
    )
