"""Find messages that routers say to have had from each other in a circle. Follows `findings/circles.sql` of the local
engine."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_analytics.batch.conflict_findings import carried
from spark_analytics.batch.gold.custody import ID, IS_OWN
from spark_analytics.batch.gold.names import named, rows
from spark_analytics.batch.gold.tables import Tables
from spark_analytics.judgement.circles import EDGES_MAX, claims

Rows = list[dict[str, Any]]


def rootless(accepted_id: DataFrame) -> DataFrame:
    """Return the ids that no router with a log here had from elsewhere. `accepted_id`: as of `custody`."""
    return accepted_id.groupBy("id").agg(F.max("has_origin").alias("has_origin")).where("NOT has_origin").select("id")


def in_a_circle(tables: Tables, lines: DataFrame, ids: DataFrame) -> Rows:
    """Return the claims about these ids. `lines`: accepted lines of all their acceptances, as of `Tables.accepted`."""
    keys = F.broadcast(tables.routers.select(F.col("number").alias("by"), F.col("router").alias("peer")))
    peer = F.expr("CASE WHEN NOT said.peer <=> said.signer THEN said.peer END")
    own = lines.where(IS_OWN).withColumn("peer", peer).join(keys, "peer", "left")
    is_multicast = F.expr("said.kind <> 'unicast'").alias("is_multicast")
    each = own.withColumn("i", F.explode(F.expr("sequence(0L, n - 1)"))).select(
        F.expr(ID).alias("id"), "router", F.struct("seq", "by", is_multicast, "is_within").alias("first")
    )
    said = tables.kept.keep(
        each.join(ids, "id", "left_semi").groupBy("id", "router").agg(F.min("first").alias("first"))
    )
    had = said.select("id", F.col("router").alias("by"))
    elsewhere = said.select("id", "first.by").join(had, ["id", "by"], "left_anti").select("id")
    closed = said.join(elsewhere, "id", "left_anti").select(F.lower(F.hex("id")).alias("id"), "router", "first.*")
    edges = rows(named(closed, tables.routers).orderBy("id", "router").limit(EDGES_MAX))
    if not edges:
        return []
    logs = rows(tables.routers.select("number", "router", "is_whole", "pruned_to"))
    names = {log["number"]: log["router"] for log in logs}
    carriers = carried(tables)
    told = (
        {**row, "brought": names[row["by"]], "carriers": carriers.get((row["by"], row["router"]), 0)} for row in edges
    )
    return claims(told, {log["router"] for log in logs if log["is_whole"] and not log["pruned_to"]})
