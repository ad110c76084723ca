"""Match ids across batches: which messages are new, which were accepted again, and which handovers were followed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_analytics.batch.gold import custody, flow
from spark_analytics.batch.gold.names import named
from spark_analytics.batch.gold.tables import Tables
from spark_analytics.batch.local_rows import no_rows, table_of
from spark_analytics.batch.span import Span
from spark_analytics.judgement.schema import COPY

from .state import SCHEMAS, State, names_of
from .stream_tables import PARCEL

BROADCAST_ROWS = 2_000_000
"""Most ids that are looked up in one pass over all ids; more are sorted."""
_KEY = re.compile(r"[0-9a-f]{64}")


def number_of(key: str) -> int:
    """Return a router's number, the same in every batch and in the order of keys: the key's first 60 bits."""
    return int(key[:15], 16)


def numbers(spark: SparkSession, keys: Iterable[str]) -> DataFrame:
    """Return `number` and `router` of the keys among these."""
    rows = [(number_of(key), key) for key in keys if _KEY.fullmatch(key)]
    return table_of(spark, rows, "number long, router string")


def arrivals(rows: DataFrame) -> DataFrame:
    """Return each message of the accepted lines among these rows: `id`, `router`, `t`, `parcel`, the number of the
    neighbour that `brought` it without having signed it (-1: none), whether the line `is_copy`, the `fact` and the
    `size` that belong to the id (`custody.FACT`, `custody.SIZE`), `seq`; and, which the state does not keep of all, the
    place `i` in the parcel, `ttl_s` and `kind`."""
    number = "cast(conv(substring(accepted.peer, 1, 15), 16, 10) AS bigint)"  # as `number_of`
    brought = F.expr(f"CASE WHEN accepted.peer <=> accepted.signer THEN -1L ELSE coalesce({number}, -1L) END")
    is_copy = F.expr(f"accepted.kind <=> '{COPY}'").alias("is_copy")
    said = F.struct("accepted.kind", "accepted.signer", "accepted.destination").alias("said")
    told = (f"accepted.{name}" for name in ("ids", "n", "bytes", "sizes", "ttl_s", "ttls", "expiry", "expiries"))
    each = F.explode(F.expr("sequence(0L, accepted.n - 1)")).alias("i")
    lines = rows.where("event = 'accepted' AND parcel IS NOT NULL AND accepted.n > 0").select(
        *PARCEL, "seq", "t", brought.alias("brought"), is_copy, said, *told, each
    )
    found = {"id": custody.ID, "fact": custody.FACT, "size": custody.SIZE, "kind": "said.kind"}
    lines = lines.withColumn("sender", F.expr(custody.SENDER))
    return lines.withColumns({name: F.expr(sql) for name, sql in found.items()}).select(
        *names_of("ids"), "i", "ttl_s", "kind"
    )


def asked(ids: DataFrame, wanted: DataFrame, count: int) -> DataFrame:
    """Return the rows of all ids so far whose `id` is wanted."""
    wanted = wanted.distinct()
    return ids.join(F.broadcast(wanted) if count < BROADCAST_ROWS else wanted, "id", "left_semi")


def accepted_id(new: DataFrame, old: DataFrame) -> DataFrame:
    """Return `custody.accepted_id` of both, key (id, router): how many acceptances are `new` in this batch and how many
    `old`, with the earliest `new_t` and `old_t`, copies left aside; whether it `is_copied`; `facts` and `sizes` of
    copies too."""
    both = new.withColumn("is_new", F.lit(True)).unionByName(old.withColumn("is_new", F.lit(False)))
    is_new, is_old = F.expr("is_new AND NOT is_copy"), F.expr("NOT is_new AND NOT is_copy")
    sums = both.groupBy("id", "router").agg(
        F.count(F.when(is_new, 1)).alias("new"),
        F.count(F.when(is_old, 1)).alias("old"),
        F.min(F.when(is_new, F.col("t"))).alias("new_t"),
        F.min(F.when(is_old, F.col("t"))).alias("old_t"),
        F.min(F.when(~F.col("is_copy"), F.struct("t", "brought"))).alias("first"),
        F.max("is_copy").alias("is_copied"),
        *(F.struct(F.min(one).alias("least"), F.max(one).alias("most")).alias(f"{one}s") for one in ("fact", "size")),
    )
    return sums.withColumns(
        {
            "times": F.col("new") + F.col("old"),
            "first_t": F.col("first.t"),
            "first_by": F.col("first.brought"),
            "has_copy": F.lit(True),
        }
    ).drop("first")


class News(NamedTuple):
    """The counts added by a batch: new messages, acceptances that are not the first, those of them that are earlier
    than one counted before; and ids among those of the batch of which acceptances tell different facts."""

    messages: int
    accepted_again: int
    early: int
    unlike: int


def news(accepted_id: DataFrame) -> News:
    """Count what a batch adds. `accepted_id`: the ids of the batch, with all that is known of them."""
    is_new = F.col("new") > 0
    by_id = accepted_id.groupBy("id").agg(
        (F.max("new") > 0).alias("is_new"),
        (F.max("old") > 0).alias("is_old"),
        F.sum(F.when(is_new, F.col("new") - (F.col("old") == 0).cast("long")).otherwise(0)).alias("again"),
        F.sum(F.when(is_new & (F.col("new_t") < F.col("old_t")), 1).otherwise(0)).alias("early"),
        F.expr(custody.IS_UNLIKE).alias("is_unlike"),
    )
    sums = by_id.agg(
        F.count(F.when(F.col("is_new") & ~F.col("is_old"), 1)),
        F.sum("again"),
        F.sum("early"),
        F.count(F.when(F.col("is_unlike"), 1)),
    )
    [row] = sums.collect()
    return News(row[0], row[1] or 0, row[2] or 0, row[3])


def distinct(spark: SparkSession, base: State, news: News) -> DataFrame:
    """Return `custody.distinct_id` of all batches, of what is unlike only whether there is any."""
    messages, again = base.messages + news.messages, base.accepted_again + news.accepted_again
    is_unlike = base.is_unlike or news.unlike > 0
    return table_of(spark, [(messages, again, int(is_unlike))], "messages long, accepted_again long, unlike long")


def accepted_twice(accepted_id: DataFrame, ids: DataFrame) -> DataFrame:
    """Return the parcels of the ids that this batch accepted again. `ids`: all ids, each with its parcel."""
    pairs = accepted_id.where("new > 0 AND times > 1").select("id", "router")
    return ids.where("NOT is_copy").join(F.broadcast(pairs), ["id", "router"], "left_semi").select(*PARCEL).distinct()


def taken(tables: Tables, recipients: Iterable[str]) -> DataFrame:
    """Return the messages that these recipients took over from the parcels of these tables."""
    takers = numbers(tables.rows.sparkSession, recipients)
    return custody.taken(tables.pieces, tables.accepted, takers, tables.partitions)


IS_TAKEN = "event = 'acked' OR event = 'delivered' AND known <> router"
"""Whether a line of `beside_routers` tells of messages that another router took over."""


def beside_routers(lines: DataFrame, numbers: DataFrame) -> DataFrame:
    """Add to lines the number of the router that is their recipient, as `known`; null if it is none of `numbers`."""
    keys = F.broadcast(numbers.select(F.col("number").alias("known"), F.col("router").alias("recipient")))
    return lines.join(keys, "recipient", "left")


def taken_over(ends: DataFrame, numbers: DataFrame) -> DataFrame:
    """Return the lines of messages that another router took over."""
    return beside_routers(ends, numbers).where(IS_TAKEN)


def delivered_to(closed: DataFrame, newcomers: Collection[str], tables: Tables) -> DataFrame:
    """Return the messages that lines of closed parcels call delivered at these routers, of which the first file is new.
    `waiting` and `beyond` hold those that were acknowledged."""
    spark = tables.rows.sparkSession
    if not newcomers:
        return none_handed(spark)
    keys = F.broadcast(numbers(spark, newcomers).select(F.col("router").alias("recipient")))
    ends = closed.where("event = 'delivered'").join(keys, "recipient", "left_semi")
    parcels = tables.kept.keep(ends.select(*PARCEL).distinct())
    if parcels.isEmpty():
        return none_handed(spark)
    lines = closed.where("event = 'accepted'").join(F.broadcast(parcels), list(PARCEL), "left_semi")
    both = lines.unionByName(ends.select(*lines.columns))
    of_all = tables.others, tables.routers, tables.span, tables.has_more, tables.partitions
    return taken(Tables(both, *of_all, True, tables.kept), newcomers)


def of_takers(handed: DataFrame, routers: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Split messages into those handed to a router with a log here, and the others."""
    known = F.broadcast(routers.select(F.col("number").alias("taker")))
    return handed.join(known, "taker", "left_semi"), handed.join(known, "taker", "left_anti")


