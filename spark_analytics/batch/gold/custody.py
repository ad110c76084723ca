"""`custody`, key (router, recipient): messages that another router took over, where its log is given too: `acked`, by
whichever word for a router's end, acknowledged or delivered.

Followed: that router accepted the same id. Broken: it did not, although its log is whole and goes from before the
acceptance here to after the acknowledgement, by its own clock, by as much longer as either clock was set
(`clock_moves`); for a day longer where it is not known how far that may be ahead, and for ten minutes where no message
was followed that could tell. Where its beginning is pruned, only a
unicast must be in it, because a multicast may have come from elsewhere before. Otherwise unknown. The recipient's clock
minus the router's lies between lower_ns and upper_ns: it accepted before the router got the acknowledgement, and after
the router did if this router was the first to bring it the message. What a restored router accepts it may have accepted
before already, which its log does not tell any more: its acceptances bound nothing. A message for that router itself
has arrived, and is accepted nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_analytics.batch.gold.names import named
from spark_analytics.batch.gold.pieces import bits_of, cut, is_event
from spark_analytics.batch.local_rows import table_of
from spark_analytics.judgement.schema import COPY, GRACE_NS, SLACK_NS, VIA_BYTES

ID = "substring(ids, cast(32 * i + 1 AS int), 32)"
"""The i-th message's id, from the ids of a parcel."""

IS_OWN = f"NOT said.kind <=> '{COPY}'"
SENDER = "xxhash64(said.kind = 'unicast', coalesce(said.signer, ''), coalesce(said.destination, ''))"
FACT = "xxhash64(coalesce(get(ttls, cast(i AS int)), ttl_s), coalesce(get(expiries, cast(i AS int)), expiry), sender)"
"""A hash of what belongs to the i-th message's id, whoever writes it down."""
SIZE = "coalesce(get(sizes, cast(i AS int)), bytes div n)"
HANDED = ("id", "taker", "router", "parcel", "i", "kind", "t", "acked_t")
"""The columns of a message that a router took over."""
IS_UNLIKE = f"""min(facts.least) <> max(facts.most)
    OR max(sizes.most) - min(sizes.least) NOT IN (0, {VIA_BYTES})"""
"""Whether the acceptances of an id, added up by router, tell different facts of it."""
BITS_OF_ROUTERS = 63
"""Number of routers that get a bit each in the check of which routers have a message."""


def accepted_id(accepted: DataFrame, routers: DataFrame, partitions: int) -> DataFrame:
    """Key (id, router): `first_t`, when the router accepted it first, and `first_by`, which router brought it then (-1:
    none with a log here); `times`: how many acceptances are within the audit's time span; all without copies that the
    router sent on, and `has_copy`: whether there are any.
    `has_origin`: whether it had the message from no router with a log here, null of one that only sent copies on.
    `brought`: a bit for each router with a log here that is said to have brought it, unless it signed it itself.
    `facts`, `sizes`: the least and the greatest of what all acceptances tell.
    Laid out by id."""
    keys = F.broadcast(routers.select(F.col("number").alias("neighbour"), F.col("router").alias("peer")))
    lines = accepted.withColumn("peer", F.expr("CASE WHEN NOT said.peer <=> said.signer THEN said.peer END"))
    brought = F.expr(f"CASE WHEN is_within THEN shiftleft(1L, cast(neighbour % {BITS_OF_ROUTERS} AS int)) END")
    messages = lines.join(keys, "peer", "left").select(
        "router",
        F.expr(f"CASE WHEN {IS_OWN} THEN struct(t, coalesce(neighbour, -1L) AS by) END").alias("own"),
        F.expr(f"cast(is_within AND {IS_OWN} AS int)").alias("time"),
        "ids",
        brought.alias("brought"),
        *("ttl_s", "expiry", "ttls", "expiries", "sizes", "bytes", "n"),
        F.expr(SENDER).alias("sender"),
        F.explode(F.expr("sequence(0L, n - 1)")).alias("i"),
    )
    fact, size = F.expr(FACT).alias("fact"), F.expr(SIZE).alias("size")
    ids = messages.select(F.expr(ID).alias("id"), "router", "own", "time", "brought", fact, size)
    by_id = ids.repartition(partitions, "id").groupBy("id", "router")
    sums = by_id.agg(
        F.sum("time").alias("times"),
        F.min("own").alias("own"),
        F.max(F.col("own").isNull()).alias("has_copy"),
        F.bit_or("brought").alias("brought"),
        F.max(F.expr("own.by < 0")).alias("has_origin"),
        *(F.struct(F.min(one).alias("least"), F.max(one).alias("most")).alias(f"{one}s") for one in ("fact", "size")),
    )
    first = F.col("own.t").alias("first_t"), F.col("own.by").alias("first_by")
    return sums.select("id", "router", "times", *first, "has_copy", "brought", "has_origin", "facts", "sizes")


