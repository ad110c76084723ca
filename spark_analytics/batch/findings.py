"""Compute an audit's findings from its tables: small tables, as rows, from which `summary.build` makes the summary."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_analytics.batch.fingerprint import side_by_side
from spark_analytics.batch.gold.delivery import SUMS, UNANSWERED, UNWRITTEN
from spark_analytics.batch.gold.names import named, rows
from spark_analytics.batch.gold.pieces import bits_of, cut, ended_bits, flying_bits
from spark_analytics.batch.gold.tables import NotIncremental, Tables
from spark_analytics.batch.local_rows import table_of
from spark_analytics.batch.span import Span, first_of
from spark_analytics.judgement import impossible_ends, unnamed_reasons
from spark_analytics.judgement.evidence import Evidence
from spark_analytics.judgement.schema import ENDS, OUTWARD_EVENTS, STATE_EVENTS, STATES, TURNED_EVENTS
from spark_analytics.report import summary
from spark_analytics.report.reasons import SENTENCES

from . import circle_findings, claim_findings, conflict_findings, judged_claims, order_findings
from .gold import abuse_hour, hop_latency, queue_minute, service_unit

Rows = list[dict[str, Any]]
KNOWN_EVENTS = frozenset(("accepted", *OUTWARD_EVENTS, *TURNED_EVENTS, *STATE_EVENTS))
QUEUES_MAX, FLAPS_MAX, ABUSE_MAX, EXAMPLES_MAX = 50, 50, 200, 20


def find(
    spark: SparkSession, tables: Tables, words: Rows, evidence: Evidence, told: Mapping[str, Rows] | None = None
) -> dict[str, Rows]:
    """Return all findings; `words`: rows of `tally`, with the routers' keys; `told`: what logs tell of each other, if
    it was found otherwise: `unsent`, `went_on`, and as `claims` those of two logs and of the texts."""
    lines, (first, last), told_windows = tables.sums_of_lines, tables.first_and_last, tables.windows
    step = told_windows.step
    custody = rows(tables.custody)
    distinct = rows(tables.distinct)
    outside = {row["router"]: row for row in rows(named(_outside(tables), tables.routers))}
    totals = _totals(tables, lines, words, outside, is_again=distinct[0]["accepted_again"] > 0)
    is_lost = any(row["unaccounted"] for row in totals)
    windows = _windows(tables, step, totals)
    latencies = _latencies(tables, step)
    has_negative = any(row["negative"] for row in outside.values())
    is_early = any(row["early"] for row in outside.values())
    is_unlike = bool(distinct[0].get("unlike"))
    claims = _claims(tables, words, totals, has_negative=has_negative, is_unlike=is_unlike)
    told = told or _told(tables, words, distinct[0])
    return {
        "span": [{"min_minute": first, "max_minute": last}],
        "totals": totals,
        "distinct": distinct,
        "custody": custody,
        "broken": _broken(tables) if any(row["broken"] for row in custody) else [],
        "unaccounted": _unaccounted(spark, tables) if is_lost else [],
        **windows,
        "overdue": conflict_findings.overdue(tables, windows["due"]),
        "early": conflict_findings.early(tables.everything) if is_early else [],
        "again": conflict_findings.again(tables, words),
        **told,
        "claims": [*claims, *_unnamed(tables, words, evidence), *told["claims"]],
        **latencies,
        "queues": _queues(tables, told_windows),
        **_changes(tables, told_windows),
        **from_tally(words),
        **_of_routers(tables, words),
        "quality": _quality(words, outside),
        **_services(tables, words),
    }


def _claims(tables: Tables, words: Rows, totals: Rows, *, has_negative: bool, is_unlike: bool) -> Rows:
    """Return the claims that cannot be, but for those of `_told`. Takes the sums of what arrived unwritten, and of
    what ended unanswered, away from `totals`."""
    arrived = {row["router"] for row in totals if row.pop(UNWRITTEN)}
    unanswered = sum(row.pop(UNANSWERED) for row in totals)
    unwritten = claim_findings.judged_by_writing(tables, words, arrived) if arrived else set()
    return [
        *(claim_findings.before_accepted(tables.everything) if has_negative else []),
        *(claim_findings.unwritten(tables.everything, unwritten) if unwritten else []),
        *(claim_findings.unanswered(tables.everything) if unanswered else []),
        *(claim_findings.not_owed(tables.everything) if any(row["strays"] for row in totals) else []),
        *(claim_findings.unlike(tables.everything) if is_unlike else []),
    ]


def _unnamed(tables: Tables, words: Rows, evidence: Evidence) -> Rows:
    """Return the claims of ends for a reason that the segment does not name, or that does not go with their event."""
    found = unnamed_reasons.unnamed(evidence, words, SENTENCES)
    ends = impossible_ends.impossible(words, SENTENCES)
    return [
        *(claim_findings.unnamed(tables.everything, found) if found else []),
        *(claim_findings.ended_impossibly(tables.everything, ends) if ends else []),
    ]


def _told(tables: Tables, words: Rows, distinct: Mapping[str, int]) -> dict[str, Rows]:
    """Return what logs tell of each other: what was never sent, what went on though it expired, who is said to drop,
    and claims. `distinct`: the row of `custody.distinct_id`."""
    change, there = judged_claims.change_of(tables.others), claim_findings.gone_there(tables, words)
    refused = claim_findings.refused_there(tables, there, words) if there is not None else []
    went_on = claim_findings.went_on(tables, there) if there is not None else []
    ordered = order_findings.by_order(tables, words, change, _of_order(tables, there))
    is_barred = any(row["event"] == "pubsub_barred" for row in words)
    rootless = circle_findings.rootless(tables.accepted_id)
    circles = circle_findings.in_a_circle(tables, tables.accepted, rootless) if distinct["rootless"] else []
    found = [*refused, *judged_claims.claims(tables, words), *ordered, *circles]
    doors = partial(judged_claims.doors_named, tables.others)
    found = judged_claims.joined_here(tables, found, partial(_ended, tables), doors)
    return {
        "unsent": conflict_findings.unsent(tables, words) if distinct["unsent"] else [],
        "went_on": went_on,
        "barred": claim_findings.barred(tables.others, tables) if is_barred else [],
        "claims": found,
        "unjudged": judged_claims.unjudged(change, tables, words),
    }


def _ended(tables: Tables) -> DataFrame:
    return claim_findings.ended_on_the_way(tables.rows, tables.accepted, tables.routers)


def _of_order(tables: Tables, there: DataFrame | None) -> order_findings.Sources:
    """Return the tables of which order tells. `there`: messages that ended at a router which had accepted them."""

    def gone() -> DataFrame:
        assert there is not None
        return order_findings.gone(tables, there, order_findings.pulled_of(tables.rows))

    def refused() -> DataFrame:
        ended = claim_findings.ended_on_the_way(tables.rows, tables.accepted, tables.routers)
        return order_findings.unread_from(tables, ended)

    return {
        "gone": gone,
        "refused": refused,
        "had": lambda: judged_claims.had(tables),
        "pong": lambda: judged_claims.pong_of(tables.others),
    }


NUMBERS = """CASE WHEN event = 'accepted' THEN accepted.n WHEN recipient IS NULL THEN other.missing ELSE 1L END"""
"""Number of event numbers that a line of the layout takes."""


def tally(table: DataFrame, span: Span, *more: str) -> DataFrame:
    """Sum the lines of the layout by (router, event, reason, at_door) and `more`: counts that need no look at parcels.

    `at_door`: the messages were turned away before they were accepted; `within`: those of the audit's time span.
    `noted`: lines of services; `handovers`: those of them that say what became of what a service owes. `low`,
    `high`: the least arrival number that accepted lines give, and one more than the greatest; `given`: how many they
    give; `marks`: the XOR of all marks (`fingerprint`). Of signed files, in which a line has a `seal`: how many event
    `numbers` the lines take, and the XOR of the marks of these; `sealed_lines`, `sealed_count`: lines and messages,
    each multiplied by the number of its file, summed in 64 bits; `min_t`, `max_t`: their earliest and latest time.
    """
    is_future = F.col("t") > span.as_of_ns
    return (
        _numbered(table)
        .groupBy("router", "event", "reason", "at_door", *more)
        .agg(
            F.count("*").alias("lines"),
            F.coalesce(F.sum("count"), F.lit(0)).alias("count"),
            F.coalesce(F.sum(F.when(span.is_within(), F.col("count"))), F.lit(0)).alias("within"),
            F.count(F.when(is_future, 1)).alias("future"),
            F.max(F.when(is_future, F.col("t"))).alias("latest_t"),
            F.count("more_ranges").alias("more"),
            F.count("other.fields.service").alias("noted"),
            F.count(F.when(F.expr(service_unit.IS_TOLD), 1)).alias("handovers"),
            F.min("seq").alias("first_seq"),
            F.min_by("t", "seq").alias("first_t"),
            F.max("seq").alias("last_seq"),
            F.max_by("t", "seq").alias("last_t"),
            F.min("low").alias("low"),
            F.max("high").alias("high"),
            F.sum(F.expr("high - low")).alias("given"),
            side_by_side("low", "high").alias("marks"),
            F.sum(F.expr("CASE WHEN seal IS NOT NULL THEN takes END")).alias("numbers"),
            side_by_side("begins", "begins + takes").alias("number_marks"),
            F.sum("seal").alias("sealed_lines"),
            F.min(F.expr("CASE WHEN seal IS NOT NULL THEN coalesce(t, 0L) END")).alias("min_t"),
            F.max(F.expr("CASE WHEN seal IS NOT NULL THEN coalesce(t, 0L) END")).alias("max_t"),
            F.sum(F.expr("seal * coalesce(count, 0L)")).alias("sealed_count"),
        )
    )


def _numbered(table: DataFrame) -> DataFrame:
    """Add `at_door` to the lines, the arrival numbers `low` .. `high` - 1 that an accepted line gives, and the event
    numbers that a line `takes`, from `begins` on if its file is signed."""
    is_line = "event = 'accepted' AND accepted.n > 0"
    return table.withColumns(
        {
            "at_door": F.col("recipient").isNull() & F.col("event").isin(*TURNED_EVENTS),
            "low": F.expr(f"CASE WHEN {is_line} THEN parcel END"),
            "high": F.expr(f"CASE WHEN {is_line} THEN parcel + accepted.n END"),
            "begins": F.expr("CASE WHEN seal IS NOT NULL THEN seq END"),
            "takes": F.expr(NUMBERS),
        }
    )


def from_tally(words: Rows) -> dict[str, Rows]:
    """Return the findings that need only the tally."""
    events: dict[tuple[str, str], dict[str, Any]] = {}
    for row in words:
        key = row["router"], row["event"]
        found = events.setdefault(key, {"router": key[0], "event": key[1], "lines": 0, "count": 0})
        found["lines"] += row["lines"]
        found["count"] += row["count"]
    future, ends = [], []
    for router in sorted({row["router"] for row in words}):
        own = [row for row in words if row["router"] == router]
        late = [row for row in own if row["future"]]
        if late:
            latest = max(row["latest_t"] for row in late)
            future.append({"router": router, "lines": sum(row["future"] for row in late), "latest_t": latest})
        end = max(own, key=lambda row: int(row["last_seq"]))
        ends.append({"router": router, "seq": end["last_seq"], "t": end["last_t"]})
    names = ("router", "event", "reason", "at_door")
    kept = [row for row in words if row["reason"] is not None and (row["within"] or not row["at_door"])]
    reasons = [
        {name: row[name] for name in names} | {"count": row["within" if row["at_door"] else "count"]} for row in kept
    ]
    return {"events": list(events.values()), "future": future, "ends": ends, "reasons": reasons}


def _outside(tables: Tables) -> DataFrame:
    """Count by router the ends in ranges `outside` of their parcel, those that expired too `early`, those with a
    `negative` wait, and those whose wait is `over_step`."""
    negative = tables.hop_waits.where("bucket < 0").select(
        "router",
        F.expr("CASE WHEN bucket = -1 THEN count END").alias("negative"),
        F.expr("CASE WHEN bucket = -2 THEN count END").alias("over_step"),
    )
    both = tables.odd_ends.select("router", "outside", "early").unionByName(negative, allowMissingColumns=True)
    return both.groupBy("router").agg(
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("outside", "early", "negative", "over_step"))
    )


def _totals(tables: Tables, lines: Rows, words: Rows, outside: dict[str, dict[str, Any]], *, is_again: bool) -> Rows:
    asked = [F.sum(F.when(F.col("is_within"), F.col(name)).otherwise(0)).alias(name) for name in SUMS]
    unwritten = F.sum(F.when(F.expr("is_within AND hole_first IS NULL"), F.col(UNWRITTEN))).alias(UNWRITTEN)
    unanswered = F.sum(F.when(F.col("is_within"), F.col(UNANSWERED))).alias(UNANSWERED)
    sums = tables.window_units.groupBy("router").agg(*asked, F.sum("strays").alias("strays"), unwritten, unanswered)
    units = {row["router"]: row for row in rows(named(sums, tables.routers))}
    repeats: dict[str, int] = {}
    if is_again:
        again = named(tables.repeats, tables.routers)
        repeats = {row["router"]: row["repeats"] for row in rows(again)}
    found = []
    for router in sorted({row["router"] for row in words}):
        own = units.get(router) or dict.fromkeys((*SUMS, "strays", UNWRITTEN, UNANSWERED), 0)
        found.append(
            {
                "router": router,
                "accepted": sum(row["n"] for row in lines if row["router"] == router),
                "copies": sum(row["copies"] for row in lines if row["router"] == router),
                **{name: own[name] for name in ("owed", *STATES, "deliveries")},
                "duplicates": own["deliveries"] - own["delivered"] + repeats.get(router, 0),
                "forwards": own["forwards"],
                "redelivered": own["forwards"] - own["forwarded"],
                "deferred": own["deferred"],
                "contradictions": own["contradictions"],
                "strays": own["strays"] + outside.get(router, {"outside": 0})["outside"],
                **{name: own[name] or 0 for name in (UNWRITTEN, UNANSWERED)},
            }
        )
    return found


def _windows(tables: Tables, step: int, totals: Rows) -> dict[str, Rows]:
    """Return units by window, hole and due time; a table that would be empty is returned without asking Spark."""
    units, window = tables.window_units.where("is_within"), _window(step)
    sums = [F.sum(name).alias(name) for name in ("owed", *STATES)]
    windows = units.groupBy("router", window).agg(*sums).where("owed > 0")
    spans = units.groupBy("router", "hole_first").agg(F.sum("unknown").alias("unknown")).where("unknown > 0")
    due = units.where("pending > 0").groupBy("router", "recipient").agg(F.min("pending_due_ns").alias("due_ns"))
    asked = {"windows": (windows, "owed"), "spans": (spans, "unknown"), "due": (due, "pending")}
    return {
        name: rows(named(table, tables.routers)) if any(row[state] for row in totals) else []
        for name, (table, state) in asked.items()
    }


def _latencies(tables: Tables, step: int) -> dict[str, Rows]:
    sums = F.sum("count").alias("count"), F.max("max_ns").alias("max_ns")
    hop = F.when(F.col("event") == "acked", F.col("recipient")).alias("recipient")
    hops = hop_latency.timed(tables.hop_waits).groupBy("router", hop, "event", "bucket").agg(*sums)
    timed = hop_latency.timed(tables.window_waits)
    return {
        "latency": rows(timed.groupBy("event", _window(step), "bucket").agg(*sums)),
        "hops": rows(named(hops, tables.routers)),
    }


def _queues(tables: Tables, told: summary.Windows) -> Rows:
    """Return the queues that were longest at the end of a window."""
    windows = queue_minute.by_window(tables.window_queues, told)
    most = windows.groupBy("router", "recipient").agg(F.max("open").alias("most"))
    longest = most.orderBy(F.desc("most"), "router", "recipient").limit(QUEUES_MAX)
    return rows(named(windows.join(F.broadcast(longest), ["router", "recipient"], "left_semi"), tables.routers))


def _changes(tables: Tables, told: summary.Windows) -> dict[str, Rows]:
    changes = tables.changes
    routes = changes.groupBy("router", _window(told.step), "event").agg(F.sum("changes").alias("count"))
    routes = routes.where(F.col("window").between(told.first, told.last))
    restless = changes.where("subject IS NOT NULL AND event NOT IN ('join', 'leave')")
    flaps = restless.groupBy("router", "subject").agg(F.sum("changes").alias("changes"))
    order = (F.asc_nulls_first(name) for name in abuse_hour.KEY)
    abuse = tables.abuse_hour.drop("lines", "bytes").orderBy(F.desc("count"), *order).limit(ABUSE_MAX)
    return {
        "routes": rows(routes),
        "flaps": rows(flaps.orderBy(F.desc("changes"), "router", "subject").limit(FLAPS_MAX)),
        "abuse": rows(abuse),
    }


def _of_routers(tables: Tables, words: Rows) -> dict[str, Rows]:
    """Return what routers say about themselves: their limits, and what they find wrong."""
    has_alarms = any(row["event"] == "alarm" for row in words)
    return {"configs": rows(_configs(tables)), "alarms": rows(_alarms(tables)) if has_alarms else []}


def _configs(tables: Tables) -> DataFrame:
    last = (
        tables.others.where("event = 'config'").groupBy("router").agg(F.max_by("other.fields", "seq").alias("fields"))
    )
    return named(last, tables.routers)


def _alarms(tables: Tables) -> DataFrame:
    """Return what routers find wrong with themselves, of each kind and recipient the last line, if it is not over."""
    said = {name: f"other.fields['{name}']" for name in ("alarm", "peer")}
    lines = tables.others.where("event = 'alarm'").withColumns({name: F.expr(it) for name, it in said.items()})
    last = lines.groupBy("router", *said).agg(
        F.max("seq").alias("seq"), F.max_by("other.fields", "seq").alias("fields")
    )
    return named(last.where("fields['state'] = 'raised'"), tables.routers)


def is_owing(words: Rows, *, is_whole: bool) -> bool:
    """Whether a service says what it owes. Raise `NotIncremental` if so and not all lines are at hand."""
    if not any(row["handovers"] for row in words):
        return False
    if not is_whole:
        raise NotIncremental("a service tells what it owes and what became of it, which is told from all lines")
    return True


def _services(tables: Tables, words: Rows) -> dict[str, Rows]:
    """Return what services owe and what became of it, if events of theirs say so."""
    if not is_owing(words, is_whole=tables.is_whole):
        return {"services": [], "service_ends": []}
    lines = tables.kept.keep(service_unit.lines(tables.others))
    units = tables.kept.keep(service_unit.units(lines, tables.routers, tables.span))
    return {
        "services": rows(named(service_unit.services(lines, units, tables.span), tables.routers)),
        "service_ends": rows(named(service_unit.ends(units), tables.routers)),
    }


def _quality(words: Rows, outside: dict[str, dict[str, Any]]) -> Rows:
    found: dict[tuple[str, str], int] = {}
    for row in words:
        if row["event"] not in KNOWN_EVENTS:
            key = "unknown event word", row["router"]
            found[key] = found.get(key, 0) + row["lines"] - row["noted"]
        if row["future"]:
            key = "time from the future", row["router"]
            found[key] = found.get(key, 0) + row["future"]
    for router, row in outside.items():
        found["negative wait", router] = row["negative"]
        found["wait over a clock step", router] = row["over_step"]
    return [{"check": check, "router": router, "count": n} for (check, router), n in found.items() if n]


def _broken(tables: Tables) -> Rows:
    lost = tables.handover.where("custody = 'broken'").select(
        "router", "parcel", "taker", F.lower(F.hex("id")).alias("id")
    )
    lines = tables.accepted.select("router", "parcel", "seq")
    keys = F.broadcast(tables.routers.select(F.col("number").alias("taker"), F.col("router").alias("recipient")))
    lost = lost.join(lines, ["router", "parcel"], "inner").join(keys, "taker", "inner")
    found = named(lost.select("router", "recipient", "id", "seq"), tables.routers)
    return rows(found.orderBy("router", "recipient", "id", "seq").limit(EXAMPLES_MAX))


def _unaccounted(spark: SparkSession, tables: Tables) -> Rows:
    """Return the first parcels with messages that have no end, each with its first such message."""
    units = tables.units.where("unaccounted > 0").select("router", "parcel", "recipient", "unaccounted")
    lost = rows(units.orderBy("router", "parcel", "recipient").limit(EXAMPLES_MAX))
    keys = [(row["router"], row["parcel"], row["recipient"]) for row in lost]
    wanted = F.broadcast(table_of(spark, keys, "router long, parcel long, recipient string"))
    parts = cut(tables.pieces.join(wanted, ["router", "parcel", "recipient"], "left_semi"))
    bits = parts.groupBy("router", "parcel", "recipient", "block").agg(
        *(bits_of(event) for event in ENDS), flying_bits()
    )
    ended = {
        (row["router"], row["parcel"], row["recipient"], row["block"]): row["ended"]
        for row in rows(
            bits.select(
                "router", "parcel", "recipient", "block", ended_bits().bitwiseOR(F.col("flying")).alias("ended")
            )
        )
    }
    parcels = wanted.select("router", "parcel").distinct()
    lines = tables.accepted.join(parcels, ["router", "parcel"], "left_semi").select(
        "router", "parcel", "n", "ids", "said.signer"
    )
    by_parcel = {(row["router"], row["parcel"]): row for row in rows(lines)}
    numbers = {row["number"]: row["router"] for row in rows(tables.routers.select("number", "router"))}
    found: Rows = []
    for row, key in zip(lost, keys, strict=True):
        line = by_parcel[key[:2]]
        first = next(i for i in range(line["n"]) if not ended.get((*key, i >> 5), 0) >> (i & 31) & 1)
        found.append(
            {
                "router": numbers[key[0]],
                "parcel": key[1],
                "recipient": key[2],
                "signer": line["signer"],
                "count": row["unaccounted"],
                "id": line["ids"][32 * first : 32 * first + 32].hex(),
            }
        )
    return found


def _window(step: int) -> Column:
    return first_of("minute", step).alias("window")
