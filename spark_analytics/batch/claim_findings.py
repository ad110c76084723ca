"""Find what a router signed that cannot be. Follows `findings/claims.sql` of the local engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_analytics.batch.gold.custody import ID, IS_UNLIKE, SIZE
from spark_analytics.batch.gold.names import named, rows
from spark_analytics.batch.gold.tables import Tables
from spark_analytics.judgement.schema import VIA_BYTES

Rows = list[dict[str, Any]]
_FACTS = {
    "is_unicast": "other-kind",
    "signer": "other-sender",
    "destination": "other-destination",
    "expiry": "other-expiry",
    "ttl_s": "other-ttl",
}
"""The claim for each fact but the size, in order of precedence."""


def claims(tables: Tables, hops: Iterable[Mapping[str, Any]], *, has_negative: bool) -> Rows:
    """Return the claims by router and peer, each with its first event. `hops`: rows of that finding; `has_negative`:
    some wait is negative. A stream, which does not keep all lines, has none."""
    if not tables.is_whole:
        return []
    pairs = _never_linked(tables, {(row["router"], row["recipient"]) for row in hops if row["event"] == "acked"})
    never = _told(tables, "never-linked", _acked_by(tables, pairs), "true") if pairs else []
    ends = tables.rows.where("event IN ('delivered', 'acked')")
    early = _told(tables, "before-accepted", ends, "boot = accepted_boot AND mono < accepted_mono")
    return [*never, *(early if has_negative else ())]


def barred(tables: Tables) -> Rows:
    """Return the routers that others have barred because they pass nothing on. Follows `findings/barred.sql` of the
    local engine. A stream, which does not keep all lines, has none."""
    if not tables.is_whole:
        return []
    said = tables.others.where("event = 'pubsub_barred' AND other.fields['service'] IS NOT NULL")
    number = "coalesce(sum(try_cast(other.fields['{}'] AS bigint)), 0L)"
    sums = (
        said.where("other.fields['router'] <> ''")
        .where(tables.span.is_within())
        .groupBy("router", F.expr("other.fields['router']").alias("peer"))
        .agg(
            F.count("*").alias("count"),
            F.expr(number.format("lost")).alias("lost"),
            F.expr(number.format("withheld")).alias("withheld"),
            F.min("seq").alias("seq"),
        )
    )
    return rows(named(sums, tables.routers))


def _never_linked(tables: Tables, acked: set[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the routers and neighbours in `acked` for which a log that is whole from its first event tells no link."""
    if not acked:
        return []
    ups = tables.others.where("event = 'link_up'").select("router", F.expr("other.fields['peer']").alias("peer"))
    linked = {(row["router"], row["peer"]) for row in rows(named(ups.distinct(), tables.routers)) if row["peer"]}
    if acked <= linked:
        return []
    whole = {row["router"] for row in rows(tables.routers.where("is_whole AND pruned_to = 0").select("router"))}
    judged = whole & {router for router, _ in linked}
    return sorted(pair for pair in acked - linked if pair[0] in judged)


def _acked_by(tables: Tables, pairs: list[tuple[str, str]]) -> DataFrame:
    keys = {row["router"]: row["number"] for row in rows(tables.routers.select("router", "number"))}
    wanted = [(keys[router], recipient) for router, recipient in pairs]
    table = tables.rows.sparkSession.createDataFrame(wanted, "router long, recipient string")
    return tables.rows.where("event = 'acked'").join(F.broadcast(table), ["router", "recipient"], "left_semi")


def _told(tables: Tables, claim: str, ends: DataFrame, which: str) -> Rows:
    """Sum these ends with their acceptances, where `which` holds, by router and recipient."""
    lines = tables.accepted.where("is_within").select(
        "router",
        "parcel",
        "n",
        "ids",
        F.col("seq").alias("accepted_seq"),
        F.col("mono").alias("accepted_mono"),
        F.col("boot").alias("accepted_boot"),
    )
    at = "range_first - parcel"
    name = f"CASE WHEN {at} BETWEEN 0 AND n - 1 THEN lower(hex(substring(ids, cast(32 * ({at}) + 1 AS int), 32))) END"
    first = F.struct("seq", "accepted_seq", F.expr(name).alias("id"))
    wanted = ends.select("router", "parcel", "seq", "mono", "boot", "recipient", "count", "range_first")
    sums = (
        wanted.join(lines, ["router", "parcel"], "inner")
        .where(which)
        .groupBy("router", F.col("recipient").alias("peer"))
        .agg(F.sum("count").alias("count"), F.min(first).alias("first"))
    )
    return [{"claim": claim, **row} for row in rows(named(sums, tables.routers))]


def unlike(tables: Tables) -> Rows:
    """Find messages of which the logs of two routers tell facts that belong to the id. Follows `findings/unlike.sql` of
    the local engine."""
    odd = tables.accepted_id.groupBy("id").agg(F.expr(IS_UNLIKE).alias("is_unlike")).where("is_unlike").select("id")
    lines = tables.accepted.where("is_within").withColumn("i", F.explode(F.expr("sequence(0L, n - 1)")))
    told = lines.select(
        F.expr(ID).alias("id"),
        "router",
        F.struct(
            "seq",
            "i",
            F.expr("said.kind = 'unicast'").alias("is_unicast"),
            "said.signer",
            "said.destination",
            F.expr("coalesce(get(expiries, cast(i AS int)), expiry)").alias("expiry"),
            F.expr("coalesce(get(ttls, cast(i AS int)), ttl_s)").alias("ttl_s"),
            F.expr(SIZE).alias("size"),
        ).alias("said"),
    )
    said = told.join(odd, "id", "left_semi").groupBy("id", "router").agg(F.min("said").alias("said"))
    reference = said.groupBy("id").agg(F.min(F.struct("router", "said")).alias("other"))
    cases = " ".join(f"WHEN NOT said.{name} <=> other.said.{name} THEN '{word}'" for name, word in _FACTS.items())
    claim = F.expr(
        f"""CASE {cases}
        WHEN abs(said.size - other.said.size) NOT IN (0, {VIA_BYTES}) THEN 'other-size' END"""
    )
    first = F.struct("said.seq", F.col("other.said.seq").alias("accepted_seq"), F.lower(F.hex("id")).alias("id"))
    sums = (
        said.join(reference, "id", "inner")
        .select("router", F.col("other.router").alias("peer"), claim.alias("claim"), first.alias("first"))
        .where("claim IS NOT NULL")
        .groupBy("claim", "router", "peer")
        .agg(F.count("*").alias("count"), F.min("first").alias("first"))
    )
    keys = F.broadcast(tables.routers.select(F.col("number").alias("peer"), F.col("router").alias("peer_key")))
    found = named(sums.join(keys, "peer", "inner"), tables.routers)
    return rows(found.select("claim", "router", F.col("peer_key").alias("peer"), "count", "first"))