def clock(past: DataFrame, met: DataFrame, routers: DataFrame) -> DataFrame:
    """Return `custody.clock` including the handovers followed in earlier batches."""
    both = past.select("router", "taker", "lower_ns", "upper_ns").unionByName(custody.clock(met, routers))
    by_pair = both.groupBy("router", "taker")
    sums = by_pair.agg(F.max("lower_ns").alias("lower_ns"), F.min("upper_ns").alias("upper_ns"))
    return custody.unrestored(sums, routers)


IS_FOLLOWED = "custody = 'followed' AND (most_ns IS NOT NULL OR NOT is_first)"
"""Whether nothing more can be learned of a handover, unless its parcel is open."""


def followed(handover: DataFrame) -> DataFrame:
    """Sum the final rows of `handover`: those followed whose parcel is closed."""
    final = handover.where(f"{IS_FOLLOWED} AND NOT is_open")
    return final.groupBy("router", "taker").agg(
        F.count("*").alias("acked"),
        F.count("*").alias("followed"),
        F.max(F.col("there_t") - F.col("acked_t")).alias("lower_ns"),
        F.min("most_ns").alias("upper_ns"),
    )


def followed_by_hour(handover: DataFrame, span: Span) -> DataFrame:
    """Sum the final rows of `handover` by the hour of acceptance."""
    final = handover.where(f"{IS_FOLLOWED} AND NOT is_open")
    return final.groupBy("router", "taker", span.hour().alias("hour")).agg(
        F.count("*").alias("acked"), F.count("*").alias("followed")
    )


