"""One audit by Spark: files to evidence, lines to the layout, tables to findings, findings to the summary."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_analytics.batch.gold.names import named, rows
from spark_analytics.batch.gold.tables import Tables
from spark_analytics.batch.history import write_history
from spark_analytics.batch.local_rows import table_of
from spark_analytics.batch.span import Span
from spark_analytics.judgement import ed25519
from spark_analytics.judgement.conflicts import CLAIMS
from spark_analytics.judgement.evidence import Evidence, judge, witnessed
from spark_analytics.judgement.footer import Verify
from spark_analytics.judgement.log_files import Content, FileFacts, Problem
from spark_analytics.judgement.reached import REACHED
from spark_analytics.judgement.schema import UNLIKE
from spark_analytics.report import finding_table, summary
from spark_analytics.report.page import render

from . import bronze, days, log_ends, run_mark, sealed, silver
from .findings import Rows, find, tally
from .gold.kept import Kept
from .session import ADAPTIVE, FEW_BYTES, prepare
from .writer import Writer

PARTITION_BYTES = 192 << 20
"""Bytes of log in each partition of the layout: some 40 MB compressed, few enough to be sorted in memory."""
PARTITIONS_MAX = 10_000
ROUTERS = "number long, router string"

Report = Callable[[str], None]
"""Callback for progress: gets a short text about the current step."""
ReadFacts = Callable[[SparkSession, Mapping[str, str]], list[FileFacts]]
"""Returns the facts of files (name -> URI), in order of their names."""


@dataclass(frozen=True, slots=True)
class Given:
    """The input of an audit: log files by name, with their URIs; problems with the paths; facts of files that are
    already known. `named` renames files in the evidence for the report, if their paths are not their names; `about` is
    added to the summary's `run`. `check` is called before the last table is written, and may raise."""

    uris: Mapping[str, str]
    problems: Sequence[Problem] = ()
    facts: Sequence[FileFacts] = ()
    named: Callable[[Evidence], Evidence] = lambda evidence: evidence
    about: Mapping[str, Any] = field(default_factory=dict)
    check: Callable[[], None] = lambda: None


def audit(
    spark: SparkSession,
    given: Given,
    span: Span,
    *,
    writer: Writer | None = None,
    raw: bool = False,
    verify: Verify = ed25519.verify,
    read_facts: ReadFacts = bronze.facts_of,
    content: Content | None = None,
    report: Report = lambda what: None,
) -> dict[str, Any]:
    """Return the summary of the logs; with a `writer` also write the tables, with `raw` also the unprocessed lines.
    `content`: returns all bytes of a file by its name, where Spark is not needed to read them."""
    began = time.monotonic()
    prepare(spark)
    report("checking signatures and digests")
    facts = [*read_facts(spark, given.uris), *given.facts]
    size = sum(one.size for one in facts)
    spark.conf.set(ADAPTIVE, str(size >= FEW_BYTES).lower())
    content = content or (lambda name: [bronze.content_of(spark, given.uris[name])])
    tables, words, evidence = _read(spark, given, facts, span, writer, verify, content, report)
    reached: dict[str, Any] = {}
    try:
        if writer:
            report("writing the tables")
            if raw:
                days.write_raw(spark, evidence.files, facts, given.uris, span, writer)
            reached = _write_gold(spark, tables, writer)
        report("adding up")
        findings = find(spark, tables, words, evidence)
    finally:
        tables.forget()
    evidence = given.named(evidence)
    run = {"files": len(facts), "bytes": size, "seconds": round(time.monotonic() - began, 3), "spark": spark.version}
    found = summary.build(findings, evidence, span.as_of_ns, "spark", {**run, **given.about, **reached})
    if writer:
        write_ledger(spark, evidence, found, writer, given.check)
    return found


def audit_and_record(
    spark: SparkSession, given: Given, span: Span, *, writer: Writer | None = None, **options: Any
) -> dict[str, Any]:
    """Audit, with the options of `audit`; with a `writer` also add a row for this run to `audit_history`."""
    found = audit(spark, given, span, writer=writer, **options)
    if writer:
        write_history(spark, found, span, writer)
    return found


def _write_gold(spark: SparkSession, tables: Tables, writer: Writer) -> dict[str, Any]:
    """Write the published tables, and count the messages in `REACHED` by reading them back."""
    reached: dict[str, Any] = {}
    schemas: dict[str, StructType] = {}

    def read(name: str) -> DataFrame:
        return writer.read(spark, name, schemas[name])

    for name, table in chain(tables.gold(), tables.added_up(read)):
        writer.write(name, table)
        schemas[name] = table.schema
        if name == "message":
            reached = _reached(read(name))
    return reached


def _reached(messages: DataFrame) -> dict[str, Any]:
    [counts] = messages.agg(*(F.expr(f"count_if({which})").alias(name) for name, which in REACHED.items())).collect()
    return counts.asDict()


