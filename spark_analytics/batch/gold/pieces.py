"""Pieces: one row for each range of an outward line, beside its accepted line; and 32 messages of a parcel as bits.

start .. stop - 1 are the messages of the parcel that the range covers, counted from its first one. A range outside of
its parcel, or without one, has start = stop: the rest of `count` are strays. `code` is the event's place in `EVENTS`.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_analytics.batch.span import Span
from spark_analytics.judgement.schema import COPY, COPY_NS, COUNT_MAX, ENDS, NEXT_AWAY, OVER_STEP_NS, TTL_S_MAX

OF_ROUTER = ("run_seq", "open_links", "ttl_s", "first_step_seq", "last_step_seq")
"""The columns of a router that stand beside its pieces."""
EVENTS = (*ENDS, "forwarded", "deferred")

WAIT_NS = f"""CASE WHEN seq < accepted_seq THEN -1L
    WHEN boot = accepted_boot AND mono IS NOT NULL AND accepted_mono IS NOT NULL THEN mono - accepted_mono
    WHEN accepted_seq < last_step_seq AND seq > first_step_seq THEN {OVER_STEP_NS}L ELSE t - accepted_t END"""
"""The time from an accepted line to this one; of two runs it is not known where the clock jumped in between, nor
where jumps lie around both."""
IS_AWAY = f"event = 'expired' AND reason <=> '{NEXT_AWAY}' AND kind <=> '{COPY}'"
_MOST_NS = f"""least(accepted_t + least(coalesce(ttl_s, {TTL_S_MAX}L), {TTL_S_MAX}L) * 1000000000L,
    CASE WHEN is_away THEN accepted_t + {COPY_NS}L END)"""
EARLY = f"""CASE WHEN t >= least(due_ns, {_MOST_NS}) - 1000000000L THEN 0 WHEN lives IS NULL THEN stop - start
    ELSE size(filter(slice(lives, cast(start + 1 AS int), cast(stop - start AS int)),
        due -> t < least(due, {_MOST_NS}) - 1000000000L)) END"""
"""Number of messages of an `expired` range that were not due yet. Deadlines count from a full second."""


def outward(rows: DataFrame, has_more: bool) -> DataFrame:
    """Return the ranges of outward lines. `has_more`: some lines have several."""
    lines = rows.where(F.col("event").isin(*EVENTS) & F.col("recipient").isNotNull())
    columns = ("router", "parcel", "recipient", "event", "seq", "t", "mono", "boot", "link", "depth", "reason")
    found = lines.select(*columns, "range_first", "range_count")
    if has_more:
        more = lines.select(*columns, F.explode("more_ranges").alias("range"))
        pair = F.expr("get(range, 0)").alias("range_first"), F.expr("get(range, 1)").alias("range_count")
        # In this order Spark sees that both parts lie by parcel, and shuffles nothing again.
        found = more.select(*columns, *pair).unionByName(found)
    return found.where("range_count > 0")


def pieces(ranges: DataFrame, accepted: DataFrame, routers: DataFrame, span: Span) -> DataFrame:
    """Return the pieces. `wait_ns`: the time from the accepted line to this one, by the monotonic clock if both are of
    one boot; -1 where this line comes before; `OVER_STEP_NS` where the wall clock was set meanwhile. `is_away`: copies
    that ended because the next router was away, which may be before their time; `early`: how many of the messages
    expired before they were due. `is_flying`: written to a link that is up where the log ends; in flight nothing
    expires.
    """
    offset = "range_first - parcel"
    stop = F.expr(
        f"CASE WHEN {offset} >= n THEN n ELSE greatest(0L, least(n, {offset} + least(range_count, {1 << 61}L))) END"
    )
    code = reduce(lambda found, pair: found.when(F.col("event") == pair[1], pair[0]), enumerate(EVENTS), F)
    is_flying = F.expr("seq > run_seq AND array_contains(open_links, link)")
    found = _beside_lines(ranges, accepted, routers).select(
        "*",
        code.alias("code"),
        F.expr(IS_AWAY).alias("is_away"),
        F.when(F.col("n").isNull(), 0).otherwise(F.expr(f"greatest(0L, least(n, {offset}))")).alias("start"),
        F.when(F.col("n").isNull(), 0).otherwise(stop).cast("bigint").alias("stop"),
    )
    return found.select(
        "router",
        "parcel",
        "recipient",
        "code",
        "start",
        "stop",
        F.least("range_count", F.lit(COUNT_MAX)).alias("count"),
        "depth",
        "t",
        span.minute().alias("minute"),
        "accepted_minute",
        "is_within",
        F.expr(WAIT_NS).alias("wait_ns"),
        F.when(F.col("event") == "forwarded", is_flying).otherwise(False).alias("is_flying"),
        "is_away",
        F.when(F.col("event") == "expired", F.expr(EARLY)).otherwise(F.lit(0)).cast("bigint").alias("early"),
    )


def _beside_lines(ranges: DataFrame, accepted: DataFrame, routers: DataFrame) -> DataFrame:
    """Return the ranges beside their accepted lines, if there are any, and the links that their routers left open."""
    line = accepted.select(
        "router",
        "parcel",
        "n",
        F.col("seq").alias("accepted_seq"),
        F.col("t").alias("accepted_t"),
        F.col("mono").alias("accepted_mono"),
        F.col("boot").alias("accepted_boot"),
        F.col("minute").alias("accepted_minute"),
        "is_within",
        "said.kind",
        "due_ns",
        "lives",
    )
    links = F.broadcast(routers.select(F.col("number").alias("router"), *OF_ROUTER))
    return ranges.join(line, ["router", "parcel"], "left").join(links, "router", "inner")


def early_of(pieces: DataFrame) -> DataFrame:
    """Return each message of pieces, joined to their accepted line, that expired before it was due: `arrival`,
    `due_ns`."""
    due = F.expr(f"least(coalesce(get(lives, cast(i AS int)), due_ns), {_MOST_NS})")
    each = pieces.withColumn("i", F.explode(F.expr("sequence(start, stop - 1)"))).withColumn("due_ns", due)
    return each.withColumn("arrival", F.expr("parcel + i")).where("t < due_ns - 1000000000L")


def is_event(*events: str) -> Column:
    return F.col("code").isin(*(EVENTS.index(event) for event in events))


def event_of() -> Column:
    """Return the event's name."""
    return F.element_at(F.array(*map(F.lit, EVENTS)), F.col("code") + 1)


