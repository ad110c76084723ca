"""What the tables of `gold_sql` are made of, as `tables/flow.sql` of the local engine makes it, and those tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from spark_analytics.batch.gold.names import named
from spark_analytics.batch.gold.pieces import is_event
from spark_analytics.batch.local_rows import table_of
from spark_analytics.batch.span import Span
from spark_analytics.judgement import gold_sql
from spark_analytics.judgement.journey import STEPS_MAX, WAY_COLUMNS, clocks_of, ways
from spark_analytics.judgement.schema import COPY, NUMBER_OF_TEXT, STATE_EVENTS, TURNED_EVENTS
from spark_analytics.judgement.spoilt_hours import SECONDS_MAX

_PART = "slice(sizes, cast(start + 1 AS int), cast(stop - start AS int))"
_SUM = f"aggregate({_PART}, 0L, (sum, size) -> sum + size)"
_BYTES = f"""CASE WHEN stop - start = n THEN bytes
    ELSE least(bytes, coalesce({_SUM}, (stop - start) * (bytes div n))) END"""
"""The size of a piece, joined to its accepted line."""


def log_span(routers: DataFrame, span: Span) -> DataFrame:
    """Return when each log starts and ends, by the router's key."""
    times = {name: F.least(name, F.lit(span.as_of_ns)) for name in ("start_ns", "end_ns")}
    return routers.where("end_ns IS NOT NULL").withColumns(times).select("router", "start_ns", "end_ns")


def link_line(others: DataFrame, routers: DataFrame, span: Span) -> DataFrame:
    """Return links to neighbours that came up and went down, and starts. `before_t`: the time of the router's line
    about itself before that. Links of local apps and sums over several links are left out."""
    field = {name: F.expr(f"other.fields['{name}']") for name in ("peer", "link", "standing")}
    order = Window.partitionBy("router").orderBy("seq")
    said = (
        others.where(F.col("event").isin(*STATE_EVENTS))
        .withColumns({**field, "t": F.least("t", F.lit(span.as_of_ns))})
        .withColumn("before_t", F.lag("t").over(order))
    )
    is_link = "event IN ('link_up', 'link_down') AND peer IS NOT NULL AND NOT standing <=> 'local'"
    lines = said.where(f"event = 'start' OR {is_link}")
    return named(lines, routers).select(
        "router",
        "seq",
        "t",
        "event",
        F.when(F.col("event") != "start", F.col("peer")).alias("peer"),
        F.expr(NUMBER_OF_TEXT.format("link")).alias("link"),
        "before_t",
    )


def clock_step(others: DataFrame, routers: DataFrame, span: Span) -> DataFrame:
    """Return how far the clocks of routers jumped, by their own word."""
    seconds = NUMBER_OF_TEXT.format("replace(other.fields['by_s'], '-', '')")
    by_s = f"CASE WHEN other.fields['by_s'] LIKE '-%' THEN -1L ELSE 1L END * least(seconds, {SECONDS_MAX}L)"
    lines = others.where("event = 'clock_step'").withColumn("seconds", F.expr(seconds)).where("seconds IS NOT NULL")
    told = lines.select("router", F.least("t", F.lit(span.as_of_ns)).alias("t"), F.expr(by_s).alias("by_s"))
    return named(told, routers)


def arrival(accepted: DataFrame, routers: DataFrame) -> DataFrame:
    """Sum messages accepted by what brought them."""
    return named(arrivals(accepted), routers)


def arrivals(accepted: DataFrame, *more: str) -> DataFrame:
    """Return `arrival` with the routers' numbers, by `more` columns too."""
    lines = accepted.where("is_within").select(
        "router",
        F.expr("minute div 60").alias("hour"),
        "said.kind",
        F.expr("CASE WHEN said.kind <> 'unicast' THEN said.signer END").alias("group_key"),
        "said.peer",
        "n",
        "bytes",
        *more,
    )
    return lines.groupBy("router", "hour", "kind", "group_key", "peer", *more).agg(
        F.sum("n").alias("messages"), F.coalesce(F.sum("bytes"), F.lit(0)).alias("bytes")
    )


def handed(pieces: DataFrame, accepted: DataFrame, links: DataFrame, routers: DataFrame, span: Span) -> DataFrame:
    """Sum messages written to neighbours, each time that they were. `links`: as of `link_line`."""
    neighbours = links.where("peer IS NOT NULL").select(F.col("router").alias("key"), F.col("peer").alias("recipient"))
    numbers = routers.select("number", F.col("router").alias("key"))
    linked = neighbours.distinct().join(F.broadcast(numbers), "key", "inner")
    linked = F.broadcast(linked.select(F.col("number").alias("router"), "recipient"))
    near = pieces.join(linked, ["router", "recipient"], "left_semi")
    return named(written(near, accepted, span), routers)


