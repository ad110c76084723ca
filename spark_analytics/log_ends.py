"""Where each router's log ends, and in which condition the router was there: what decides whether a silence is a
loss."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .evidence import Evidence
from .gold.names import named

EVENTS = ("start", "clock_step", "link_up", "link_down")
"""The lines that tell it."""
COLUMNS = (
    "router string, is_whole boolean, pruned_to long, start_ns long, end_ns long, run_seq long, settled_ns long,"
    " is_doubted boolean, open_links array<long>, holes array<struct<first_seq:long,last_seq:long>>"
)
Row = dict[str, Any]


def log_ends(evidence: Evidence, words: list[Row], others: DataFrame, routers: DataFrame) -> list[tuple[object, ...]]:
    """A row of `COLUMNS` for each log. `words`: rows of `findings.tally`; `others`: lines of the layout about no
    recipient.

    `run_seq`: its last start. Since `settled_ns` its clock has not jumped and it was not started again; while
    `is_doubted` it lets nothing expire. `open_links` are up where the log ends: what was written to one of these is in
    flight.
    """
    last = {row["router"]: row for row in _last(named(_states(others), routers))}
    links: dict[str, list[int]] = {}
    for row in named(_links(others), routers).collect():
        if row.up_seq > (last[row.router]["run_seq"] if row.router in last else 0):
            links.setdefault(row.router, []).append(row.link)
    found: list[tuple[object, ...]] = []
    for log in evidence.logs:
        own = [row for row in words if row["router"] == log.router]
        start = min(own, key=lambda row: int(row["first_seq"]), default={"first_t": None})
        end = max(own, key=lambda row: int(row["last_seq"]), default={"last_t": None})
        state = last.get(log.router) or {"run_seq": 0, "settled_ns": 0, "is_doubted": False}
        holes = [(hole.first_seq, hole.last_seq) for hole in evidence.holes if hole.router == log.router]
        found.append((
            log.router, log.whole, log.pruned_to, start["first_t"], end["last_t"], state["run_seq"],
            state["settled_ns"], state["is_doubted"], sorted(links.get(log.router, ())), holes,
        ))  # fmt: skip
    return found


def _states(others: DataFrame) -> DataFrame:
    """The last start or step of the clock by router."""
    doubted = F.coalesce(F.expr("other.fields['doubted'] = 'true'"), F.lit(False))
    return others.where("event IN ('start', 'clock_step')").groupBy("router").agg(
        F.coalesce(F.max(F.when(F.col("event") == "start", F.col("seq"))), F.lit(0)).alias("run_seq"),
        F.max_by("t", "seq").alias("settled_ns"), F.max_by(doubted, "seq").alias("is_doubted"),
    )  # fmt: skip


def _links(others: DataFrame) -> DataFrame:
    """Links that went up and not down since."""
    link = F.expr("try_cast(other.fields['link'] AS bigint)").alias("link")
    changes = others.where("event IN ('link_up', 'link_down')").select("router", link, "event", "seq")
    seqs = (
        changes.where("link IS NOT NULL")
        .groupBy("router", "link")
        .agg(
            F.max(F.when(F.col("event") == "link_up", F.col("seq"))).alias("up_seq"),
            F.max(F.when(F.col("event") == "link_down", F.col("seq"))).alias("down_seq"),
        )
    )
    return seqs.where("up_seq > coalesce(down_seq, 0)")


def _last(table: DataFrame) -> list[Row]:
    return [row.asDict() for row in table.collect()]
