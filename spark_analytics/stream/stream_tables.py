"""The tables of a stream at one batch: open parcels are judged anew, closed ones were summed by earlier batches.

A parcel is closed when each of its messages has an end at each of its recipients. No line changes that, so its sums
stay and it is not judged again, unless a late line names it (`increments`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_analytics.batch.gold import accepted, delivery, flow, hop_latency, queue_minute
from spark_analytics.batch.gold.names import named
from spark_analytics.batch.gold.tables import Tables
from spark_analytics.batch.span import MINUTE_NS
from spark_analytics.judgement import gold_sql

from . import dates
from .state import added_up

PARCEL = ("router", "parcel")
HOURS = (
    "reason_hour", "group_hour", "topology", "link_hour", "service_hour", "custody_hour", "queue_hour", "slo_hour",
)  # fmt: skip
"""The tables of `gold_sql` that a stream keeps: those that are made of sums and of the lines about links, in the order
in which they are made."""


@dataclass(frozen=True)
class Running(Tables):
    """The rows from which a batch's tables are made. `rows`: those of open and new parcels; `past`: the sums of earlier
    batches for the same tables; `given`: whole tables made elsewhere; `published`: as of `dates`, None if all dates are
    to be written."""

    past: Mapping[str, DataFrame]
    given: Mapping[str, DataFrame]
    published: dates.Published | None = field(default=None, kw_only=True)
    is_whole: ClassVar[bool] = False

    @cached_property
    def everything(self) -> Tables:
        """Return the tables of all lines about accepted messages, those of closed parcels too, made anew."""
        others, routers = self.others, self.routers
        return Tables(self.given["every"], others, routers, self.span, self.has_more, self.partitions, True, self.kept)

    @cached_property
    def clock_moves(self) -> DataFrame:
        span = F.expr("max(t - mono) - min(t - mono)").alias("ns")
        return self.kept.keep(self.given["clock"].groupBy("router").agg(span))

    @cached_property
    def blocks(self) -> DataFrame:
        """Return `delivery.blocks` with `is_open`: whether the parcel is open."""
        whole = Window.partitionBy(*PARCEL)
        rest = F.sum(F.col("unknown") + F.col("pending") + F.col("unaccounted")).over(whole)
        is_open = (rest > 0) | (F.max("owed").over(whole) == 0)
        return self.kept.keep(delivery.blocks(self.pieces, self.owed).withColumn("is_open", is_open))

    @cached_property
    def open_parcels(self) -> DataFrame:
        """Return the parcels with a message that has no end, and those whose accepted line is not here."""
        has_line = F.max(F.col("event") == "accepted").alias("has_line")
        alone = self.rows.groupBy(*PARCEL).agg(has_line).where("NOT has_line")
        return self.kept.keep(self.blocks.where("is_open").select(*PARCEL).union(alone.select(*PARCEL)).distinct())

    def flagged(self, table: DataFrame) -> DataFrame:
        """Return the table with a column `is_open` for its parcels."""
        marks = self.open_parcels.withColumn("open", F.lit(True))
        found = table.join(marks, list(PARCEL), "left")
        return found.withColumn("is_open", F.coalesce("open", F.lit(False))).drop("open")

    @cached_property
    def unit_windows_now(self) -> DataFrame:
        return self.kept.keep(delivery.by_window(self.blocks, "is_open"))

    @cached_property
    def waits_now(self) -> DataFrame:
        return self.kept.keep(hop_latency.waits(self.flagged(self.pieces), "is_open"))

    @cached_property
    def ended_now(self) -> DataFrame:
        return self.kept.keep(queue_minute.ended(self.flagged(self.pieces), "is_open"))

    @cached_property
    def lines_now(self) -> DataFrame:
        sums = self.flagged(self.accepted).groupBy("router", "minute", "is_open").agg(*accepted.counted())
        return self.kept.keep(sums)

    @cached_property
    def arrivals_now(self) -> DataFrame:
        return self.kept.keep(flow.arrivals(self.flagged(self.accepted), "is_open"))

    @cached_property
    def readers_now(self) -> DataFrame:
        return self.kept.keep(flow.readers(self.flagged(self.units), self.accepted, "is_open"))

    @cached_property
    def written_now(self) -> DataFrame:
        return self.kept.keep(flow.written(self.flagged(self.pieces), self.accepted, self.span, "is_open"))

    @cached_property
    def unit_windows(self) -> DataFrame:
        """Return the units by minute; with their recipient only those that are pending, as nothing else asks for it."""
        holes = F.broadcast(self.routers.select(F.col("number").alias("router"), "holes"))
        is_there = "exists(holes, hole -> hole.first_seq = hole_first)"
        narrow = {
            "recipient": F.expr("CASE WHEN pending > 0 THEN recipient END"),
            "due_ns": F.expr("CASE WHEN owed > 0 THEN due_ns END"),
        }
        units = added_up("units", self._both("units", self.unit_windows_now).withColumns(narrow))
        units = units.join(holes, "router", "inner")
        hole_first = F.expr(f"CASE WHEN {is_there} THEN hole_first END")
        return self.kept.keep(units.withColumn("hole_first", hole_first).drop("holes"))

    @cached_property
    def waits(self) -> DataFrame:
        return self._both("waits", self.waits_now)

    @cached_property
    def ended(self) -> DataFrame:
        return self._both("ended", self.ended_now)

    @cached_property
    def since(self) -> int | None:
        """Return the first minute of the first date that the batch changes; None if all dates are to be written."""
        if self.published is None:
            return None
        hours = self.written_now.select(F.expr(f"hour * {dates.HOUR}").alias("minute"))
        sums = (self.unit_windows_now, self.waits_now, self.ended_now, self.lines_now, hours, self.given["times"])
        return dates.first_of_date(sums, self.span)

    def _changed(self, table: DataFrame) -> DataFrame:
        return table if self.since is None else table.where(F.col("minute") >= self.since)

    def _unchanged(self, name: str, columns: str) -> DataFrame:
        """Return the rows of a table of the dates that the batch does not change."""
        assert self.published is not None and self.since is not None
        return dates.before(self.published(name, columns), self.since)

    @cached_property
    def queues(self) -> DataFrame:
        if self.since is None:
            return self._queues_now
        earlier = self._numbered(self._unchanged("queue_minute", dates.QUEUE_MINUTE))
        return self._queues_now.unionByName(earlier)

    @cached_property
    def _queues_now(self) -> DataFrame:
        """Return the queues of the dates that the batch changes."""
        ended, units = (self._changed(table) for table in (self.ended, self._both("units", self.unit_windows_now)))
        units = units.select(*dates.KEY, "minute", "owed")
        if self.since is not None:
            opening = dates.opening(self._unchanged("queue_minute", dates.QUEUE_MINUTE), self.since)
            units = units.unionByName(self._numbered(opening))
        return self.kept.keep(self._changed(queue_minute.queues(ended, units)))

    def _numbered(self, table: DataFrame) -> DataFrame:
        """Return the table with its column `router` as number instead of key."""
        keys = F.broadcast(self.routers.select("number", "router"))
        return table.join(keys, "router", "inner").drop("router").withColumnRenamed("number", "router")

    def by_date(self) -> dict[str, DataFrame]:
        """Return of the tables that are written by date, but for `queue_hour`, the dates that the batch changes."""
        return {
            "hop_latency": hop_latency.hop_latency(self._changed(self.waits), self.routers),
            "queue_minute": queue_minute.queue_minute(self._queues_now, self.routers),
        }

    @cached_property
    def lines(self) -> DataFrame:
        return self._with_past("lines", self.lines_now)

    def _with_past(self, name: str, now: DataFrame) -> DataFrame:
        return added_up(name, self._both(name, now))

    def _both(self, name: str, now: DataFrame) -> DataFrame:
        """Return the rows of earlier batches and of this one, of which several may have one key."""
        return self.past[name].unionByName(now.drop("is_open"))

    def closed(self) -> dict[str, DataFrame]:
        """Return the final rows of the summed tables."""
        tables = {
            "units": self.unit_windows_now,
            "waits": self.waits_now,
            "ended": self.ended_now,
            "lines": self.lines_now,
            "arrivals": self.arrivals_now,
            "readers": self.readers_now,
            "written": self.written_now,
        }
        found = {name: table.where("NOT is_open").drop("is_open") for name, table in tables.items()}
        found["units"] = added_up("units", without_holes(found["units"]))
        return found

    @cached_property
    def distinct(self) -> DataFrame:
        return self.given["distinct"]

    @cached_property
    def repeats(self) -> DataFrame:
        return self.given["repeats"]

    @cached_property
    def changes(self) -> DataFrame:
        return self.given["changes"]

    @cached_property
    def abuse_hour(self) -> DataFrame:
        return self.given["abuse"]

    @cached_property
    def handover(self) -> DataFrame:
        return self.given["handover"]

    @cached_property
    def custody(self) -> DataFrame:
        return self.given["custody"]

    def hours(self, read: Callable[[str], DataFrame]) -> Iterator[tuple[str, DataFrame, int | None]]:
        """Yield the tables in `HOURS`, by name, each with the first minute of the dates that it has, None for all.
        `read`: returns a table as it was written."""
        links_before = None if self.published is None else dates.links(self.published("topology", dates.TOPOLOGY))
        sources = {
            "reason": self.given["reasons"],
            "served": self.given["served"],
            "passed_on": self.given["passed_on"],
            "queue_limit": flow.queue_limit(self.others, self.routers),
            "log_span": flow.log_span(self.routers, self.span),
            "link_line": self.kept.keep(flow.link_line(self.given["links"], self.routers, self.span)),
            "clock_step": self.kept.keep(flow.clock_step(self.given["links"], self.routers, self.span)),
            "arrival": self.kept.keep(self._of_all("arrivals", self.arrivals_now)),
            "handed": self._of_all("written", self.written_now),
            "delivery": self._multicasts(),
            "abuse_hour": self.abuse_hour,
        }
        for name in HOURS:
            wanted = [one for one in gold_sql.WRITTEN if f"{{{one}}}" in gold_sql.TEXTS[name] and one not in sources]
            found = sources | {one: read(one) for one in wanted}
            since = self.since if name in dates.TABLES else None
            if name == "link_hour" and not self._has_links_as(links_before, read("topology"), sources["link_line"]):
                since = None
            if since is None:
                yield name, flow.made(name, found, self.span), None
                continue
            if name == "queue_hour":
                week = dates.a_week_before(self._unchanged("queue_hour", dates.QUEUE_HOUR), since)
                now = queue_minute.queue_minute(self._queues_now, self.routers).select(*week.columns)
                found["queue_minute"] = self.kept.keep(now.unionByName(week))  # The text reads it four times.
            span = replace(self.span, since_ns=max(self.span.since_ns, since * MINUTE_NS))
            yield name, flow.made(name, found, span).where(F.col("hour") >= since // dates.HOUR), since

    def _has_links_as(self, before: dates.Links | None, topology: DataFrame, lines: DataFrame) -> bool:
        """Whether links were the same before the dates that the batch changes as they were told before the batch."""
        if before is None or self.since is None:
            return False
        linked = lines.where("event <> 'start'").select("router", "peer").distinct().collect()
        is_known = {(row[0], row[1]) for row in linked} <= {(row[0], row[1]) for row in before}
        return is_known and dates.have_same_links(before, dates.links(topology), self.since, self.span)

    def _of_all(self, name: str, now: DataFrame) -> DataFrame:
        """Return the sums of all batches and of the open parcels, with the routers' keys."""
        return named(self._with_past(name, now), self.routers)

    def _multicasts(self) -> DataFrame:
        """Return the columns of `delivery` that `group_hour` reads, added up by the hour."""
        return self._of_all("readers", self.readers_now).select(
            "router",
            F.expr("hour * 60").alias("minute"),
            F.lit("multicast").alias("kind"),
            F.col("group_key").alias("signer"),
            *("recipient", "owed", "delivered", "acked"),
        )


def without_holes(units: DataFrame) -> DataFrame:
    """Return sums of closed parcels without the holes that may come after them: these have nothing unknown. A hole is
    kept where it may hold the line that a message was written."""
    return units.withColumn("hole_first", F.expr(f"CASE WHEN {delivery.UNWRITTEN} <> 0 THEN hole_first END"))
