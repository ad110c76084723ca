"""The local engine: files to evidence, lines to tables in DuckDB, tables to findings, findings to the summary."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import duckdb
from msgspec import Struct

from router.audit import load, publish
from router.audit.claims import claims, impossible_ends, unjudged, unnamed_reasons
from router.audit.database import MEMORY_BYTES, Database, database, threads_for
from router.audit.file_facts import content, read_facts
from router.audit.listing import Listing
from router.audit.spelling import Care
from router.core.wire.crypto import verify
from spark_analytics.judgement import circles
from spark_analytics.judgement.claim_sql import CHANGES, NEVER_AGAIN
from spark_analytics.judgement.clock_moves import moves_while_up
from spark_analytics.judgement.evidence import Evidence, first_holes, judge, unbroken, witnessed
from spark_analytics.judgement.log_files import FileFacts
from spark_analytics.judgement.schema import (
    COPY_NS,
    GRACE_NS,
    LEAP_MIN,
    OUTWARD_EVENTS,
    OVER_STEP_NS,
    OVERDUE_NS,
    ROUTE_EVENTS,
    SHORT_S,
    SLACK_NS,
    STATE_EVENTS,
    TURNED_EVENTS,
    VIA_BYTES,
)
from spark_analytics.judgement.slo import USUAL, Slo
from spark_analytics.report import summary

NS_MAX = (1 << 63) - 1
KNOWN_EVENTS = ("accepted", *OUTWARD_EVENTS, *TURNED_EVENTS, *STATE_EVENTS)
TABLES = (
    "log_end", "accepted", "accepted_id", "message_id", "owed", "piece", "block", "delivery", "hop_latency",
    "queue_minute", "route_change", "abuse_hour", "custody", "repeated_delivery", "unsent", "service_unit", "claim",
)  # fmt: skip
BITS_OF_ROUTERS = 63
"""Number of routers that get a bit each in the table of distinct messages."""
FINDINGS = (
    "totals", "distinct", "windows", "latency", "hops", "queues", "due", "reasons", "routes", "flaps", "abuse",
    "custody", "broken", "unaccounted", "spans", "events", "future", "ends", "configs", "quality", "overdue",
    "again", "early", "services", "service_ends", "went_on", "alarms", "barred",
)  # fmt: skip

Report = Callable[[str, float], None]
"""Callback for progress: the current step, and the fraction of it that is done."""


class AuditSpan(Struct, frozen=True):
    """What an audit is asked: the time at which it is made, the accepted events in [since_ns, until_ns), and the
    service level that it measures."""

    as_of_ns: int
    since_ns: int = 0
    until_ns: int = NS_MAX
    slo: Slo = USUAL


def audit(
    listing: Listing,
    span: AuditSpan,
    *,
    memory_bytes: int = MEMORY_BYTES,
    out: Path | None = None,
    report: Report = lambda what, part: None,
) -> dict[str, Any]:
    """Return the summary of the logs; with `out` also write the tables there. Raise `AuditFailed` with the reason if it
    cannot."""
    began = monotonic()
    near = publish.parent(out) if out else None
    evidence, facts = evidence_of(listing, report, Care.QUICK)
    sizes = {one.path: one.size for one in facts}
    unlike: list[str] = []
    while True:
        with database(memory_bytes, near, threads_for(sum(sizes.values()))) as tables:
            report("reading the lines", 0)
            more = load.load(tables, evidence, sizes)
            if not more:
                findings, evidence = _added_up(tables, evidence, span, report)
                evidence = listing.named(evidence)
                run = {
                    "files": len(listing.paths),
                    "bytes": sum(sizes.values()),
                    "seconds": round(monotonic() - began, 3),
                    "duckdb": duckdb.__version__,
                    **listing.filing.about,
                }
                found = summary.build(findings, evidence, span.as_of_ns, "local", run)
                if out:
                    report("writing the tables", 0)
                    publish.publish(tables, evidence, found, out, listing, span.as_of_ns)
                return found
        unlike += more
        evidence = _judged(listing, facts, evidence.authentic, unlike)


def evidence_of(
    listing: Listing, report: Report = lambda what, part: None, care: Care = Care.EXACT
) -> tuple[Evidence, list[FileFacts]]:
    """Return the evidence of the files, and the facts that it rests on."""
    read = 0

    def done(size: int) -> None:
        nonlocal read
        read += 1
        report("checking signatures and digests", read / len(listing.paths))

    facts = read_facts(listing.paths, done, care)
    return _judged(listing, facts), facts


def _judged(
    listing: Listing, facts: Sequence[FileFacts], known: Collection[str] = (), unlike: Collection[str] = ()
) -> Evidence:
    """Judge the files. `unlike`: files with an invalid line, although they are signed."""
    return judge(facts, content, listed=listing.problems, known=known, doubted=unlike, verify=verify)


def _added_up(
    tables: Database, evidence: Evidence, span: AuditSpan, report: Report
) -> tuple[dict[str, Sequence[dict[str, Any]]], Evidence]:
    """Return the findings in the lines that were read, and the evidence including the lines about logs."""
    tables.let(
        as_of_ns=span.as_of_ns,
        since_ns=span.since_ns,
        until_ns=span.until_ns,
        limit_ns=span.slo.limit_ns,
        target_ppm=span.slo.target_ppm,
        grace_ns=GRACE_NS,
        overdue_ns=OVERDUE_NS,
        copy_ns=COPY_NS,
        slack_ns=SLACK_NS,
        via_bytes=VIA_BYTES,
        over_step_ns=OVER_STEP_NS,
        short_s=SHORT_S,
        edges_max=circles.EDGES_MAX,
        leap_min=LEAP_MIN,
    )
    tables.run("SET force_compression = 'uncompressed'")  # Compressing costs more than the disk space gains.
    tables.let(route_events=list(ROUTE_EVENTS), known_events=list(KNOWN_EVENTS), state_events=list(STATE_EVENTS))
    tables.let(change_events=list(CHANGES), never_again=list(NEVER_AGAIN))
    evidence = witnessed(evidence, load.gaps(tables), load.witnesses(tables))
    _note_evidence(tables, evidence)
    _note_clocks(tables)
    for number, table in enumerate(TABLES):
        report("adding up", number / len(TABLES))
        tables.make(f"{table}_of_many" if table == "message_id" and len(evidence.logs) > BITS_OF_ROUTERS else table)
    return _findings(tables, evidence, span.as_of_ns), evidence


def _note_evidence(tables: Database, evidence: Evidence) -> None:
    """Record which logs are complete, which routers were restored, and the holes: a hole makes all lines before its end
    doubtful."""
    tables.run("CREATE TABLE holes_ahead (router INTEGER, first_seq BIGINT, last_seq BIGINT)")
    logs = [*enumerate(evidence.logs)]
    begins, sound = first_holes(evidence), unbroken(evidence)
    columns = {
        "router": [number for number, _ in logs],
        "is_whole": [log.whole for _, log in logs],
        "pruned_to": [log.pruned_to for _, log in logs],
        "is_restored": [log.router in evidence.restored for _, log in logs],
        "hole_seq": [begins.get(log.router, NS_MAX) for _, log in logs],
        "is_unbroken": [log.router in sound for _, log in logs],
    }
    tables.run(
        "UPDATE routers SET is_whole = told.is_whole, pruned_to = told.pruned_to, is_restored = told.is_restored,"
        " hole_seq = told.hole_seq, is_unbroken = told.is_unbroken"
        " FROM (SELECT unnest(?::INTEGER[]) AS router, unnest(?::BOOLEAN[]) AS is_whole,"
        " unnest(?::BIGINT[]) AS pruned_to, unnest(?::BOOLEAN[]) AS is_restored, unnest(?::BIGINT[]) AS hole_seq,"
        " unnest(?::BOOLEAN[]) AS is_unbroken) told WHERE told.router = routers.router",
        [*columns.values()],
    )
    if not evidence.holes:
        return
    for number, log in logs:
        first = NS_MAX
        for hole in sorted(evidence.holes, key=lambda hole: -hole.last_seq):
            if hole.router == log.router:
                first = min(first, hole.first_seq)
                tables.run("INSERT INTO holes_ahead VALUES (?, ?, ?)", [number, first, hole.last_seq])


def _note_clocks(tables: Database) -> None:
    """Record by how much the clock of each router's machine was set while it ran."""
    tables.make("stretch")
    moves = moves_while_up(tables.rows("FROM stretch"))
    tables.run(
        "CREATE TABLE clock_move AS SELECT unnest(?::INTEGER[]) AS router, unnest(?::BIGINT[]) AS ns",
        [
            [*moves],
            [*moves.values()],
        ],
    )


def _findings(tables: Database, evidence: Evidence, as_of_ns: int) -> dict[str, Sequence[dict[str, Any]]]:
    span = tables.find("span")
    windows = summary.windows_of(span[0]["min_minute"], span[0]["max_minute"], as_of_ns)
    tables.let(step=windows.step, first_window=windows.first, last_window=windows.last)
    found: dict[str, Sequence[dict[str, Any]]] = {"span": span} | {name: tables.find(name) for name in FINDINGS}
    if tables.rows("SELECT 1 FROM unsent LIMIT 1"):
        found["unsent"] = tables.find("unsent")
    told = claims(tables, found["reasons"]) + unnamed_reasons(tables, evidence, found["reasons"])
    told += impossible_ends(tables, found["reasons"])
    if tables.rows("SELECT 1 FROM message_id WHERE NOT has_origin LIMIT 1"):
        sound = tables.rows("SELECT key FROM routers WHERE is_whole AND pruned_to = 0")
        told += circles.claims(tables.find("circles"), {row["key"] for row in sound})
    if tables.rows("SELECT 1 FROM message_id WHERE is_unlike LIMIT 1"):
        told += tables.find("unlike")
    return {**found, "claims": told, "unjudged": unjudged(tables)}