def cut(pieces: DataFrame) -> DataFrame:
    """Cut pieces at every 32 messages, as bits: the message 32 * block + k of the parcel is the bit k of `mask`."""
    every = F.explode(F.expr("sequence(shiftright(start, 5), shiftright(stop - 1, 5))"))
    found = pieces.where("start < stop").withColumn("block", every)
    return found.withColumn("mask", F.expr(f"{_below('stop')} - {_below('start')}"))


def _below(edge: str) -> str:
    """Return the bits of a block that lie below an edge, plus one."""
    return f"shiftleft(1L, cast(greatest(0L, least(32L, {edge} - 32 * block)) AS int))"


def bits_of(event: str) -> Column:
    """Return all the bits of an event, in a group of cut pieces."""
    bits = F.when(is_event(event), F.col("mask")).otherwise(F.lit(0).cast("bigint"))
    return F.coalesce(F.bit_or(bits), F.lit(0).cast("bigint")).alias(event)


def flying_bits() -> Column:
    """Return the bits of all messages in flight, in a group of cut pieces."""
    bits = F.when(F.col("is_flying"), F.col("mask")).otherwise(F.lit(0).cast("bigint"))
    return F.coalesce(F.bit_or(bits), F.lit(0).cast("bigint")).alias("flying")


def times_of(*events: str) -> Column:
    """Count these events; a message counts as often as it had one."""
    count = F.bit_count("mask").cast("bigint")
    return F.sum(F.when(is_event(*events), count).otherwise(F.lit(0).cast("bigint")))


def state_bits() -> dict[str, Column]:
    """Return the bits of the messages in each state, from the bits of all ends: of several ends, the first in `ENDS`
    counts."""
    found = {ENDS[0]: F.col(ENDS[0])}
    for number, event in enumerate(ENDS[1:], 1):
        found[event] = F.col(event).bitwiseAND(F.bitwise_not(_joined(ENDS[:number])))
    return found


def contradiction_bits() -> Column:
    """Return the bits of the messages with two ends or more."""
    both = [F.col(event).bitwiseAND(_joined(ENDS[:number])) for number, event in enumerate(ENDS) if number]
    return reduce(Column.bitwiseOR, both)


def unwritten_bits() -> Column:
    """Return the bits of the messages that were delivered or acknowledged, and never written to the recipient."""
    return F.col("delivered").bitwiseOR(F.col("acked")).bitwiseAND(F.bitwise_not("forwarded"))


def ended_bits() -> Column:
    """Return the bits of the messages that have an end."""
    return _joined(ENDS)


def _joined(events: tuple[str, ...]) -> Column:
    return reduce(Column.bitwiseOR, (F.col(event) for event in events))
