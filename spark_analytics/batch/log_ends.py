"""The reports of routers about themselves: each log's end and the router's condition there, which decides whether a
missing end is a loss; the events that the router found missing; and the heads of its neighbours' logs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_analytics.batch.gold.names import named
from spark_analytics.judgement.evidence import Evidence, Gap, Witness, unbroken
from spark_analytics.judgement.presence_sql import NS_MAX
from spark_analytics.judgement.schema import NUMBER_OF_TEXT, SHORT_S

LINKS = ("link_up", "link_down")
EVENTS = ("start", "clock_step", *LINKS)
"""The events that describe a log's end; `log_gap` and `link` show missing events, `config` a router's limits, `alarm`
what it finds wrong with itself."""
COLUMNS = (
    "router string, is_whole boolean, is_unbroken boolean, pruned_to long, is_restored boolean,"
    " start_ns long, end_ns long, first_step_seq long, last_step_seq long, run_seq long,"
    " settled_ns long, is_doubted boolean, open_links array<long>, ttl_s long, config_seq long,"
    " holes array<struct<first_seq:long,last_seq:long>>"
)
NO_LIFE = -1
"""The `config_seq` of a router that says that it lets messages live for less than `SHORT_S`."""
LEAST = ("ttl_s", "config_seq")
"""The columns of `self_reports` that are merged by taking the least value."""
HOLE_SEQ = f"coalesce(array_min(transform(holes, hole -> hole.first_seq)), {NS_MAX}L) AS hole_seq"
"""SQL for the first event of a log's first hole, `NS_MAX` without one."""
Row = dict[str, Any]


def self_reports(others: DataFrame, routers: DataFrame) -> list[Row]:
    """Return the last line of each router, event and link (`at`) among the layout's lines without a recipient. Each gap
    has its own row, and so has each head of a neighbour's log, and each kind of alarm with its recipient; a link that
    went down again has none."""
    kept = others.where(F.col("event").isin(*EVENTS, "log_gap", "link", "config", "alarm"))
    link = NUMBER_OF_TEXT.format("other.fields['link']")
    at = f"CASE WHEN event IN ('link_up', 'link_down') THEN {link} WHEN event = 'log_gap' THEN seq END"
    head_seq = NUMBER_OF_TEXT.format("other.fields['head_seq']")
    heads = {
        "peer": "CASE WHEN event IN ('link', 'alarm') THEN other.fields['peer'] END",
        "head_seq": f"CASE WHEN event = 'link' THEN {head_seq} END",
        "head_digest": "CASE WHEN event = 'link' THEN other.fields['head_digest'] END",
        "alarm": "CASE WHEN event = 'alarm' THEN other.fields['alarm'] END",
    }
    columns = (F.expr(said).alias(name) for name, said in heads.items())
    said = NUMBER_OF_TEXT.format("other.fields['ttl_s_max']")
    ttl = f"CASE WHEN event = 'config' THEN {said} END"
    ttl_s = F.when(F.expr(ttl) >= 0, F.expr(ttl)).alias("said_s")
    by_kind = kept.select("*", F.expr(at).alias("at"), ttl_s, *columns)
    last = by_kind.groupBy("router", "event", "at", *heads).agg(
        F.max("seq").alias("seq"),
        F.max_by("t", "seq").alias("t"),
        F.max_by("other.fields", "seq").alias("fields"),
        F.max_by("other.missing", "seq").alias("missing"),
        F.min(F.when(F.col("said_s") >= SHORT_S, F.col("said_s"))).alias("ttl_s"),
        F.min(F.when(F.col("said_s") >= SHORT_S, F.col("seq")).when(F.col("said_s") >= 0, NO_LIFE)).alias("config_seq"),
    )
    by_link = Window.partitionBy("router", "at")
    sides = {
        side: F.max(F.when(F.col("event") == f"link_{side}", F.col("seq"))).over(by_link) for side in ("up", "down")
    }
    matters = """CASE event WHEN 'link_up' THEN at IS NOT NULL AND up > coalesce(down, 0)
        WHEN 'link_down' THEN at IS NOT NULL AND up IS NULL ELSE true END"""
    found = last.withColumns(sides).where(matters).drop("up", "down")
    return [row.asDict() for row in named(found, routers).collect()]


def merged(rows: Iterable[Row]) -> list[Row]:
    """Merge rows of `self_reports` from several batches: keep the last of each kind, without links that went down or
    were up before the last start. A link's number is used once between two starts, so no later row needs these."""
    found: dict[tuple[object, ...], Row] = {}
    for row in rows:
        key = tuple(row.get(name) for name in ("router", "event", "at", "peer", "head_seq", "head_digest", "alarm"))
        if (known := found.get(key)) is None:
            found[key] = row
            continue
        least = {
            name: min((one[name] for one in (row, known) if one[name] is not None), default=None) for name in LEAST
        }
        found[key] = (row if row["seq"] > known["seq"] else known) | least
    return [row for row in found.values() if row["event"] not in LINKS or _matters(row, found)]