def distinct_id(accepted_id: DataFrame) -> DataFrame:
    """Count the messages. `accepted_again`: acceptances that are not the first of that id at that router. `unsent`: ids
    that a router is said to have brought and did not accept; with more than 63 routers, all ids that any brought.
    `unlike`: ids of which acceptances tell different facts. `rootless`: ids that no router had from elsewhere."""
    there = F.expr(f"shiftleft(1L, cast(router % {BITS_OF_ROUTERS} AS int))")
    by_id = accepted_id.groupBy("id").agg(
        F.sum(F.when(F.col("times") > 0, F.col("times") - 1)).alias("again"),
        F.bit_or("brought").alias("brought"),
        F.bit_or(there).alias("there"),
        F.max("router").alias("most"),
        F.expr(IS_UNLIKE).alias("is_unlike"),
        F.max("has_origin").alias("has_origin"),
    )
    unsent = F.expr(f"brought IS NOT NULL AND (most >= {BITS_OF_ROUTERS} OR (brought & ~there) <> 0)")
    return by_id.agg(
        F.count("again").alias("messages"),
        F.coalesce(F.sum("again"), F.lit(0)).cast("bigint").alias("accepted_again"),
        F.count(F.when(unsent, 1)).alias("unsent"),
        F.count(F.when(F.col("is_unlike"), 1)).alias("unlike"),
        F.count(F.when(~F.col("has_origin"), 1)).alias("rootless"),
    )


def taken(pieces: DataFrame, accepted: DataFrame, routers: DataFrame, partitions: int) -> DataFrame:
    """Return each message that a router with a log took over, once for each recipient; laid out by id."""
    takers = F.broadcast(routers.select(F.col("number").alias("taker"), F.col("router").alias("recipient")))
    passed = pieces.where(is_event("delivered", "acked")).join(takers, "recipient", "inner").where("taker <> router")
    key = ("router", "parcel", "recipient", "taker")
    mask = F.bit_or("mask").alias("mask")
    bits = cut(passed).groupBy(*key, "block").agg(mask, F.max("t").alias("acked_t"))
    last = F.max("acked_t").over(Window.partitionBy("router", "parcel", "recipient"))
    masks = bits.select(*key, "block", "mask", last.alias("acked_t"))
    line = accepted.where("is_within").select(
        "router", "parcel", "t", "ids", "recipients", "n", "said.kind", "said.destination"
    )
    lines = masks.join(line, ["router", "parcel"], "inner")
    bit = F.explode(F.expr("sequence(0L, least(31L, n - 1 - 32 * block))"))
    is_passed_on = "array_contains(recipients, recipient) AND NOT (destination <=> recipient)"
    messages = lines.where(is_passed_on).withColumn("bit", bit)
    here = messages.where("(shiftright(mask, cast(bit AS int)) & 1) = 1").withColumn("i", F.expr("32 * block + bit"))
    return here.select(F.expr(ID).alias("id"), *(name for name in HANDED if name != "id")).repartition(partitions, "id")


def met(taken: DataFrame, accepted_id: DataFrame) -> DataFrame:
    """Add to each message taken over `there_t`, when the taker accepted that id first, null if it did not; `is_first`:
    this router brought it then; and `most_ns`, how far the taker's clock can be ahead by that, null if this is not
    known: a copy counts from when its router accepted the message first, as it may have brought it before the copy."""
    there = accepted_id.select(
        "id", F.col("router").alias("taker"), F.col("first_t").alias("there_t"), F.col("first_by").alias("there_by")
    )
    original = accepted_id.where("has_copy").select(
        "id", F.col("router").alias("sender"), F.col("first_t").alias("original_t")
    )
    sender = F.expr(f"CASE WHEN kind = '{COPY}' THEN router END")
    found = taken.join(there.hint("shuffle_hash"), ["id", "taker"], "left").withColumn("sender", sender)
    both = found.join(original.hint("shuffle_hash"), ["id", "sender"], "left")
    here_t = f"CASE WHEN kind = '{COPY}' THEN original_t ELSE t END"
    is_first = F.expr("coalesce(there_by = router, false)").alias("is_first")
    most_ns = F.expr(f"CASE WHEN there_by = router THEN there_t - ({here_t}) END").alias("most_ns")
    return both.select(*HANDED, "there_t", is_first, most_ns)


def clock(met: DataFrame, routers: DataFrame) -> DataFrame:
    """Return by (router, taker) the bounds of the taker's clock minus the router's."""
    sums = met.groupBy("router", "taker").agg(
        F.max(F.col("there_t") - F.col("acked_t")).alias("lower_ns"),
        F.min("most_ns").alias("upper_ns"),
    )
    return unrestored(sums, routers)


