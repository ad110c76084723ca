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
from spark_analytics.batch.span import MINUTE_NS, Span
from spark_analytics.stream import dates
from spark_analytics.stream.run import run_stream
from spark_analytics.stream.stream_tables import HOURS

pytestmark = pytest.mark.xdist_group("spark")


def test_a_queue_goes_on_from_where_it_was_on_the_dates_before(spark: SparkSession) -> None:
    """Whatever was added and ended, however long ago, and in whichever order a clock that was set has it."""
    lines = [("a", "x", 5, 0, 3), ("a", "x", 900, 10, 0), ("a", "y", 2, 5, 1), ("a", "y", 1_500, 9, 0)]
    table = spark.createDataFrame(
        [(*line, "1970-01-02" if line[2] >= dates.DAY else "1970-01-01") for line in lines],
        "router string, recipient string, minute long, added long, ended long, date string",
    )
    earlier = dates.before(table, dates.DAY)
    found = {(row["recipient"], row["minute"], row["owed"]) for row in rows(dates.opening(earlier, dates.DAY))}
    assert found == {("x", dates.DAY - 1, 7), ("y", dates.DAY - 1, 4)}


def test_an_hour_is_compared_with_the_last_one_a_week_before(spark: SparkSession) -> None:
    since, week = 30 * dates.DAY, dates.WEEK_HOURS
    hours = [("x", 720 - week - 9, 1), ("x", 720 - week - 2, 2), ("x", 720 - week, 3), ("x", 719, 4), ("y", 1, 5)]
    earlier = spark.createDataFrame(
        [("a", *line) for line in hours], "router string, recipient string, hour long, open long"
    )
    found = {(row["recipient"], row["minute"] // 60, row["open"]) for row in rows(dates.a_week_before(earlier, since))}
    assert found == {*hours[1:]}


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


@pytest.mark.long
@pytest.mark.parametrize("late", [None, 10])
def test_a_batch_leaves_the_dates_before_its_lines_as_they_are(
    spark: SparkSession, tmp_path: Path, late: int | None
) -> None:
    """A file that comes late changes its own date and all that follow; until then what it might tell is open."""
    logs, out, local = tmp_path / "logs", tmp_path / "out", tmp_path / "local"
    write_shape(Shape(9_000, routers=3, files=45, days=9), tmp_path / "whole")
    files = sorted((tmp_path / "whole").rglob("events-*.jsonl"), key=end_ns)
    last = [] if late is None else [files.pop(late)]
    day = [path for path in files if end_ns(path) > END_NS - DAY_NS]
    written: list[dict[Path, int]] = []
    for portion in ([path for path in files if path not in day], day, last):
        for path in portion:
            target = logs / path.parent.parent.name / path.name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
        found = run_stream(spark, [str(logs)], str(out), as_of=lambda: END_NS)
        assert found is not None and not {"full", "rebuilt"} & set(found["run"])
        assert said(found) == said(audit(list_logs([logs]), AuditSpan(END_NS), out=local))
        for table in (*dates.TABLES, "audit_window", *HOURS):
            assert published(out, table) == published(local, table), (table, len(written))
        written.append(_files(out))
    for before, after in pairwise(written):
        kept, new = (
            {path.parent.name for path, _ in some}
            for some in (before.items() & after.items(), after.items() - before.items())
        )
        assert not kept or not new or max(kept) < min(new), "all dates from one on are written anew"
        assert late is not None or len(kept) >= 5


def _files(out: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for name in dates.TABLES for path in (out / name).rglob("*.parquet")}
