"""All tables of one audit, each made on first use, from the layout of `silver.compact`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_analytics.batch.gold import (
    abuse_hour,
    accepted,
    audit_window,
    custody,
    delivery,
    flow,
    hop_latency,
    message,
    pieces,
    queue_minute,
    route_change,
)
from spark_analytics.batch.gold.kept import Kept
from spark_analytics.batch.gold.names import named, rows
from spark_analytics.batch.local_rows import table_of
from spark_analytics.batch.span import Span
from spark_analytics.judgement import gold_sql
from spark_analytics.judgement.clock_moves import moves_while_up
from spark_analytics.report.summary import Windows, windows_of

GOLD = (
    "delivery", "message", "hop_latency", "queue_minute", "route_change", "abuse_hour", "custody", "audit_window",
)  # fmt: skip


class NotIncremental(Exception):
    """These logs cannot be audited incrementally, for the reason in the text; all of them must be audited at once."""


@dataclass(frozen=True)
class Tables:
    """The tables of an audit. `rows`: the layout; `others`: its lines without a recipient; `has_more`: there are lines
    with several ranges; `is_published`: the tables are wanted, not only the summary; `times`: rows of
    `sealed.stretches`.

    `routers`: `number`, key `router`, `is_whole`, `pruned_to`, `start_ns`, `end_ns`, `holes`, the last start
    (`run_seq`), the time since which the clock is set (`settled_ns`, `is_doubted`), and `open_links`. Tables used more
    than once are kept on disk until `forget`.
    """

    rows: DataFrame
    others: DataFrame
    routers: DataFrame
    span: Span
    has_more: bool
    partitions: int
    is_published: bool
    kept: Kept
    times: Sequence[dict[str, Any]] = field(default=(), kw_only=True)
    is_whole: ClassVar[bool] = True
    """Whether `rows` holds all lines."""

    def forget(self) -> None:
        self.kept.forget()

    @cached_property
    def everything(self) -> Tables:
        """Return the tables of all lines about accepted messages."""
        return self

    @cached_property
    def clock_moves(self) -> DataFrame:
        """Return by how many nanoseconds each router's wall clock moved against its monotonic one: `router`, `ns`."""
        spans: dict[int, list[int]] = {}
        for row in self.times:
            edges = (row["min_apart_ns"], row["max_apart_ns"])
            spans.setdefault(row["router"], []).extend(edge for edge in edges if edge is not None)
        found = [(router, max(edges) - min(edges)) for router, edges in spans.items() if edges]
        return table_of(self.rows.sparkSession, found, "router long, ns long")

    @cached_property
    def accepted(self) -> DataFrame:
        return self.kept.keep(accepted.accepted(self.rows, self.routers, self.span))

    @cached_property
    def owed(self) -> DataFrame:
        return accepted.owed(self.accepted)

    @cached_property
    def pieces(self) -> DataFrame:
        ranges = pieces.outward(self.rows, self.has_more)
        return self.kept.keep(pieces.pieces(ranges, self.accepted, self.routers, self.span))

    @cached_property
    def blocks(self) -> DataFrame:
        return delivery.blocks(self.pieces, self.owed)

    @cached_property
    def units(self) -> DataFrame:
        return delivery.units(self.blocks)

    @cached_property
    def unit_windows(self) -> DataFrame:
        return self.kept.keep(delivery.by_window(self.blocks, step=self.step))

    @cached_property
    def waits(self) -> DataFrame:
        return self.kept.keep(hop_latency.waits(self.pieces, step=self.step))

    @cached_property
    def ended(self) -> DataFrame:
        return self.kept.keep(queue_minute.ended(self.pieces, step=self.step))

    @property
    def window_units(self) -> DataFrame:
        """Return `unit_windows` as the summary needs them: rows may have one key, of which some take units back, and a
        recipient only where units are pending."""
        return self.unit_windows

    @property
    def window_waits(self) -> DataFrame:
        """Return `waits` by `minute`, for the summary."""
        return self.waits

    @property
    def hop_waits(self) -> DataFrame:
        """Return `waits` by router, and by recipient where it acknowledged, for the summary."""
        return self.waits

    @property
    def window_queues(self) -> DataFrame:
        """Return `queues` as the summary needs them: as they are at the end of its windows."""
        return self.queues

    @property
    def odd_ends(self) -> DataFrame:
        """Return the sums of `ended` that are about single ends, by router: `outside` and `early`."""
        return self.ended

    @cached_property
    def queues(self) -> DataFrame:
        return self.kept.keep(queue_minute.queues(self.ended, self.unit_windows))

    @cached_property
    def accepted_id(self) -> DataFrame:
        return self.kept.keep(custody.accepted_id(self.accepted, self.routers, self.partitions))

    @cached_property
    def handover(self) -> DataFrame:
        taken = custody.taken(self.pieces, self.accepted, self.routers, self.partitions)
        met = self.kept.keep(custody.met(taken, self.accepted_id))
        return custody.judged(met, custody.clock(met, self.routers), self.routers, moves_while_up(self.times))

    @cached_property
    def custody(self) -> DataFrame:
        return custody.custody(self.handover, self.routers)

    @property
    def lines(self) -> DataFrame:
        """Return the messages accepted (`n`), and copies among them, by router, with the `first` and `last` minute of
        acceptance."""
        edges = F.min("minute").alias("first"), F.max("minute").alias("last")
        return self.accepted.where("is_within").groupBy("router").agg(*accepted.counted(), *edges)

    @cached_property
    def sums_of_lines(self) -> list[dict[str, Any]]:
        """Return the rows of `lines`, with the routers' keys."""
        return rows(named(self.lines, self.routers))

    @cached_property
    def first_and_last(self) -> tuple[int | None, int | None]:
        """Return the first and last minute of the audit's time span in which messages were accepted."""
        firsts, lasts = ([row[name] for row in self.sums_of_lines] for name in ("first", "last"))
        return min(firsts, default=None), max(lasts, default=None)

    @cached_property
    def windows(self) -> Windows:
        """Return the windows of the summary."""
        return windows_of(*self.first_and_last, self.span.as_of_ns)

    @property
    def step(self) -> int:
        """Return how many minutes are summed together: published tables have each minute by itself."""
        return 1 if self.is_published else self.windows.step

    @cached_property
    def distinct(self) -> DataFrame:
        return custody.distinct_id(self.accepted_id)

    @cached_property
    def repeats(self) -> DataFrame:
        return custody.repeated_delivery(self.pieces, self.accepted, self.accepted_id)

    @cached_property
    def changes(self) -> DataFrame:
        """Count route changes (`changes`) by router, minute, event and subject."""
        return self.route_change.groupBy("router", "minute", "event", "subject").agg(F.sum("changes").alias("changes"))

    @cached_property
    def route_change(self) -> DataFrame:
        return route_change.route_change(self.others, self.routers, self.span)

    @cached_property
    def abuse_hour(self) -> DataFrame:
        return abuse_hour.abuse_hour(self.others, self.routers, self.span)

    @cached_property
    def link_lines(self) -> DataFrame:
        return self.kept.keep(flow.link_line(self.others, self.routers, self.span))

    @cached_property
    def stops(self) -> DataFrame:
        made = message.stops(
            self.pieces, self.accepted, self.handover, self.routers, self.span.as_of_ns, self.partitions
        )
        return self.kept.keep(made)

    def added_up(self, read: Callable[[str], DataFrame]) -> Iterator[tuple[str, DataFrame]]:
        """Yield the tables of `gold_sql`, by name, each to be written before the next is made. `read`: returns a table
        as it was written."""
        stop = message.stop(self.stops)
        sources = {
            "log_span": flow.log_span(self.routers, self.span),
            "link_line": self.link_lines,
            "clock_step": self.kept.keep(flow.clock_step(self.others, self.routers, self.span)),
            "arrival": self.kept.keep(flow.arrival(self.accepted, self.routers)),
            "handed": flow.handed(self.pieces, self.accepted, self.link_lines, self.routers, self.span),
            "reason": flow.reason(self.rows, self.routers, self.span),
            "served": flow.served(self.others, self.routers, self.span),
            "queue_limit": flow.queue_limit(self.others, self.routers),
            "passed_on": flow.passed_on(self.handover, self.routers, self.span),
            "stop": stop,
            "way": flow.way(stop, read("custody"), self.routers),
            "log_key": F.broadcast(self.routers.select("number", F.col("router").alias("key"))),
        }
        for name, text in gold_sql.TEXTS.items():
            found = {one: read(one) for one in gold_sql.WRITTEN if f"{{{one}}}" in text}
            yield name, flow.made(name, sources | found, self.span)

    def gold(self) -> Sequence[tuple[str, DataFrame]]:
        """Return the published tables, by name."""
        made = {
            "delivery": delivery.delivery(self.units, self.accepted, self.routers),
            "message": message.message(self.stops),
            "hop_latency": hop_latency.hop_latency(self.waits, self.routers),
            "queue_minute": queue_minute.queue_minute(self.queues, self.routers),
            "route_change": self.route_change,
            "abuse_hour": self.abuse_hour,
            "custody": self.custody,
            "audit_window": audit_window.audit_window(self.unit_windows, self.routers),
        }
        return [(name, made[name]) for name in GOLD]
