"""`delivery`, key (router, parcel, recipient): how many of a parcel's messages are in which state at a recipient."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_analytics.batch.gold.names import named
from spark_analytics.batch.gold.pieces import (
    bits_of,
    contradiction_bits,
    cut,
    ended_bits,
    flying_bits,
    state_bits,
    times_of,
    unwritten_bits,
)
from spark_analytics.batch.span import first_of
from spark_analytics.judgement.schema import ENDS, STATES

BLOCK = ("router", "parcel", "recipient", "block")
LINE = ("seq", "t", "minute", "due_ns", "hole_first", "is_over", "is_within")
UNWRITTEN = "unwritten"
"""How many messages were delivered or acknowledged and, as far as the lines tell, never written: a hole may tell it."""
UNANSWERED = "unanswered"
"""How many messages ended as unconfirmed, although their ttl asks for an answer: one of 0 alone asks for none."""
SUMS = ("owed", *STATES, "deliveries", "forwards", "forwarded", "deferred", "contradictions")


def blocks(pieces: DataFrame, owed: DataFrame) -> DataFrame:
    """Key (router, parcel, recipient, block): 32 messages at a recipient, counted by state.

    Owed messages and events are rows of one table, joined as bits: no message has its own row, and rows that lie
    together by (router, parcel) are not shuffled again. `owed` is 0 where there are only strays: of
    `ends`, the number of ends.
    """
    none = F.lit(0).cast("bigint")
    rest = F.col("owed") - F.bit_count(ended_bits())
    flying = F.bit_count(F.col("flying").bitwiseAND(F.bitwise_not(ended_bits()))).cast("bigint")
    is_hole, is_over = F.col("hole_first").isNotNull(), F.col("is_over")
    return bits(pieces, owed).select(
        *BLOCK,
        *LINE,
        "owed",
        "deliveries",
        "forwards",
        "deferred",
        "ends",
        *(F.bit_count(bits).cast("bigint").alias(name) for name, bits in state_bits().items()),
        F.when(is_hole, rest).otherwise(none).alias("unknown"),
        F.when(is_hole, none).when(is_over, flying).otherwise(rest).alias("pending"),
        F.when(~is_hole & is_over, rest - flying).otherwise(none).alias("unaccounted"),
        F.bit_count("forwarded").cast("bigint").alias("forwarded"),
        F.bit_count(contradiction_bits()).cast("bigint").alias("contradictions"),
        F.when(F.col("owed") > 0, F.bit_count(unwritten_bits()).cast("bigint")).otherwise(none).alias(UNWRITTEN),
        F.when(F.expr("owed > 0 AND due_ns > t"), F.bit_count("unconfirmed").cast("bigint"))
        .otherwise(none)
        .alias(UNANSWERED),
    )


def bits(pieces: DataFrame, owed: DataFrame) -> DataFrame:
    """Return the events of each block as bits and counts, beside how many of its messages are owed."""
    none = F.lit(0).cast("bigint")
    every = F.explode(F.expr("sequence(0L, shiftright(n - 1, 5))")).alias("block")
    cut_owed = owed.select("router", "parcel", "recipient", "n", *LINE, every).select(
        *BLOCK,
        F.expr("least(n - 32 * block, 32L)").alias("owed"),
        F.lit(-1).alias("code"),
        none.alias("mask"),
        F.lit(False).alias("is_flying"),
        *LINE,
    )
    cut_pieces = cut(pieces).select(*BLOCK, "code", "mask", "is_flying", none.alias("owed"))
    both = cut_pieces.unionByName(cut_owed, allowMissingColumns=True)
    return both.groupBy(*BLOCK).agg(
        F.max("owed").alias("owed"),
        *(bits_of(event) for event in (*ENDS, "forwarded")),
        flying_bits(),
        times_of("delivered").alias("deliveries"),
        times_of("forwarded").alias("forwards"),
        times_of("deferred").alias("deferred"),
        times_of(*ENDS).alias("ends"),
        *(F.max(name).alias(name) for name in LINE),
    )


def units(blocks: DataFrame) -> DataFrame:
    """Sum the blocks by (router, parcel, recipient), with the routers' numbers, for accepted lines of the audit's time
    span."""
    return (
        blocks.where("owed > 0 AND is_within")
        .groupBy("router", "parcel", "recipient")
        .agg(*(F.max(name).alias(name) for name in LINE), *(F.sum(name).alias(name) for name in SUMS))
    )


def delivery(units: DataFrame, accepted: DataFrame, routers: DataFrame) -> DataFrame:
    """Return the table, made of what is owed (`units`) and of the lines that accepted it."""
    line = accepted.select("router", "parcel", "said.*", "bytes")
    found = units.join(line, ["router", "parcel"], "inner")
    return named(found, routers).select(
        "router",
        "parcel",
        "recipient",
        "seq",
        "t",
        "minute",
        "kind",
        "signer",
        "destination",
        "peer",
        *SUMS,
        "due_ns",
        "hole_first",
        "bytes",
    )


def by_window(blocks: DataFrame, *more: str, step: int = 1) -> DataFrame:
    """Sum units by (router, recipient, minute, hole_first, is_within) and `more`: all that the summary needs of them.
    The first of `step` minutes stands for all.

    `strays`: ends at recipients that the parcel does not name; `pending_due_ns`: the earliest due time of a pending
    unit.
    """
    is_stray = F.col("owed") == 0
    minute = first_of("minute", step).alias("minute")
    return blocks.groupBy("router", "recipient", minute, "hole_first", "is_within", *more).agg(
        *(F.sum(F.when(is_stray, 0).otherwise(F.col(name))).alias(name) for name in SUMS),
        F.sum(F.when(is_stray, F.col("ends")).otherwise(0)).alias("strays"),
        *(F.sum(name).alias(name) for name in (UNWRITTEN, UNANSWERED)),
        F.min(F.when(F.col("pending") > 0, F.col("due_ns"))).alias("pending_due_ns"),
        F.max("due_ns").alias("due_ns"),
    )
