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

from spark_analytics.batch.gold import accepted, audit_window, delivery, flow, hop_latency, queue_minute
from spark_analytics.batch.gold.names import named
from spark_analytics.batch.gold.tables import Tables
from spark_analytics.batch.span import MINUTE_NS
from spark_analytics.judgement import gold_sql

from . import dates, window_sums
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
    to be written; `ends`: the time of the last line of each log that is whole, before the batch and now."""

    past: Mapping[str, DataFrame]
    given: Mapping[str, DataFrame]
    published: dates.Published | None = field(default=None, kw_only=True)
    ends: tuple[Mapping[str, int], Mapping[str, int]] = field(default=({}, {}), kw_only=True)
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
        return self._both("units", self.unit_windows_now)

    @cached_property
    def waits(self) -> DataFrame:
        return self._both("waits", self.waits_now)

    @cached_property
    def ended(self) -> DataFrame:
        return self._both("ended", self.ended_now)

    @cached_property
    def window_units(self) -> DataFrame:
        """Return the units for the summary, without holes that are none any more. Only those of open parcels, of which
        some may be pending, have their recipient."""
        holes = F.broadcast(self.routers.select(F.col("number").alias("router"), "holes"))
        is_there = "exists(holes, hole -> hole.first_seq = hole_first)"
        now = self.unit_windows_now.drop("is_open", "due_ns")
        units = self.past["window_units"].unionByName(now, allowMissingColumns=True).join(holes, "router", "inner")
        hole_first = F.expr(f"CASE WHEN {is_there} THEN hole_first END")
        return self.kept.keep(units.withColumn("hole_first", hole_first).drop("holes"))

    @cached_property
    def window_queues(self) -> DataFrame:
        """Return the queues at the end of each window: within one the order of rows tells nothing."""
        past, key = self.past["window_queues"], ("router", "recipient", "minute")
        ended = past.select(*key, "ended", "depth_max").unionByName(self.ended_now.select(*key, "ended", "depth_max"))
        owed = past.select(*key, "owed").unionByName(self.unit_windows_now.select(*key, "owed"))
        return queue_minute.queues(ended, owed)

    @cached_property
    def window_waits(self) -> DataFrame:
        past = self.past["window_waits"]
        return past.unionByName(self.waits_now.select(*past.columns))

    @cached_property
    def hop_waits(self) -> DataFrame:
        past = self.past["hop_waits"]
        return past.unionByName(self.waits_now.select(*past.columns))

    @cached_property
    def odd_ends(self) -> DataFrame:
        columns = ("router", "outside", "early")
        return self.past["router_sums"].select(*columns).unionByName(self.ended_now.select(*columns))

    @property
    def lines(self) -> DataFrame:
        past = self.past["router_sums"]
        sums = added_up("router_sums", past.unionByName(window_sums.of_lines(self.lines_now)))
        return sums.where("n IS NOT NULL")

    @cached_property
    def since(self) -> int | None:
        """Return the first minute of the first date that the batch changes; None if all dates are to be written."""
        if self.published is None:
            return None
        hours = self.written_now.select(F.expr(f"hour * {dates.HOUR}").alias("minute"))
        sums = (self.unit_windows_now, self.waits_now, self.ended_now, self.lines_now, hours, self.given["times"])
        return dates.first_of_date(sums, self.span)

    @cached_property
    def since_judged(self) -> int | None:
        """Return the first minute of the first date of `audit_window` that the batch changes: also where a log has come
        to the time at which everything was due, or has not any more."""
        if self.published is None or self.since is None or not dates.go_on(*self.ends):
            return None
        first = dates.first_unjudged(self.published("audit_window", dates.AUDIT_WINDOW), self.ends[1])
        return min(self.since, first // dates.DAY * dates.DAY)

    def _changed(self, table: DataFrame) -> DataFrame:
        return _from(table, self.since)

    @cached_property
    def _queues_now(self) -> DataFrame:
        """Return the queues of the dates that the batch changes."""
        ended, units = (self._changed(table) for table in (self.ended, self._both("units", self.unit_windows_now)))
        units = units.select(*dates.KEY, "minute", "owed")
        if self.since is not None:
            units = units.unionByName(dates.opening(self.past["window_queues"], self.since))
        return self.kept.keep(self._changed(queue_minute.queues(ended, units)))

    def by_date(self) -> dict[str, tuple[DataFrame, int | None]]:
        """Return of the tables by the minute the dates that the batch changes, each with the first of their minutes,
        None for all."""
        units = _from(self.unit_windows, self.since_judged)
        return {
            "hop_latency": (hop_latency.hop_latency(self._changed(self.waits), self.routers), self.since),
            "queue_minute": (queue_minute.queue_minute(self._queues_now, self.routers), self.since),
            "audit_window": (audit_window.audit_window(units, self.routers), self.since_judged),
        }

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
        found["units"] = without_holes(found["units"])
        sums = window_sums.of_closed(found, found.pop("lines"), self._grain)
        found["units"] = added_up("units", found["units"])
        return found | sums

    @property
    def _grain(self) -> int:
        return window_sums.grain_of(self.windows.step)

    @property
    def settled(self) -> dict[str, Callable[[DataFrame], DataFrame]]:
        """Return what the sums of earlier batches become as they are folded."""
        return window_sums.settled(self._grain)

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
            if name == "slo_hour":
                found |= {one: dates.since(found[one], since) for one in wanted}
            if name == "queue_hour":
                week = self._a_week_before(since)
                now = queue_minute.queue_minute(self._queues_now, self.routers).select(*week.columns)
                found["queue_minute"] = self.kept.keep(now.unionByName(week))  # The text reads it four times.
            span = replace(self.span, since_ns=max(self.span.since_ns, since * MINUTE_NS))
            yield name, flow.made(name, found, span).where(F.col("hour") >= since // dates.HOUR), since

    def _a_week_before(self, since: int) -> DataFrame:
        assert self.published is not None
        older = named(dates.opening(self.past["window_queues"], since - dates.WEEK), self.routers)
        return dates.a_week_before(self.published("queue_hour", dates.QUEUE_HOUR), older, since)

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


def _from(table: DataFrame, since: int | None) -> DataFrame:
    """Return the rows from that minute on, all without one."""
    return table if since is None else table.where(F.col("minute") >= since)


def without_holes(units: DataFrame) -> DataFrame:
    """Return sums of closed parcels without the holes that may come after them: these have nothing unknown. A hole is
    kept where it may hold the line that a message was written."""
    return units.withColumn("hole_first", F.expr(f"CASE WHEN {delivery.UNWRITTEN} <> 0 THEN hole_first END"))