def passed_on(past: DataFrame, handover: DataFrame, routers: DataFrame, span: Span) -> DataFrame:
    """Return `flow.passed_on` of the handovers followed in earlier batches and the others."""
    keys = F.broadcast(routers.select(F.col("number").alias("taker"), F.col("router").alias("recipient")))
    none = F.lit(0).cast("bigint")
    before = named(past.join(keys, "taker", "inner"), routers).withColumns({"broken": none, "unknown": none})
    return before.unionByName(flow.passed_on(handover, routers, span))


def custody_table(past: DataFrame, handover: DataFrame, routers: DataFrame) -> DataFrame:
    """Return the gold table `custody`, from the handovers followed in earlier batches and the others."""
    keys = F.broadcast(routers.select(F.col("number").alias("taker"), F.col("router").alias("recipient")))
    none = F.lit(0).cast("bigint")
    known = custody.unrestored(past, routers).join(keys, "taker", "inner")
    before = named(known, routers).withColumns({"broken": none, "unknown": none})
    columns = ("router", "recipient", "acked", "followed", "broken", "unknown", "lower_ns", "upper_ns")
    both = before.select(*columns).unionByName(custody.custody(handover, routers))
    return both.groupBy("router", "recipient").agg(
        *(F.sum(name).alias(name) for name in columns[2:6]),
        F.max("lower_ns").alias("lower_ns"),
        F.min("upper_ns").alias("upper_ns"),
    )


def none_handed(spark: SparkSession) -> DataFrame:
    return no_rows(spark, SCHEMAS["waiting"])