def written(pieces: DataFrame, accepted: DataFrame, span: Span, *more: str) -> DataFrame:
    """Sum messages written to recipients, each time that they were, by (router, recipient, hour) and `more`."""
    forwarded = pieces.where(is_event("forwarded") & F.col("recipient").isNotNull()).where(span.is_within())
    found = forwarded.where("start < stop").select(
        "router", "parcel", "recipient", F.expr("minute div 60").alias("hour"), "start", "stop", *more
    )
    line = accepted.select("router", "parcel", "said.kind", "n", "bytes", "sizes")
    sized = found.join(line, ["router", "parcel"], "inner").withColumn("of_piece", F.expr(_BYTES))
    return sized.groupBy("router", "recipient", "hour", *more).agg(
        F.sum(F.expr("stop - start")).alias("messages"),
        F.coalesce(F.sum("of_piece"), F.lit(0)).alias("bytes"),
        F.sum(F.when(F.col("kind") == COPY, F.expr("stop - start")).otherwise(0)).alias("copies"),
    )


def readers(units: DataFrame, accepted: DataFrame, *more: str) -> DataFrame:
    """Sum the units of multicasts by (router, group_key, recipient, hour) and `more`. `units`: rows of
    `delivery.units`."""
    line = accepted.where("said.kind = 'multicast'").select("router", "parcel", F.col("said.signer").alias("group_key"))
    hour = F.expr("minute div 60").alias("hour")
    found = units.join(line, ["router", "parcel"], "inner").groupBy("router", "group_key", "recipient", hour, *more)
    return found.agg(*(F.sum(name).alias(name) for name in ("owed", "delivered", "acked")))


def reason(rows: DataFrame, routers: DataFrame, span: Span) -> DataFrame:
    """Sum the lines that give a reason."""
    at_door = F.col("recipient").isNull() & F.col("event").isin(*TURNED_EVENTS)
    lines = rows.where("reason IS NOT NULL").where(span.is_within()).withColumn("at_door", at_door)
    sums = lines.groupBy("router", span.hour().alias("hour"), "event", "reason", "at_door").agg(
        F.sum("count").alias("count"),
        F.sum(F.expr("CASE WHEN at_door THEN coalesce(other.bytes, 0L) END")).alias("bytes"),
        F.count("*").alias("lines"),
    )
    return named(sums, routers)


def served(others: DataFrame, routers: DataFrame, span: Span) -> DataFrame:
    """Sum the events of services."""
    service = F.expr("other.fields['service']").alias("service")
    lines = others.where("other.fields['service'] IS NOT NULL").where(span.is_within())
    sums = lines.groupBy("router", span.hour().alias("hour"), service, "event", "reason").agg(
        F.sum(F.coalesce("count", F.lit(1))).alias("count"), F.count("*").alias("lines")
    )
    return named(sums, routers)


def queue_limit(others: DataFrame, routers: DataFrame) -> DataFrame:
    """Return the limit of each router's queues, as its last `config` states it."""
    fields = others.where("event = 'config'").groupBy("router").agg(F.max_by("other.fields", "seq").alias("fields"))
    limit = F.expr(NUMBER_OF_TEXT.format("fields['queue_messages_max']")).alias("messages_max")
    return named(fields, routers).select("router", limit)


def passed_on(handover: DataFrame, routers: DataFrame, span: Span) -> DataFrame:
    """Sum the handovers by the hour of acceptance."""
    sums = handover.groupBy("router", "taker", span.hour().alias("hour")).agg(
        F.count("*").alias("acked"),
        *(F.count(F.when(F.col("custody") == word, 1)).alias(word) for word in ("followed", "broken", "unknown")),
    )
    keys = F.broadcast(routers.select(F.col("number").alias("taker"), F.col("router").alias("recipient")))
    return named(sums.join(keys, "taker", "inner"), routers)


def way(stop: DataFrame, custody: DataFrame, routers: DataFrame) -> DataFrame:
    """Return the hops of every path, as far as these are not too many. `custody`: the table, as it was written."""
    steps = stop.select("path", "router", "neighbour").distinct().limit(STEPS_MAX + 1).collect()
    numbers = {row["router"]: row["number"] for row in routers.select("number", "router").collect()}
    bounds = custody.select("router", "recipient", "lower_ns", "upper_ns").collect()
    pairs = ((numbers[row[0]], numbers[row[1]], row[2], row[3]) for row in bounds)
    found = ways((tuple(row) for row in steps), clocks_of(pairs)) if len(steps) <= STEPS_MAX else []
    schema = ", ".join(f"{name} long" for name in WAY_COLUMNS)
    return F.broadcast(table_of(stop.sparkSession, [one.row() for one in found], schema))


def made(table: str, sources: Mapping[str, DataFrame], span: Span) -> DataFrame:
    """Return a table of `gold_sql`, from the tables that its text names."""
    text = gold_sql.TEXTS[table]
    numbers = {"since_ns": span.since_ns, "until_ns": span.until_ns, **span.slo._asdict()}
    for name in gold_sql.NUMBERS:
        text = text.replace(f"{{{name}}}", f"{numbers[name]}L")
    needed: dict[str, Any] = {name: frame for name, frame in sources.items() if f"{{{name}}}" in text}
    session: SparkSession = next(iter(needed.values())).sparkSession
    return session.sql(text, **needed)
