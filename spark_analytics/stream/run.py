"""The run of a stream: batch after batch of new segments, with the same tables and the same summary after each.

One file stream names the new segments; each batch starts from the state of the one before (`state`), which is kept
below `out` with the checkpoint. A batch that was killed is repeated and overwrites what it had written.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from spark_analytics.batch import audit, bronze
from spark_analytics.batch.findings import find
from spark_analytics.batch.gold.tables import NotIncremental
from spark_analytics.batch.history import write_history
from spark_analytics.batch.kept_rows import is_here
from spark_analytics.batch.local_rows import no_rows
from spark_analytics.batch.session import interpreted, prepare
from spark_analytics.batch.silver import Part
from spark_analytics.batch.span import Span
from spark_analytics.batch.writer import Writer
from spark_analytics.judgement import ed25519
from spark_analytics.judgement.evidence import Evidence
from spark_analytics.judgement.footer import Verify
from spark_analytics.judgement.slo import USUAL, Slo
from spark_analytics.report import summary
from spark_analytics.report.finding import utc
from spark_analytics.report.page import render
from spark_analytics.stream import dates
from spark_analytics.stream.alarm_book import SEGMENT_S, AlarmBook, taken_in
from spark_analytics.stream.door_and_clock import settled_after
from spark_analytics.stream.increments import Increment, Rebuild, Unlike, increment
from spark_analytics.stream.listed import Listed
from spark_analytics.stream.named_files import NamedFiles
from spark_analytics.stream.notify import Notifier
from spark_analytics.stream.sizes import has_few_lines, has_few_sums, is_told_by_few
from spark_analytics.stream.state import State, Store
from spark_analytics.stream.stopped import alone, ending, stopped_by

FILES = "path string, modificationTime timestamp, length long, content binary"
NAMES = "*.{jsonl,jsonl.zst}"
"""The names of files that may be of a log."""
EVER = "36500d"
"""The largest age of a file: a late one counts however old it is."""
LOOK_S = 1
"""Seconds between two checks whether a stream is to stop."""
Clock = Callable[[], int]
"""Returns the time of the audit, in ns."""
Report = Callable[[str], None]


def run_stream(
    spark: SparkSession,
    paths: Sequence[str],
    out: str,
    *,
    every_s: float | None = None,
    as_of: Clock = time.time_ns,
    files_max: int | None = None,
    verify: Verify = ed25519.verify,
    report: Report = lambda what: None,
    is_over: Callable[[], bool] = lambda: False,
    notify: str | None = None,
    segment_s: float = SEGMENT_S,
    slo: Slo = USUAL,
) -> dict[str, Any] | None:
    """Audit the new files in these directories: once, or every `every_s` seconds until the query is stopped.

    Return the last summary, if there is one. `files_max`: the most new files in a batch; `is_over`: asked now and then
    whether to stop; `notify`: a command that is told of each alarm; `segment_s`: the age at which the nodes close a
    segment; `slo`: what `slo_hour` measures. Raises `Stopped` and `NotifyError`.
    """
    prepare(spark)
    stream = Stream(spark, paths, out, as_of, verify, report, slo, Listed(every_s, files_max))
    found = reduce(DataFrame.unionByName, (_source(spark, path, files_max) for path in stream.paths))
    with (
        alone(stream.out),
        stopped_by(stream.out, lambda: stream.failure),
        _alarms(stream, notify, segment_s) as alarms,
        ending(is_over),
    ):
        began_ns = as_of()
        query = _started(stream, found, every_s)
        try:
            while not query.awaitTermination(LOOK_S) and not is_over():
                alarms.look(stream.listed.all_ns(query.status, time.monotonic(), as_of()))
        finally:
            query.stop()
        alarms.look(began_ns if every_s is None and not is_over() else None)
        return stream.recorded() or latest(spark, out)
    return None


def _started(stream: Stream, found: DataFrame, every_s: float | None) -> StreamingQuery:
    trigger: dict[str, Any] = {"availableNow": True} if every_s is None else {"processingTime": f"{every_s} seconds"}
    writer = found.writeStream.foreachBatch(stream.take).trigger(**trigger)
    return writer.option("checkpointLocation", f"{stream.out}/checkpoint").start()


@contextmanager
def _alarms(stream: Stream, notify: str | None, segment_s: float) -> Iterator[AlarmBook]:
    notifier = None if notify is None else Notifier(notify, stream.report, taken=taken_in(stream.out))
    stream.alarms = alarms = AlarmBook(stream.spark, stream.out, notifier, segment_s, stream.report)
    try:
        yield alarms
    finally:
        alarms.close()


def latest(spark: SparkSession, out: str) -> dict[str, Any] | None:
    """Return the summary in `out`; None if there is none."""
    try:
        lines = spark.read.text(f"{out.rstrip('/')}/summary.json").collect()
    except AnalysisException as error:
        if "PATH_NOT_FOUND" not in str(error):
            raise
        return None
    return dict(json.loads(lines[0].value)) if lines else None


def _source(spark: SparkSession, path: str, files_max: int | None) -> DataFrame:
    reader = spark.readStream.format("binaryFile").schema(FILES)
    reader = reader.option("recursiveFileLookup", True).option("pathGlobFilter", NAMES).option("maxFileAge", EVER)
    if files_max is not None:
        reader = reader.option("maxFilesPerTrigger", files_max)
    try:
        return reader.load(path).select(F.col("_metadata.file_path").alias("uri"))
    except AnalysisException as error:
        if "PATH_NOT_FOUND" not in str(error):
            raise
        said = f"there is nothing at {path}: name the log directory of a node, or a directory above several"
        raise bronze.NothingToRead(said) from None


class Stream:
    """The stream: takes batch after batch; all lasting data is below `out`."""

    def __init__(
        self,
        spark: SparkSession,
        paths: Sequence[str],
        out: str,
        as_of: Clock,
        verify: Verify,
        report: Report,
        slo: Slo,
        listed: Listed,
    ) -> None:
        self.spark = spark
        self.paths = [path if "://" in path else os.path.abspath(path) for path in paths]  # noqa: PTH100
        self.out = out.rstrip("/")
        self.store = Store(spark, self.out)
        self.writer = Writer(self.out, is_by_python=True)
        self.summary: dict[str, Any] | None = None
        self.failure: Exception | None = None
        self.alarms: AlarmBook | None = None
        self.span = Span(0, slo=slo)
        self._as_of = as_of
        self.listed = listed
        self.verify = verify
        self.report = report

    def __repr__(self) -> str:
        return f"<the audit of {', '.join(self.paths)} as it grows, in {self.out}>"

    def recorded(self) -> dict[str, Any] | None:
        """Return the last summary, with a row for this run added to `audit_history`; None if there was no batch."""
        if self.summary is not None:
            write_history(self.spark, self.summary, self.span, self.writer)
        return self.summary

    def take(self, batch: DataFrame, number: int) -> None:
        """Take one batch: the names of new files. An error is kept in `failure`: Spark loses most of it, and overflows
        its stack where it looks through the text of one of Java's."""
        try:
            self._take(batch, number)
        except Exception as error:
            self.failure = error
            raise RuntimeError(f"batch {number} failed") from None

    def _take(self, batch: DataFrame, number: int) -> None:
        began = time.monotonic()
        span = self.span = replace(self.span, as_of_ns=self._as_of())
        base = self.store.base(number)
        self.store.clear(base.unused)
        found = {bronze.name_of(row.uri): row.uri for row in batch.collect()}
        files = NamedFiles(self.spark, self.paths, self.store.ledger(base), found, self.verify)
        has_all = self.listed.has_all(len(files.new))
        self.report(f"batch {number}: {len(files.new)} new files of {len(files.facts)}")
        run = {"files": len(files.facts), "bytes": files.size, "spark": self.spark.version, "batch": number}
        told = None
        while told is None:
            try:
                told = self._taken(base, files, span, number, run)
            except Unlike as reason:
                self.report(f"some lines are not as the schema says, and their files do not count: {reason}")
                files.doubt(map(bronze.name_of, reason.uris))
        told["run"]["seconds"] = round(time.monotonic() - began, 3)
        self.summary = told
        if self.alarms is not None:
            self.alarms.take(told, files.heads(), number, span.as_of_ns, has_all=has_all)
        if "://" not in self.out:
            (Path(self.out) / "page.html").write_text(render(told), "utf-8")
        self.report(f"batch {number}: {told['verdict']} after {told['run']['seconds']} s")

    def _taken(self, base: State, files: NamedFiles, span: Span, number: int, run: dict[str, Any]) -> dict[str, Any]:
        """Return the summary: made from the previous state if that holds, else from all files, incrementally if
        possible."""
        try:
            if base.full:
                raise NotIncremental(base.full)
            try:
                if why := _outdated(base, span, files):
                    raise Rebuild(why)
                found, evidence = self._grown(base, files, span, number, run)
            except Rebuild as reason:
                run["rebuilt"] = str(reason)
                self.report(f"everything is read again: {reason}")
                unused = tuple(sorted({part for parts in base.parts.values() for part in parts}))
                found, evidence = self._grown(State(unused=unused), files, span, number, run)
                self.store.clear(part for part in unused if not part.startswith("state/"))
        except NotIncremental as reason:
            run["full"] = str(reason)
            self.report(f"all logs are audited at once: {reason}")
            found = self._full(base, files, span, number, str(reason))
            found["run"] |= run
            return found
        audit.write_ledger(self.spark, evidence, found, self.writer)
        return found

    def _grown(
        self, base: State, files: NamedFiles, span: Span, number: int, run: Mapping[str, Any]
    ) -> tuple[dict[str, Any], Evidence]:
        """Write the steady rows and return the summary, which also counts those that may still change."""
        steady, passing = files.split(base, span)
        is_by_date = is_here(self.out) and not (base.batch < 0 or base.is_passing or passing or self.store.was_begun)
        lines = replace(files.lines(steady), published=self._published if is_by_date else None)
        later = files.lines(passing)
        has_few = has_few_lines(lines.size + later.size, base.rows)
        with interpreted(self.spark, has_few):
            made = increment(self.store, base, files.evidence, lines, span)
            state = self._keep(made, files, steady, number, is_passing=bool(passing))
            units = made.open_units()
            if passing:
                is_turned = made.is_turned
                made = increment(self.store, state, files.evidence, later, span)
                made.is_turned |= is_turned
                units = made.open_units().unionByName(made.gold["delivery"])
        with interpreted(self.spark, has_few and has_few_sums(made.state.messages)):
            return self._said(made, units, span, run, has_few=has_few), made.evidence

    def _keep(
        self, made: Increment, files: NamedFiles, steady: Sequence[Part], number: int, *, is_passing: bool
    ) -> State:
        store = self.store
        notes = made.ledger | files.notes(steady, is_fresh=made.base.batch < 0)
        state = store.note_down(replace(made.state, batch=number, is_passing=is_passing), notes)
        state = store.add(store.add(state, made.added), made.suspects, "suspects")
        for table, rows in made.written.items():
            state = store.write(state, table, rows)
        for table, rows in made.gold.items():
            state = store.publish(state, table, rows)
        unused = made.base.unused if made.base.batch < 0 else ()
        with interpreted(self.spark, has_few_sums(state.messages)):
            settled = made.tables.settled | {"turned": partial(settled_after, made.tables)}
            state = store.fold(replace(state, unused=unused), settled)
        store.commit(state)
        return state

    def _said(
        self, made: Increment, units: DataFrame, span: Span, run: Mapping[str, Any], *, has_few: bool
    ) -> dict[str, Any]:
        """Return the summary, and write the tables that are written whole; `units`: the rows of `delivery` that may
        still change; `has_few`: as of `has_few_lines`."""
        tables = made.tables
        whole = {"delivery_open": units, "custody": tables.custody}
        if made.is_turned:
            whole["abuse_hour"] = tables.abuse_hour
        for name, table in whole.items():
            self._write(name, table, None)
        for name, (table, since) in tables.by_date().items():
            self._write(name, table, since)
            whole[name] = table
        for name, table, since in tables.hours(lambda one: self.writer.read(self.spark, one, whole[one].schema)):
            self._write(name, table, since)
            whole[name] = table
        with interpreted(self.spark, has_few and is_told_by_few(made.state.messages)):
            told = made.told()
        findings = find(self.spark, tables, made.words, made.evidence, told)
        return summary.build(findings, made.evidence, span.as_of_ns, "spark", run)

    def _write(self, name: str, table: DataFrame, since: int | None) -> None:
        """Write a table whole; of one by date, if `since` is not None, the dates that the table has."""
        if name not in dates.TABLES:
            self.writer.write(name, table)
        elif since is None:
            self.writer.write(name, dates.dated(name, table), dates.DATE)
        else:
            self.writer.replace(name, dates.dated(name, table), dates.DATE)

    def _published(self, name: str, columns: str) -> DataFrame:
        return self.spark.read.schema(columns).parquet(self.writer.place(name))

    def _full(self, base: State, files: NamedFiles, span: Span, number: int, why: str) -> dict[str, Any]:
        """Audit all logs at once; the state then holds only which files there are."""
        given = audit.Given(files.uris, files.listed)
        found = audit.audit(self.spark, given, span, writer=self.writer, verify=self.verify)
        # All rows are in `delivery` now, also those that may still change.
        none = no_rows(self.spark, self.spark.read.parquet(self.writer.place("delivery")).schema)
        self.writer.write("delivery_open", none.coalesce(1))
        state = State(number, span.as_of_ns, full=why, parts={"ledger": base.parts.get("ledger", ())})
        self.store.commit(self.store.fold(self.store.note_down(state, files.notes((), is_fresh=False))))
        return found


def _outdated(base: State, span: Span, files: NamedFiles) -> str:
    """Return why earlier sums are no longer right; "" if they are."""
    if base.batch < 0:
        return ""
    if span.as_of_ns < base.as_of_ns:
        return f"the audit's now is {utc(span.as_of_ns)}, before that of the batch before"
    if base.is_ahead and span.as_of_ns != base.as_of_ns:
        return "lines were counted whose time had not come, against what their segment's footer says"
    if gone := sorted(files.counted - files.good.keys()):
        router, first, last, _ = gone[0]
        return f"events {first} to {last} of {router} were counted and do not count any more, as later files show"
    return ""
