"""Find the claims that the order of lines tells where clocks do not (`judgement/order_sql.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_analytics.batch.claim_findings import apart
from spark_analytics.batch.conflict_findings import carriers
from spark_analytics.batch.gold.custody import ID, IS_OWN, taken
from spark_analytics.batch.gold.names import named, rows
from spark_analytics.batch.gold.tables import Tables
from spark_analytics.batch.judged_claims import ids_of, log_of, made
from spark_analytics.batch.local_rows import table_of
from spark_analytics.judgement import order_sql
from spark_analytics.judgement.claim_sql import NEVER_AGAIN, OF_MESSAGES
from spark_analytics.judgement.conflicts import row_of
from spark_analytics.judgement.link_sql import PONG
from spark_analytics.judgement.presence_sql import HISTORY

Rows = list[dict[str, Any]]
Sources = Mapping[str, Callable[[], DataFrame]]
"""The tables that a text reads, each made when it is needed."""


def by_order(tables: Tables, words: Rows, change: DataFrame, sources: Sources) -> Rows:
    """Return the claims about pairs of logs of which the clocks tell nothing. `words`: rows of `findings.tally`;
    `change`: as of `judged_claims.change_of`; `sources`: `gone` and `refused` (as of `gone` and `unread_from` here),
    `had` and `pong`."""
    wanted = _wanted(words)
    if not wanted:
        return []
    known = {"change": change, "log": log_of(tables)}
    pairs = [
        (row["router"], row["other"]) for row in rows(made(order_sql.UNTIMED, known | {"apart": apart(tables)}, 0))
    ]
    if not pairs:
        return []
    tie = tables.kept.keep(ties(tables.everything, pairs))
    found: Rows = []
    for claim in wanted:
        text = order_sql.TEXTS[claim]
        given = {name: make() for name, make in sources.items() if f"{{{name}}}" in text}
        told = rows(named(made(text, known | given | {"tie": tie}, 0), tables.routers))
        ids = ids_of(tables.everything, told) if claim in OF_MESSAGES and told else {}
        found += [row_of(claim, row, ids.get((row["router"], row["seq"]))) for row in told]
    return found


def _wanted(words: Rows) -> list[str]:
    """Return the claims for which logs have lines of the kind of which they are made."""
    refused = {row["reason"] for row in words if row["event"] == "refused" and not row["at_door"]}
    is_wanted = {
        "refused-there": not refused.isdisjoint(NEVER_AGAIN),
        "joined-there": "no-subscribers" in refused,
        "linked-there": any(row["event"] == PONG for row in words),
        "no-history": any(row["event"] == HISTORY for row in words),
    }
    return [claim for claim, is_so in is_wanted.items() if is_so]


def ties(tables: Tables, pairs: list[tuple[int, int]]) -> DataFrame:
    """Return what ties the orders of these pairs of logs together. Follows `tables/tie.sql` of the local engine.
    `tables`: of all lines."""
    session, number = tables.rows.sparkSession, F.col("number")
    both = F.broadcast(table_of(session, pairs, "router long, taker long"))
    routers = F.broadcast(tables.routers.join(both.select(F.col("router").alias("number")).distinct(), "number"))
    handed = taken(tables.pieces, tables.accepted, routers, tables.partitions).join(both, ["router", "taker"], "inner")
    handed = tables.kept.keep(handed.select("id", "router", "taker", "parcel", "kind"))
    first = _first(tables, routers, handed.select("id").distinct())
    met = tables.kept.keep(_met(tables, routers, handed, first))
    of_parcel = ("router", "taker", "parcel")
    takers = routers.select(number.alias("taker"), F.col("router").alias("recipient"))
    acked = tables.rows.where("event = 'acked'").join(takers, "recipient", "inner").groupBy(*of_parcel)
    heard = acked.agg(F.max("seq").alias("other_seq"), F.max_by("t", "seq").alias("other_t"))
    had = met.where("is_brought OR there_is_from_first").groupBy(*of_parcel).agg(F.max("there_seq").alias("seq"))
    sent = met.where(
        "is_brought AND here_is_from_first AND NOT here_has_copy AND (kind = 'unicast' OR carries IS NULL)"
    ).groupBy(*of_parcel)
    told = sent.agg(
        F.min("here_seq").alias("seq"),
        F.min("there_seq").alias("other_seq"),
        F.min_by("there_t", "there_seq").alias("other_t"),
    )
    back = had.join(heard, [*of_parcel], "inner").select(
        F.col("taker").alias("router"), F.col("router").alias("other"), "seq", "other_seq", "other_t"
    )
    onward = told.select("router", F.col("taker").alias("other"), "seq", "other_seq", "other_t")
    return back.withColumn("is_sent", F.lit(False)).unionByName(onward.withColumn("is_sent", F.lit(True)))


def _met(tables: Tables, routers: DataFrame, handed: DataFrame, first: DataFrame) -> DataFrame:
    """Return the messages handed over of which both logs tell an acceptance. `is_brought`: the other router had it from
    there first; `carries`: true if messages for the other router itself came through this one. `first`: as of
    `_first`."""
    here, there = (first.select("id", *(F.col(one).alias(f"{side}_{one}") for one in _FIRST)) for side in _SIDES)
    keys = routers.select(F.col("number").alias("taker"), F.col("router").alias("destination"))
    carrying = carriers(tables.accepted, routers).join(keys, "destination", "inner").select("router", "taker")
    carrying = carrying.withColumn("carries", F.lit(True))
    return (
        handed.withColumnRenamed("router", "here_router")
        .withColumnRenamed("taker", "there_router")
        .join(here, ["id", "here_router"], "inner")
        .join(there, ["id", "there_router"], "inner")
        .withColumnsRenamed({"here_router": "router", "there_router": "taker"})
        .join(F.broadcast(carrying), ["router", "taker"], "left")
        .withColumn("is_brought", F.expr("there_brought = router"))
    )


_SIDES = ("here", "there")
_FIRST = ("router", "seq", "t", "brought", "is_from_first", "has_copy")


def _first(tables: Tables, routers: DataFrame, ids: DataFrame) -> DataFrame:
    """Return the first acceptance of each of these messages at each of these routers, copies left aside. `brought`: the
    router that brought it then, by its number; -1 if it was none of these; `is_from_first`: that log is whole from its
    first event on; `has_copy`: whether a service of the router sent it on."""
    keys = routers.select(F.col("number").alias("neighbour"), F.col("router").alias("peer"))
    logs = routers.selectExpr("number AS router", "is_whole AND pruned_to = 0 AS is_from_first")
    peer = F.expr("CASE WHEN NOT said.peer <=> said.signer THEN said.peer END")
    lines = tables.accepted.join(logs, "router", "inner").withColumn("peer", peer)
    each = lines.join(keys, "peer", "left").withColumn("i", F.explode(F.expr("sequence(0L, n - 1)")))
    first = F.struct("seq", "t", F.expr("coalesce(neighbour, -1L) AS brought"))
    found = each.withColumn("id", F.expr(ID)).join(ids, "id", "left_semi").groupBy("id", "router", "is_from_first")
    sums = found.agg(
        F.min(F.when(F.expr(IS_OWN), first)).alias("first"), F.max(F.expr(f"NOT ({IS_OWN})")).alias("has_copy")
    )
    return sums.where("first IS NOT NULL").select("id", "router", "is_from_first", "has_copy", "first.*")


def gone(tables: Tables, there: DataFrame, pulled: DataFrame) -> DataFrame:
    """Return messages that a neighbour is said to have refused and cannot have, as `order_sql.REFUSED_THERE` reads
    them. `tables`: of all lines; `there`: as of `claim_findings.accepted_there`; `pulled`: as of `pulled_of`."""
    found = tables.kept.keep(there.where("is_counted AND is_never").select("id", "router", "taker", "seq", "t"))
    ids = found.select("id", F.col("taker").alias("router")).distinct()
    lines = tables.accepted.where(IS_OWN).withColumn("i", F.explode(F.expr("sequence(0L, n - 1)")))
    each = lines.select("router", "seq", F.expr(ID).alias("id")).join(ids, ["id", "router"], "left_semi")
    firsts = each.groupBy("id", F.col("router").alias("taker")).agg(F.min("seq").alias("there_seq"))
    keys = F.broadcast(tables.routers.select(F.col("number").alias("taker"), F.col("router").alias("key")))
    sent = pulled.withColumnRenamed("recipient", "key").join(keys, "key", "inner")
    carried = carriers(tables.accepted, tables.routers).withColumnRenamed("destination", "key").join(keys, "key")
    again = {
        "pulled": (["router", "parcel", "taker"], sent.select("router", "parcel", "taker").distinct()),
        "carried": (["router", "taker"], carried.select("router", "taker").distinct()),
    }
    ends = tables.rows.where("event = 'refused'").select("router", "seq", "parcel")
    kinds = tables.accepted.select("router", "parcel", "said.kind")
    told = found.join(firsts, ["id", "taker"], "inner").join(ends, ["router", "seq"], "inner")
    told = told.join(kinds, ["router", "parcel"], "inner")
    for name, (by, rows_again) in again.items():
        told = told.join(rows_again.withColumn(name, F.lit(True)), by, "left")
    is_alone = "kind = 'unicast' OR kind = 'multicast' AND carried IS NULL AND pulled IS NULL"
    columns = ("router", "taker", "seq", "t", "there_seq", F.expr("lower(hex(id))").alias("id"))
    return told.select(*columns, F.expr(is_alone).alias("is_alone"))


def pulled_of(lines: DataFrame) -> DataFrame:
    """Return the parcels of which messages were sent once more, as a neighbour asked for them: `router`, `parcel`,
    `recipient`, `count`."""
    found = lines.where("event = 'pulled' AND recipient IS NOT NULL AND parcel IS NOT NULL")
    return found.select("router", "parcel", "recipient", "count")


def unread_from(tables: Tables, ended: DataFrame) -> DataFrame:
    """Return multicasts refused because nobody had joined, each with the event of its acceptance. `tables`: of all
    lines; `ended`: as of `claim_findings.ended_on_the_way`."""
    said = ended.where("event = 'refused' AND reason = 'no-subscribers' AND kind IN ('multicast', 'copy')")
    lines = tables.accepted.select("router", "parcel", F.col("seq").alias("accepted_seq"))
    found = said.join(lines, ["router", "parcel"], "inner")
    return found.select("router", "taker", "seq", "count", "group_key", "accepted_seq")
