"""Find what a router signed that cannot be. Follows `findings/claims.sql` of the local engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_analytics.batch.gold.names import named, rows
from spark_analytics.batch.gold.tables import Tables

Rows = list[dict[str, Any]]


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
