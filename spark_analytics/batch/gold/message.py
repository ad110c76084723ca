"""`message`, key (id): a message over all routers that accepted it, with its units by state; and what it is made of:
the message at each of these routers.

broken: a router took it over and its log, whole up to then, lacks it; beyond: the log of the router or app that took it
over is not given.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_analytics.batch.gold.custody import ID, IS_OWN
from spark_analytics.batch.gold.pieces import bits_of, cut, flying_bits, is_event, state_bits
from spark_analytics.judgement.schema import ENDS, STATES

_OPEN = "CASE WHEN hole_first IS NOT NULL THEN 'unknown' WHEN is_over THEN 'unaccounted' ELSE 'pending' END"
"""The state of a unit without an end."""
_SETTLED = "array_max(transform(filter(waits, one -> one.start <= i AND i < one.stop), one -> one.wait_ns))"
_COUNTS = ("owed", *STATES, "broken", "beyond")


def stops(
    pieces: DataFrame, accepted: DataFrame, handover: DataFrame, routers: DataFrame, span_now: int, partitions: int
) -> DataFrame:
    """Sum rows by (id, router): one for a message's arrival at a router, with all units open; one for each unit that
    has an end (or is in flight), which moves it from its open state; one for each broken handover.

    `t`: when the router accepted the message first, of copies alone when it sent the first; `neighbour`: the number of
    the router that brought it then, -1 if none with a log here did; `settled_ns`: the time from its acceptance until
    the last local recipient had settled it. Of the whole message: `path`, which router brought it to which, as one
    number; `entries`: at how many routers none with a log here brought it, and `entry_t`: when the first accepted it.
    Laid out by id."""
    lines = accepted.where("is_within")
    ends = _ends(_ended(pieces, accepted, routers), lines)
    broken = handover.where("custody = 'broken'").select("id", "router", F.lit(1).cast("bigint").alias("broken"))
    rows = _arrivals(_beside(lines, pieces, routers), span_now).unionByName(ends, allowMissingColumns=True)
    rows = rows.unionByName(broken, allowMissingColumns=True).repartition(partitions, "id")
    by_router = rows.groupBy("id", "router").agg(*_sums())
    first = by_router.withColumns(
        {"t": F.coalesce("own.t", "first_t"), "neighbour": F.coalesce("own.source", F.lit(-1).cast("bigint"))}
    )
    whole = Window.partitionBy("id")
    is_entry = "neighbour = -1"
    of_message = {
        "path": F.expr("bit_xor(xxhash64(router, neighbour))").over(whole),
        "entries": F.count(F.when(F.expr(is_entry), 1)).over(whole),
        "entry_t": F.min(F.when(F.expr(is_entry), F.col("t"))).over(whole),
    }
    return first.drop("own").withColumns(of_message)


def message(stops: DataFrame) -> DataFrame:
    whole = stops.groupBy("id").agg(
        F.count("router").alias("routers"),
        F.min("first_t").alias("first_t"),
        *(F.sum(one).alias(one) for one in _COUNTS),
    )
    return whole.select(F.lower(F.hex("id")).alias("id"), "routers", "first_t", *_COUNTS)


def stop(stops: DataFrame) -> DataFrame:
    """Return what the table `journey` is made of."""
    sums = {
        "arrived": "delivered + acked",
        "ended": "unconfirmed + refused + expired + dropped + evicted",
        "open": "unknown + pending",
        "lost": "unaccounted + broken",
    }
    return stops.select(
        F.lower(F.hex("id")).alias("id"),
        "router",
        F.expr("nullif(neighbour, -1L)").alias("neighbour"),
        *("t", "settled_ns", "path", "entries", "entry_t", "owed"),
        *(F.expr(sql).alias(name) for name, sql in sums.items()),
    )


def _beside(lines: DataFrame, pieces: DataFrame, routers: DataFrame) -> DataFrame:
    """Add to the accepted lines the `neighbour` that brought them, by number, and the `waits` of their messages until
    a local recipient had settled them, by ranges of a parcel."""
    settled = pieces.where(is_event("delivered") & F.expr("start < stop AND wait_ns >= 0"))
    each = settled.groupBy("router", "parcel", "start", "stop").agg(F.max("wait_ns").alias("wait_ns"))
    waits = each.groupBy("router", "parcel").agg(F.collect_list(F.struct("start", "stop", "wait_ns")).alias("waits"))
    keys = F.broadcast(routers.select(F.col("number").alias("neighbour"), F.col("router").alias("peer")))
    brought = lines.withColumn("peer", F.expr("CASE WHEN NOT said.peer <=> said.signer THEN said.peer END"))
    return brought.join(keys, "peer", "left").join(waits, ["router", "parcel"], "left")


def _arrivals(lines: DataFrame, span_now: int) -> DataFrame:
    """Return a row for each message of the accepted lines, with the number of its units in their open state."""
    nothing = F.lit(0).cast("bigint")
    arrivals = lines.select(
        "router",
        "ids",
        F.least("t", F.lit(span_now)).alias("t"),
        F.expr(IS_OWN).alias("is_own"),
        F.coalesce("neighbour", F.lit(-1)).alias("source"),
        "waits",
        F.expr("coalesce(array_size(recipients), 0L)").alias("owed"),
        F.expr(_OPEN).alias("open"),
        F.explode(F.expr("sequence(0L, n - 1)")).alias("i"),
    )
    return arrivals.select(
        F.expr(ID).alias("id"),
        "router",
        "t",
        F.expr("CASE WHEN is_own THEN struct(t, source) END").alias("own"),
        F.expr(_SETTLED).alias("settled_ns"),
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
        .select(
            F.expr(ID).alias("id"), "router", state.alias("state"), "open", is_beyond.cast("bigint").alias("beyond")
        )
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
    found = [F.min("t").alias("first_t"), F.min("own").alias("own"), F.max("settled_ns").alias("settled_ns")]
    found += [F.coalesce(F.sum("owed"), F.lit(0)).alias("owed")]
    found += [F.coalesce(F.sum(F.when(F.col("state") == event, 1)), F.lit(0)).alias(event) for event in ENDS]
    found += [
        F.coalesce(F.sum(F.when(F.col("open") == name, change).when(F.col("state") == name, 1)), F.lit(0)).alias(name)
        for name in ("unknown", "pending", "unaccounted")
    ]
    return [*found, *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("broken", "beyond"))]
