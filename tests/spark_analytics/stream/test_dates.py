"""A batch writes the dates that it changes of the tables that are written by date, and leaves the others."""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from samples.growing_logs import said
from samples.published_tables import published
from scale.fleet_audit import end_ns
from scale.shaped_logs import DAY_NS, END_NS, Shape, write_shape

from router.audit.engine import AuditSpan, audit
from router.audit.listing import list_logs
from spark_analytics.batch.findings import Rows
from spark_analytics.batch.gold.names import rows
from spark_analytics.batch.span import MINUTE_NS, NS_MAX, Span
from spark_analytics.judgement.slo import USUAL, Slo
from spark_analytics.stream import dates
from spark_analytics.stream.run import run_stream
from spark_analytics.stream.stream_tables import HOURS

pytestmark = pytest.mark.xdist_group("spark")


def test_a_queue_goes_on_from_where_it_was_on_the_dates_before(spark: SparkSession) -> None:
    """Whatever was added and ended, however long ago, and in whichever order a clock that was set has it."""
    lines = [(1, "x", 5, 0, 3), (1, "x", 900, 10, 0), (1, "y", 0, 5, 1), (1, "y", 1_440, 9, 0)]
    table = spark.createDataFrame(lines, "router long, recipient string, minute long, owed long, ended long")
    found = {(row["recipient"], row["minute"], row["owed"]) for row in rows(dates.opening(table, dates.DAY))}
    assert found == {("x", dates.DAY - 1, 7), ("y", dates.DAY - 1, 4)}


def test_an_hour_is_compared_with_the_last_one_a_week_before(spark: SparkSession) -> None:
    """That is where the queue was when the week began, if it did not change since; it is never below none."""
    minute, week = 30 * dates.DAY, 23 * dates.DAY
    hours = [("x", 23, 551, 2), ("x", 24, 552, 3), ("x", 30, 719, 4), ("x", 31, 720, 5)]
    table = spark.createDataFrame(
        [("a", one, hour, open_, f"1970-01-{day:02}") for one, day, hour, open_ in hours],
        "router string, recipient string, hour long, open long, date string",
    )
    older = spark.createDataFrame(
        [("a", one, week - 1, owed) for one, owed in (("x", 2), ("y", -7))],
        "router string, recipient string, minute long, owed long",
    )
    found = rows(dates.a_week_before(table, older, minute))
    assert {(row["recipient"], row["minute"], row["open"]) for row in found} == {
        ("x", week - 1, 2), ("x", 552 * 60, 3), ("x", 719 * 60, 4), ("y", week - 1, 0),
    }  # fmt: skip


def test_links_are_the_same_before_a_date_where_nothing_tells_of_other_times() -> None:
    """The edge lies at the beginning of the eleventh day; 400 days are told of."""
    day_ns = dates.DAY * MINUTE_NS
    since, span = 10 * dates.DAY, Span(20 * day_ns)
    before: dates.Links = {("a", "b", day_ns, 2 * day_ns), ("a", "c", 3 * day_ns, None)}
    for until_ns in (None, 10 * day_ns, 12 * day_ns):
        later = (before - {("a", "c", 3 * day_ns, None)}) | {
            ("a", "c", 3 * day_ns, until_ns),
            ("a", "b", 11 * day_ns, None),
        }
        assert dates.have_same_links(before, later, since, span)
    assert not dates.have_same_links(before, before | {("a", "b", 9 * day_ns, None)}, since, span)
    assert not dates.have_same_links(
        before, {("a", "b", day_ns, 2 * day_ns), ("a", "c", 3 * day_ns, 9 * day_ns)}, since, span
    )
    assert not dates.have_same_links(before, before, since, Span(402 * day_ns)), "the first hours are told of no more"