def _read(
    spark: SparkSession,
    given: Given,
    facts: Sequence[FileFacts],
    span: Span,
    writer: Writer | None,
    verify: Verify,
    content: Content,
    report: Report,
) -> tuple[Tables, Rows, Evidence]:
    """Return the tables of the logs, the tally of their lines, and the evidence including the lines about logs.

    If signed files turn out to be invalid, read the others once more.
    """

    names = {bronze.name_of(uri): name for name, uri in given.uris.items()}
    size = sum(one.size for one in facts)
    evidence = judge(facts, content, listed=given.problems, verify=verify)
    unlike: set[str] = set()
    while True:
        report("reading the lines")
        by_key = {log.router: number for number, log in enumerate(evidence.logs)}
        numbers = table_of(spark, [(number, key) for key, number in by_key.items()], ROUTERS)
        parts = silver.parts(evidence.files)
        seals = sealed.numbers_of(evidence.seals, (part.file for part in parts))
        by_uri = {given.uris[path]: number for path, number in seals.items()}
        events = silver.read_events(spark, parts, given.uris, by_key)
        if writer:
            days.write_events(spark, events, span, writer)
            written = writer.read(spark, "events", events.drop("number").schema).drop("date")
            events = silver.numbered(written, numbers)
        events = silver.sealed(events, by_uri)
        tables, words, told = _tables(spark, events, numbers, evidence, span, size, is_published=writer is not None)
        more = {names[bronze.name_of(row["reason"])] for row in words if row["event"] == UNLIKE}
        more |= set(sealed.contradicted(tables.rows, words, tables.times, evidence.seals, seals)) if not more else set()
        if not more:
            return tables, words, told
        tables.forget()
        unlike |= more
        evidence = judge(facts, content, listed=given.problems, known=evidence.authentic, doubted=unlike, verify=verify)


def _tables(
    spark: SparkSession,
    events: DataFrame,
    numbers: DataFrame,
    evidence: Evidence,
    span: Span,
    size: int,
    *,
    is_published: bool,
) -> tuple[Tables, Rows, Evidence]:
    partitions = partitions_for(size)
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    kept = Kept()
    laid = kept.keep(silver.laid_out(silver.compact(events), partitions))
    others = laid.where("other IS NOT NULL").select(*silver.OTHER)
    others = kept.keep(others, StorageLevel.MEMORY_AND_DISK)
    words = rows(named(tally(laid, span), numbers))
    times = sealed.stretches(laid)
    told = log_ends.self_reports(others, numbers)
    evidence = witnessed(evidence, log_ends.gaps(told), log_ends.witnesses(told))
    ends = log_ends.log_ends(evidence, words, told)
    routers = table_of(spark, [(number, *row) for number, row in enumerate(ends)], f"number long, {log_ends.COLUMNS}")
    has_more = any(row["more"] for row in words)
    made = Tables(laid, others, routers, span, has_more, partitions, is_published, kept, times=times)
    return made, words, evidence


def partitions_for(size: int) -> int:
    return max(2, min(PARTITIONS_MAX, -(-size // PARTITION_BYTES)))


def write_ledger(
    spark: SparkSession,
    evidence: Evidence,
    found: dict[str, Any],
    writer: Writer,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Write the tables about the audit itself, the summary and the page; then `check`, and last `audit_run`."""
    for name, (values, schema) in _ledger(evidence, found).items():
        writer.write(name, table_of(spark, values, schema).coalesce(1))
    writer.text(spark, "summary.json", json.dumps(found))
    writer.text(spark, "report.html", render(found))
    check()
    run = [(found["engine"], found["as_of"], found["verdict"], json.dumps(found["run"]))]
    writer.write(run_mark.NAME, table_of(spark, run, run_mark.COLUMNS).coalesce(1))


def _ledger(evidence: Evidence, found: dict[str, Any]) -> dict[str, tuple[list[Any], str]]:
    """Return the tables about the logs, but for `audit_run`: rows and columns."""
    coverage = [(*log[:6], list(log.problems)) for log in evidence.logs]
    quality = [(row["check"], row["router"], row["count"]) for row in found["quality"]]
    quarantine = [
        (*file, [str(problem) for problem in evidence.problems if problem.path == file.path])
        for file in evidence.files
        if file.status in ("bad", "fork", "former", "foreign")
    ]
    claims = [tuple(row[name] for name in CLAIMS) for row in found["claims"]]
    return {
        "log_coverage": (
            coverage,
            "router string, segments long, first_seq long, last_seq long, whole boolean,"
            " pruned_to long, problems array<string>",
        ),
        "data_quality": (quality, "`check` string, router string, count long"),
        "quarantine": (
            quarantine,
            "path string, router string, status string, first_seq long, last_seq long,"
            " lines long, problems array<string>",
        ),
        "claims": (
            claims,
            "claim string, router string, peer string, count long, seq long, file string,"
            " accepted_seq long, accepted_file string, id string",
        ),
        "finding": (
            finding_table.finding_rows(found),
            ", ".join(f"`{name}` {kind}" for name, kind in finding_table.COLUMNS.items()),
        ),
    }