def _matters(row: Row, found: Mapping[tuple[object, ...], Row]) -> bool:
    """Whether a row about a link still matters: the link is up, or its `link_up` has not been read yet."""

    def last(event: str, at: object) -> int:
        return int(found.get((row["router"], event, at, None, None, None, None), {"seq": 0})["seq"])

    if row["seq"] < last("start", None):
        return False
    if row["event"] == "link_up":
        return bool(row["seq"] > last("link_down", row["at"]))
    return not last("link_up", row["at"])


def gaps(rows: Iterable[Row]) -> list[Gap]:
    """Return the events that a router itself found missing when it sealed its log."""
    return [
        Gap(row["router"], row["seq"], row["missing"])
        for row in rows
        if row["event"] == "log_gap" and (row["fields"] or {}).get("missing") is not None
    ]


def witnesses(rows: Iterable[Row]) -> list[Witness]:
    """Return the heads of logs that routers heard from their neighbours."""
    names = ("router", "peer", "head_seq", "head_digest", "t", "seq")
    heads = ([row[name] for name in names] for row in rows if row["event"] == "link")
    return [Witness(*head) for head in heads if None not in head]


def log_ends(evidence: Evidence, words: list[Row], rows: Iterable[Row]) -> list[tuple[object, ...]]:
    """Return a row of `COLUMNS` for each log. `words`: rows of `findings.tally`; `rows`: those of `self_reports`.

    `is_unbroken`: no event is missing before its last one. `run_seq`: its last start. `settled_ns`: since then its
    clock has not jumped and it was not started again; while `is_doubted` it lets nothing expire. `first_step_seq`,
    `last_step_seq`: the first and the last time that it says that its clock jumped. `open_links` are up where the log
    ends: messages written to one of these are in flight. `ttl_s`: the shortest of the longest lives that the router's
    `config` lines allow a message, those under `SHORT_S` left aside; the first of these lines is `config_seq`, null
    where any was left aside.
    """
    by_router: dict[str, list[Row]] = {log.router: [] for log in evidence.logs}
    for row in rows:
        by_router.setdefault(row["router"], []).append(row)
    found: list[tuple[object, ...]] = []
    sound = unbroken(evidence)
    for log in evidence.logs:
        own = [row for row in words if row["router"] == log.router]
        start = min(own, key=lambda row: int(row["first_seq"]), default={"first_t": None})
        end = max(own, key=lambda row: int(row["last_seq"]), default={"last_t": None})
        holes = [(hole.first_seq, hole.last_seq) for hole in evidence.holes if hole.router == log.router]
        state = _state(by_router[log.router])
        config = next((row for row in by_router[log.router] if row["event"] == "config"), dict.fromkeys(LEAST))
        life = (config["ttl_s"], None if config["config_seq"] == NO_LIFE else config["config_seq"])
        known = (log.router, log.whole, log.router in sound, log.pruned_to, log.router in evidence.restored)
        steps = [int(row[name]) for row in own if row["event"] == "clock_step" for name in ("first_seq", "last_seq")]
        times = (start["first_t"], end["last_t"], min(steps, default=None), max(steps, default=None))
        found.append((*known, *times, *state, *life, holes))
    return found


def ends_of_whole(rows: Iterable[tuple[object, ...]]) -> dict[str, int]:
    """Return the time of the last line of each log that is whole. `rows`: as of `log_ends`."""
    names = [column.split()[0] for column in COLUMNS.split(", ")]
    columns = [names.index(name) for name in ("router", "is_whole", "end_ns")]
    said = ([row[column] for column in columns] for row in rows)
    return {str(router): end_ns for router, is_whole, end_ns in said if is_whole and isinstance(end_ns, int)}


def _state(rows: Iterable[Row]) -> tuple[int, int, bool, list[int]]:
    """Return run_seq, settled_ns, is_doubted and open_links of one router."""
    last = {(row["event"], row["at"]): row for row in rows if row["event"] in EVENTS}
    begun = [row for (event, _), row in last.items() if event in ("start", "clock_step")]
    none: Row = {"t": 0, "fields": None}
    settled = max(begun, key=lambda row: int(row["seq"]), default=none)
    run_seq = last["start", None]["seq"] if ("start", None) in last else 0
    open_links = []
    for (event, link), row in last.items():
        down = last.get(("link_down", link), {"seq": 0})
        if event == "link_up" and link is not None and row["seq"] > max(run_seq, down["seq"]):
            open_links.append(link)
    return run_seq, settled["t"], (settled["fields"] or {}).get("doubted") == "true", sorted(open_links)