def test_a_batch_begins_where_its_first_line_is_or_where_the_logs_ended_before(spark: SparkSession) -> None:
    lines = spark.createDataFrame([(5 * dates.DAY * MINUTE_NS,), (None,)], "t long")
    span = Span(9 * dates.DAY * MINUTE_NS)
    for ends, first in (([], 5), ([3 * dates.DAY * MINUTE_NS + 7, 6 * dates.DAY * MINUTE_NS], 3)):
        assert dates.first_of_date([dates.times_of(lines, ends, span)], span) == first * dates.DAY
    assert dates.first_of_date([dates.times_of(lines.where("false"), [], span)], span) == 9 * dates.DAY


def test_all_dates_are_written_where_the_limit_of_a_queue_has_changed() -> None:
    """A router that is new has only rows of this batch."""

    def told(**limits: str) -> Rows:
        return [
            {"router": router, "event": "config", "fields": {"queue_messages_max": said}}
            for router, said in limits.items()
        ]

    assert dates.have_same_limits(told(a="5"), told(a="5", b="6"), ["a"])
    assert not dates.have_same_limits(told(a="5"), told(a="6"), ["a"])
    assert not dates.have_same_limits(told(a="5"), told(a="5", b="6"), ["a", "b"])


def test_all_hours_are_judged_anew_where_a_log_lost_its_end() -> None:
    assert dates.go_on({"a": 5}, {"a": 5, "b": 1})
    assert not dates.go_on({"a": 5, "b": 1}, {"a": 6}), "it is not whole any more"
    assert not dates.go_on({"a": 5}, {"a": 4}), "a clock was set back"


def test_hours_are_judged_anew_from_the_first_that_is_not_judged_for_good(spark: SparkSession) -> None:
    """A log that is not whole judges none of its hours, until it is."""
    lines = [("a", 5, True), ("a", 9, False), ("a", 7, True), ("b", 1, False)]
    table = spark.createDataFrame(lines, "router string, minute long, judged boolean")
    assert dates.first_unjudged(table, {"a": 0}) == 9
    assert dates.first_unjudged(table, {"a": 0, "b": 0}) == 1
    assert dates.first_unjudged(table.where("judged"), {"a": 0}) == NS_MAX


@pytest.mark.long
@pytest.mark.parametrize(("late", "slo"), [(None, USUAL), (10, USUAL), (None, Slo(500_000, 1))])
def test_a_batch_leaves_the_dates_before_its_lines_as_they_are(
    spark: SparkSession, tmp_path: Path, late: int | None, slo: Slo
) -> None:
    """A file that comes late changes its own date and all that follow; until then what it might tell is open, and hours
    are not judged for good. Another service level is measured on all dates."""
    logs, out, local = tmp_path / "logs", tmp_path / "out", tmp_path / "local"
    write_shape(Shape(9_000, routers=3, files=45, days=9), tmp_path / "whole")
    files = sorted((tmp_path / "whole").rglob("events-*.jsonl"), key=end_ns)
    last = [] if late is None else [files.pop(late)]
    day = [path for path in files if end_ns(path) > END_NS - DAY_NS]
    written: list[Written] = []
    for portion, asked in (([path for path in files if path not in day], USUAL), (day, slo), (last, slo)):
        for path in portion:
            target = logs / path.parent.parent.name / path.name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
        found = run_stream(spark, [str(logs)], str(out), as_of=lambda: END_NS, slo=asked)
        assert found is not None and not {"full", "rebuilt"} & set(found["run"])
        assert said(found) == said(audit(list_logs([logs]), AuditSpan(END_NS, slo=asked), out=local))
        for table in {*dates.TABLES, *HOURS}:
            assert published(out, table) == published(local, table), (table, len(written))
        written.append(_files(out))
    for before, after in pairwise(written):
        for table in dates.TABLES:
            kept, new = (
                {date for date, _ in some} for some in (before[table] & after[table], after[table] - before[table])
            )
            assert not kept or not new or max(kept) < min(new), f"{table}: all dates from one on are written anew"
            assert late is not None or slo != USUAL or len(kept) >= 5, table


Written = dict[str, set[tuple[str, int]]]
"""When each date of each table was written."""


def _files(out: Path) -> Written:
    return {
        name: {(path.parent.name, path.stat().st_mtime_ns) for path in (out / name).rglob("*.parquet")}
        for name in dates.TABLES
    }
