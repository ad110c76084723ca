"""Tables that are written by UTC date: a batch writes those from the first date on that it changes, and takes from the
earlier ones what it needs of them.

This holds where the batch before wrote nothing that might still change, no line came late for what was over, and the
limits of queues and the service level are the same; for `link_hour`, where links were up at the times that were known;
for `audit_window`, where each log that was whole is still, and goes on. Else all dates are written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_analytics.batch.findings import Rows
from spark_analytics.batch.local_rows import table_of
from spark_analytics.batch.span import MINUTE_NS, NS_MAX, Span
from spark_analytics.judgement.gold_sql import LINK_NS_MAX

DATE = "date"
DAY = 1440
"""Minutes of a day."""
HOUR = 60
WEEK = 7 * DAY
TABLES = {
    "hop_latency": "minute",
    "queue_minute": "minute",
    "audit_window": "minute",
    "queue_hour": "hour * 60",
    "link_hour": "hour * 60",
    "slo_hour": "hour * 60",
}
"""The tables, each with the SQL of the minute by which its rows are dated."""
AUDIT_WINDOW = "router string, minute long, judged boolean, date string"
QUEUE_HOUR = "router string, recipient string, hour long, open long, date string"
TOPOLOGY = "router string, neighbour string, since_ns long, until_ns long"
KEY = ("router", "recipient")
Links = set[tuple[str, str, int, int | None]]
"""Rows of `topology`."""
Published = Callable[[str, str], DataFrame]
"""Returns a table as the batch before wrote it, by its name and these of its columns."""


def have_same_limits(before: Rows, after: Rows, routers: Iterable[str]) -> bool:
    """Whether the queues of these routers have the limits that they had; `queue_hour` tells the last ones of all hours.
    `before`, `after`: rows of `log_ends.self_reports`."""
    limits = [
        {row["router"]: (row["fields"] or {}).get("queue_messages_max") for row in told if row["event"] == "config"}
        for told in (before, after)
    ]
    return all(limits[0].get(router) == limits[1].get(router) for router in routers)


def dated(name: str, table: DataFrame) -> DataFrame:
    """Return the rows of a table with their date; those of a date are to be written to one file."""
    day = F.expr(f"date_format(date_from_unix_date(cast(({TABLES[name]}) div {DAY} AS int)), 'yyyy-MM-dd')")
    return table.withColumn(DATE, day).repartition(DATE)


def links(topology: DataFrame) -> Links:
    columns = ("router", "neighbour", "since_ns", "until_ns")
    return {(row[0], row[1], row[2], row[3]) for row in topology.select(*columns).collect()}


def have_same_links(before: Links, after: Links, since: int, span: Span) -> bool:
    """Whether links were up at the same times before that minute, so that the hours of `link_hour` before it are the
    same, and no hour is so long ago that the table has it no more."""
    edge_ns = since * MINUTE_NS

    def cut(some: Links) -> Links:
        ended = ((*one[:3], edge_ns if one[3] is None else min(one[3], edge_ns)) for one in some)
        return {one for one in ended if one[2] < edge_ns}

    return cut(before) == cut(after) and all(one[2] >= span.as_of_ns - LINK_NS_MAX for one in after)


def go_on(before: Mapping[str, int], after: Mapping[str, int]) -> bool:
    """Whether each log that was whole is still, and its last line is not earlier than it was. `before`, `after`: the
    times of these lines, by router."""
    return all(end_ns <= after.get(router, -1) for router, end_ns in before.items())


def first_unjudged(earlier: DataFrame, routers: Collection[str]) -> int:
    """Return the first minute of `audit_window` of these routers that is not judged for good; `NS_MAX` if all are.
    `earlier`: the table as the batch before wrote it."""
    firsts = earlier.where("NOT judged").groupBy("router").agg(F.min("minute")).collect()
    return min((int(first) for router, first in firsts if router in routers), default=NS_MAX)


def times_of(lines: DataFrame, ends_ns: Iterable[int], span: Span) -> DataFrame:
    """Return the minutes of the first of these lines, and of the ends that the logs of their routers had before."""
    first = lines.agg(F.min("t").alias("t"))
    ends = table_of(lines.sparkSession, [(end,) for end in ends_ns], "t long")
    return first.unionByName(ends).where("t IS NOT NULL").select(span.minute().alias("minute"))


def first_of_date(tables: Sequence[DataFrame], span: Span) -> int:
    """Return the first minute of the earliest date in these tables; without any rows that of the audit's now."""
    minutes = reduce(DataFrame.union, (table.select("minute") for table in tables))
    [(first,)] = minutes.agg(F.min("minute")).collect()
    return (span.as_of_ns // MINUTE_NS if first is None else int(first)) // DAY * DAY


def before(table: DataFrame, minute: int) -> DataFrame:
    """Return the rows of a table of the dates before that minute."""
    return table.where(F.col(DATE) < _date_of(minute))


def since(table: DataFrame, minute: int) -> DataFrame:
    """Return the rows of a table from that minute on, the first of a date."""
    return table.where(F.col(DATE) >= _date_of(minute))


def _date_of(minute: int) -> Column:
    return F.expr(f"date_format(date_from_unix_date({minute // DAY}), 'yyyy-MM-dd')")


def opening(queues: DataFrame, minute: int) -> DataFrame:
    """Return how long the queues were before that minute, the first of a date, as messages `owed` in the minute before
    it. `queues`: rows of `window_queues`."""
    sums = queues.where(F.col("minute") < minute).groupBy(*KEY).agg(F.sum(F.expr("owed - ended")).alias("owed"))
    return sums.select(*KEY, F.lit(minute - 1).cast("bigint").alias("minute"), "owed")


def a_week_before(hours: DataFrame, older: DataFrame, minute: int) -> DataFrame:
    """Return the hours of queues that those from that minute on are compared with, as rows of `queue_minute`: the week
    before it, and how long each queue was before that. `hours`: `queue_hour` as it was written; `older`: as of
    `opening`, a week before."""
    week = before(since(hours, minute - WEEK), minute).select(*KEY, F.expr(f"hour * {HOUR}").alias("minute"), "open")
    none = F.lit(0).cast("bigint")
    rows = week.unionByName(older.select(*KEY, "minute", F.greatest("owed", none).alias("open")))
    return rows.select(*KEY, "minute", none.alias("added"), none.alias("ended"), "open")