def unrestored(clock: DataFrame, routers: DataFrame) -> DataFrame:
    """Leave out the bounds that rest on acceptances of routers that were restored."""
    here = F.broadcast(routers.select(F.col("number").alias("router"), F.col("is_restored").alias("here")))
    there = F.broadcast(routers.select(F.col("number").alias("taker"), F.col("is_restored").alias("there")))
    bounds = {
        "lower_ns": F.expr("CASE WHEN NOT coalesce(there, false) THEN lower_ns END"),
        "upper_ns": F.expr("CASE WHEN NOT coalesce(here, false) THEN upper_ns END"),
    }
    found = clock.join(here, "router", "left").join(there, "taker", "left")
    return found.withColumns(bounds).select(*clock.columns)


def judged(met: DataFrame, clock: DataFrame, routers: DataFrame, moves: Mapping[int, int]) -> DataFrame:
    """Add to each message taken over its `custody`: followed, broken or unknown, judged by the taker's clock. `moves`:
    as of `clock_moves.moves_while_up`."""
    logs = F.broadcast(routers.select(F.col("number").alias("taker"), "is_whole", "start_ns", "end_ns", "pruned_to"))
    slack = f"CASE WHEN lower_ns IS NULL THEN {GRACE_NS}L WHEN upper_ns IS NULL THEN {SLACK_NS}L ELSE 0L END"
    ends = f"end_ns - acked_t >= greatest(lower_ns, coalesce(upper_ns, 0L)) + moved_ns + {slack}"
    begins = "pruned_to = 0 OR kind = 'unicast' AND start_ns - t <= least(coalesce(lower_ns, 0L), upper_ns) - moved_ns"
    custody = f"""CASE WHEN there_t IS NOT NULL THEN 'followed' WHEN is_whole AND {ends} AND ({begins}) THEN 'broken'
        ELSE 'unknown' END"""
    moved = table_of(met.sparkSession, [*moves.items()], "router long, ns long")
    here = F.broadcast(moved.withColumnRenamed("ns", "here_ns"))
    there = F.broadcast(moved.select(F.col("router").alias("taker"), F.col("ns").alias("there_ns")))
    moved_ns = F.expr("coalesce(here_ns, 0L) + coalesce(there_ns, 0L)")
    clock = clock.join(here, "router", "left").join(there, "taker", "left").withColumn("moved_ns", moved_ns)
    found = met.join(F.broadcast(clock), ["router", "taker"], "inner").join(logs, "taker", "left")
    return found.select(*met.columns, "lower_ns", "upper_ns", F.expr(custody).alias("custody"))


def custody(handover: DataFrame, routers: DataFrame) -> DataFrame:
    def count(word: str) -> Column:
        return F.count(F.when(F.col("custody") == word, 1)).alias(word)

    sums = handover.groupBy("router", "taker").agg(
        F.count("*").alias("acked"),
        count("followed"),
        count("broken"),
        count("unknown"),
        F.max("lower_ns").alias("lower_ns"),
        F.max("upper_ns").alias("upper_ns"),
    )
    keys = F.broadcast(routers.select(F.col("number").alias("taker"), F.col("router").alias("recipient")))
    found = named(sums.join(keys, "taker", "inner"), routers)
    return found.select("router", "recipient", "acked", "followed", "broken", "unknown", "lower_ns", "upper_ns")


def repeated_delivery(pieces: DataFrame, accepted: DataFrame, accepted_id: DataFrame) -> DataFrame:
    """Count by router, as `repeats`, deliveries of an id that the same recipient got there under another arrival
    number."""
    again = accepted_id.where("times > 1").select("id", "router")
    line = accepted.where("is_within").select("router", "parcel", "ids", "n", "recipients")
    messages = line.withColumn("i", F.explode(F.expr("sequence(0L, n - 1)"))).withColumn("id", F.expr(ID))
    twice = messages.join(again, ["id", "router"], "left_semi").select("id", "router", "parcel", "i", "recipients")
    bits = (
        cut(pieces.where(is_event("delivered")))
        .groupBy("router", "parcel", "recipient", "block")
        .agg(bits_of("delivered"))
    )
    found = (
        twice.withColumn("block", F.expr("shiftright(i, 5)"))
        .join(bits, ["router", "parcel", "block"], "inner")
        .where("array_contains(recipients, recipient) AND (shiftright(delivered, cast(i & 31 AS int)) & 1) = 1")
    )
    times = found.groupBy("router", "recipient", "id").agg((F.count("*") - 1).alias("repeats")).where("repeats > 0")
    return times.groupBy("router").agg(F.sum("repeats").alias("repeats"))
