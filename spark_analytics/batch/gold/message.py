"""`message`, key (id): a message over all routers that accepted it, with its units by state.

broken: a router took it over and its log, whole up to then, lacks it; beyond: the log of the router or app that took it
over is not given.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_analytics.batch.gold.custody import ID
from spark_analytics.batch.gold.pieces import bits_of, cut, flying_bits, is_event, state_bits
from spark_analytics.judgement.schema import ENDS, STATES

_OPEN = "CASE WHEN hole_first IS NOT NULL THEN 'unknown' WHEN is_over THEN 'unaccounted' ELSE 'pending' END"
"""The state of a unit without an end."""


def message(
    pieces: DataFrame, accepted: DataFrame, handover: DataFrame, routers: DataFrame, span_now: int, partitions: int
) -> DataFrame:
    """Sum rows by id: one for a message's arrival at each router, with all units open; one for each unit that has an
    end (or is in flight), which moves it from its open state; one for each broken handover."""
    lines = accepted.where("is_within")
    ends = _ends(_ended(pieces, accepted, routers), lines)
    broken = handover.where("custody = 'broken'").select("id", F.lit(1).cast("bigint").alias("broken"))
    rows = _arrivals(lines, span_now).unionByName(ends, allowMissingColumns=True)
    rows = rows.unionByName(broken, allowMissingColumns=True).repartition(partitions, "id")
    by_router = rows.groupBy("id", "router").agg(*_sums())
    whole = by_router.groupBy("id").agg(
        F.count("router").alias("routers"),
        F.min("first_t").alias("first_t"),
        *(F.sum(name).alias(name) for name in ("owed", *STATES, "broken", "beyond")),
    )
    return whole.select(F.lower(F.hex("id")).alias("id"), "routers", "first_t", "owed", *STATES, "broken", "beyond")


def _arrivals(lines: DataFrame, span_now: int) -> DataFrame:
    """Return a row for each message of the accepted lines, with the number of its units in their open state."""
    nothing = F.lit(0).cast("bigint")
    arrivals = lines.select(
        "router",
        "ids",
        F.least("t", F.lit(span_now)).alias("t"),
        F.expr("coalesce(array_size(recipients), 0L)").alias("owed"),
        F.expr(_OPEN).alias("open"),
        F.explode(F.expr("sequence(0L, n - 1)")).alias("i"),
    )
    return arrivals.select(
        F.expr(ID).alias("id"),
        "router",
        "t",
        "owed",
        "open",
        F.lit(None).cast("string").alias("state"),
        nothing.alias("beyond"),
        nothing.alias("broken"),
    )


def _ends(ended: DataFrame, lines: DataFrame) -> DataFrame:
    """Return a row for each unit of the accepted lines that has an end or is in flight. `ended`: the bits of ends."""
    line = lines.select("router", "parcel", "ids", "recipients", F.expr(_OPEN).alias("open"))
    each = (
        ended.join(line, ["router", "parcel"], "inner")
        .where("array_contains(recipients, recipient)")
        .withColumn("bit", F.explode(F.expr("sequence(0, 31)")))
    )
    state = F.coalesce(
        *(F.when(F.expr(f"(shiftright({event}, bit) & 1) = 1"), F.lit(event)) for event in ENDS),
        F.when(F.expr("open = 'unaccounted' AND (shiftright(flying, bit) & 1) = 1"), F.lit("pending")),
    )
    is_beyond = F.expr("is_beyond") & (state == "acked")
    return (
        each.where(state.isNotNull())
        .withColumn("i", F.expr("32 * block + bit"))
        .select(F.expr(ID).alias("id"), state.alias("state"), "open", is_beyond.cast("bigint").alias("beyond"))
    )


def _ended(pieces: DataFrame, accepted: DataFrame, routers: DataFrame) -> DataFrame:
    """Return the bits of each end by (router, parcel, recipient, block). `is_beyond`: the recipient's own log is not
    given."""
    ends = cut(pieces.where(is_event(*ENDS) | F.col("is_flying")))
    bits = ends.groupBy("router", "parcel", "recipient", "block").agg(
        *(bits_of(event) for event in ENDS), flying_bits()
    )
    states = bits.select(
        "router", "parcel", "recipient", "block", *(b.alias(e) for e, b in state_bits().items()), "flying"
    )
    known = F.broadcast(routers.select(F.col("router").alias("recipient"), F.lit(True).alias("has_log")))
    return states.join(known, "recipient", "left").withColumn("is_beyond", F.col("has_log").isNull())


def _sums() -> list[Column]:
    """Return the sums: an arrival adds its owed units to their open state, an end moves one unit to its own state."""
    is_end = F.col("state").isNotNull()
    change = F.when(is_end, -1).otherwise(F.col("owed"))
    found = [F.min("t").alias("first_t"), F.coalesce(F.sum("owed"), F.lit(0)).alias("owed")]
    found += [F.coalesce(F.sum(F.when(F.col("state") == event, 1)), F.lit(0)).alias(event) for event in ENDS]
    found += [
        F.coalesce(F.sum(F.when(F.col("open") == name, change).when(F.col("state") == name, 1)), F.lit(0)).alias(name)
        for name in ("unknown", "pending", "unaccounted")
    ]
    return [*found, *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("broken", "beyond"))]
