"""One batch of a stream: the state before and the lines of new files become the tables of now, and the state after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from . import handed, log_ends, silver
from .audit import partitions_for
from .evidence import Evidence, Gap, Witness, witnessed
from .findings import Rows, rows, tally
from .gold import abuse_hour, custody, delivery, hop_latency, pieces, route_change
from .gold.names import named
from .gold.tables import Tables
from .running import PARCEL, Running, Steps, cut_off
from .silver import Part
from .span import Span
from .state import State, Store, added_up

ROW_BYTES = 256
"""About what a row of the state takes in memory."""
NEEDED = f"parcel IS NOT NULL AND (event = 'accepted' OR recipient IS NOT NULL AND event IN {pieces.EVENTS})"
"""Lines that say what became of an accepted message."""
LAID = (
    "router", "parcel", "event", "seq", "t", "mono", "boot", "recipient", "range_first", "range_count", "more_ranges",
    "reason", "count", "link", "depth", "is_old", "accepted",
)  # fmt: skip
TOLD = ("config", "log_gap", *log_ends.EVENTS)


class Rebuild(Exception):
    """What was added up before does not hold any more; the text says why. All files must be read again."""


class Unlike(Exception):
    """Files (`uris`) hold a line that is not as the schema says, though their router signed it: they do not count."""

    def __init__(self, uris: set[str]) -> None:
        super().__init__(", ".join(sorted(uris)))
        self.uris = uris


class NotIncremental(Exception):
    """These logs cannot be added up bit by bit, and the text says why. All of them must be audited at once."""


@dataclass(slots=True)
class Lines:
    """What is read: these parts of files, and how many bytes that is."""

    parts: Sequence[Part]
    uris: Mapping[str, str]
    size: int


@dataclass
class Increment:
    """The tables of now, the evidence with what the lines say, and what is to be written: of the state, and `gold`:
    rows that are final, or that replace such rows of an earlier batch with the same key."""

    base: State
    tables: Running
    words: Rows
    evidence: Evidence
    state: State
    written: dict[str, DataFrame | Rows]
    gold: dict[str, DataFrame]

    def open_units(self) -> DataFrame:
        """The rows of `delivery` that may change yet."""
        tables = self.tables
        units = tables.flagged(tables.units).where("is_open").drop("is_open")
        return delivery.delivery(units, tables.accepted, tables.routers)


def increment(store: Store, base: State, evidence: Evidence, lines: Lines, span: Span) -> Increment:
    return _Batch(store, base, evidence, lines, span).made()


class _Batch:
    """The steps, in order; each leaves what later ones need."""

    def __init__(self, store: Store, base: State, evidence: Evidence, lines: Lines, span: Span) -> None:
        self.store, self.base, self.evidence, self.lines, self.span = store, base, evidence, lines, span
        self.spark: SparkSession = store.spark
        keys = [log.router for log in evidence.logs]
        if len({handed.number_of(key) for key in keys}) < len(keys):
            raise NotIncremental("two routers have keys that begin alike")
        self.numbers = handed.numbers(self.spark, keys)
        self.partitions = partitions_for(lines.size + ROW_BYTES * base.open_rows)
        self.spark.conf.set("spark.sql.shuffle.partitions", str(self.partitions))

    def made(self) -> Increment:
        self._lay_out()
        self._tell()
        self._look_for_repeated_parcels()
        past = {name: self.past(name) for name in ("units", "waits", "lines", "custody")}
        late = self._late()
        for name, more in late.items():
            if name in past:
                past[name] = past[name].unionByName(more)
        given: dict[str, DataFrame] = {}
        self.tables = Running(
            self.rows, self.told, self.routers, self.span, False, self.has_more, self.partitions, [], past, given
        )
        given |= self._changes()
        written: dict[str, DataFrame | Rows] = dict(self.new)
        written |= self._ids(given)
        closed = self.tables.closed()
        for name, more in late.items():
            closed[name] = closed[name].unionByName(more) if name in closed else more
        rows_closed = self.rows.join(self.tables.open_parcels, list(PARCEL), "left_anti").select(*LAID)
        closed["closed"] = rows_closed.unionByName(late["closed"]) if late else rows_closed
        delivered = late.pop("delivery", None)
        closed.pop("delivery", None)
        written |= closed
        written["open"] = self.rows.join(self.tables.open_parcels, list(PARCEL), "left_semi").select(*LAID)
        written["words"] = self.words
        units = self.tables.flagged(self.tables.units).where("NOT is_open").drop("is_open")
        units = delivery.delivery(units, self.tables.accepted, self.tables.routers)
        state = replace(
            self.base, as_of_ns=self.span.as_of_ns, has_more=self.has_more,
            messages=self.base.messages + self.news.messages,
            accepted_again=self.base.accepted_again + self.news.accepted_again,
            is_ahead=any(row["future"] for row in self.words),
            routers=tuple(sorted({*self.base.routers, *(log.router for log in self.evidence.logs)})),
        )  # fmt: skip
        units = units.unionByName(delivered) if delivered is not None else units
        units = units.withColumn("hole_first", F.lit(None).cast("bigint"))  # No hole concerns what has its ends.
        gold = {"delivery": units, "route_change": self.route_changes}
        return Increment(self.base, self.tables, self.words, self.evidence, state, written, gold)

    def past(self, table: str) -> DataFrame:
        return self.store.read(self.base, table)

    def _lay_out(self) -> None:
        """New lines and those of open parcels, a parcel's side by side."""
        new = silver.compact(silver.read_events(self.spark, self.lines.parts, self.lines.uris), self.numbers)
        new = new.select(*LAID, "other", F.lit(True).alias("is_new"))
        before = self.past("open").withColumn("is_new", F.lit(False))
        self.laid = cut_off(silver.laid_out(new.unionByName(before, allowMissingColumns=True), self.partitions))

    def _tell(self) -> None:
        """What lines say without a look at parcels: counts, and what routers wrote down about themselves."""
        new = self.laid.where("is_new")
        found = rows(named(tally(new, self.span.as_of_ns), self.numbers))
        if unlike := {row["reason"] for row in found if row["event"] == silver.UNLIKE}:
            raise Unlike(unlike)
        if any(row["old"] for row in found if row["event"] in pieces.EVENTS):
            raise NotIncremental("some lines are of an older router and do not name their parcel")
        self.has_more = self.base.has_more or any(row["more"] for row in found)
        self.words = merged([*rows(self.past("words")), *found])
        self.others = cut_off(
            new.where("other IS NOT NULL").select("router", "event", "seq", "t", "count", "reason", "other")
        )
        told = self.others.where(F.col("event").isin(*TOLD))
        heads = named(self.others.where("event = 'link'"), self.numbers).selectExpr(
            "router", "other.fields['peer'] AS peer", "try_cast(other.fields['head_seq'] AS bigint) AS head_seq",
            "other.fields['head_digest'] AS head_digest",
        )  # fmt: skip
        witnesses = rows(heads.dropna().distinct())
        self.new: dict[str, DataFrame | Rows] = {"told": told, "witnesses": witnesses}
        self.told = self.past("told").unionByName(told)
        gaps = named(self.told, self.numbers).where("event = 'log_gap' AND other.fields['missing'] IS NOT NULL")
        self.evidence = witnessed(
            self.evidence,
            [Gap(*row) for row in gaps.select("router", "seq", "other.missing").collect()],
            {Witness(**row) for row in (*rows(self.past("witnesses")), *witnesses)},
        )
        ends = log_ends.log_ends(self.evidence, self.words, self.told, self.numbers)
        numbered = [(handed.number_of(str(row[0])), *row) for row in ends]
        self.routers = self.spark.createDataFrame(numbered, f"number long, {log_ends.COLUMNS}")

    def _look_for_repeated_parcels(self) -> None:
        """An arrival number is given once: the files of a router hold stretches of them that do not overlap."""
        starts: dict[str, list[int]] = {}
        for part in self.lines.parts:
            starts.setdefault(part.router, []).append(part.first_seq)
        given = [(handed.number_of(router), sorted(found)) for router, found in starts.items()]
        ends = F.broadcast(self.spark.createDataFrame(given, "router long, starts array<long>"))
        lines = self.laid.where("is_new AND event = 'accepted' AND parcel IS NOT NULL AND accepted.n > 0")
        start = F.expr("array_max(filter(starts, start -> start <= seq))").alias("start")
        by_file = lines.join(ends, "router", "inner").groupBy("router", start).agg(
            F.min("parcel").alias("low"), F.max(F.expr("parcel + accepted.n - 1")).alias("high"),
            F.count("*").alias("lines"), F.count_distinct("parcel").alias("parcels"),
        )  # fmt: skip
        found = rows(named(by_file, self.numbers))
        new = [{name: row[name] for name in ("router", "low", "high")} for row in found]
        spans: dict[str, list[tuple[int, int]]] = {}
        for row in (*rows(self.past("stretches")), *new):
            spans.setdefault(row["router"], []).append((row["low"], row["high"]))
        for router, own in spans.items():
            own.sort()
            if any(one[1] >= other[0] for one, other in pairwise(own)):
                raise NotIncremental(f"two files of {router} give the same arrival numbers")
        if any(row["lines"] != row["parcels"] for row in found):
            raise NotIncremental("a file gives an arrival number twice")
        self.new["stretches"] = new

    def _late(self) -> dict[str, DataFrame]:
        """What late lines change in parcels that were closed: differences of the tables that add up, and the rows
        themselves. Leaves in `rows` all others."""
        self.rows = self.laid.where(NEEDED)
        if not self.base.parts.get("closed"):
            return {}
        is_line = F.col("event") == "accepted"
        alone = self.rows.groupBy(*PARCEL).agg(F.max(is_line).alias("has_line"), F.max("is_new").alias("is_new"))
        strays = cut_off(alone.where("is_new AND NOT has_line").select(*PARCEL))
        [(count, low, high)] = strays.agg(F.count("*"), F.min("parcel"), F.max("parcel")).collect()
        if not count:
            return {}
        near = self.past("closed").where(F.col("parcel").between(low, high))
        old = cut_off(near.join(F.broadcast(strays), list(PARCEL), "left_semi"))
        again = F.broadcast(cut_off(old.select(*PARCEL).distinct()))
        if again.isEmpty():
            return {}
        late = cut_off(self.rows.join(again, list(PARCEL), "left_semi").select(*LAID))
        self.rows = self.rows.join(again, list(PARCEL), "left_anti")
        passed = old.where("event = 'acked'").select(*PARCEL, "recipient")
        ends = late.where("event IN ('delivered', 'acked')")
        if (
            not ends.where("event = 'acked'").isEmpty()
            or not ends.join(passed, [*PARCEL, "recipient"], "left_semi").isEmpty()
        ):
            raise Rebuild("a late segment holds acknowledgements of messages that had an end already")
        return self._differences(old, late)

    def _differences(self, old: DataFrame, late: DataFrame) -> dict[str, DataFrame]:
        def tables(found: DataFrame) -> Tables:
            return Steps(
                found, self.told, self.routers, self.span, False, self.has_more, self.partitions, []
            )  # fmt: skip

        before, after = tables(old), tables(old.unionByName(late))
        less = before.unit_windows.withColumns({name: -F.col(name) for name in (*delivery.SUMS, "strays")})
        units = after.unit_windows.unionByName(less).withColumn("hole_first", F.lit(None).cast("bigint"))
        ranges = pieces.outward(late, self.has_more)
        waits = hop_latency.waits(pieces.pieces(ranges, after.accepted, self.routers, self.span, False))
        return {
            "units": cut_off(added_up("units", units)), "waits": cut_off(waits), "closed": late,
            "delivery": delivery.delivery(after.units, after.accepted, self.routers),
        }  # fmt: skip

    def _changes(self) -> dict[str, DataFrame]:
        """Of changes and abuse, the whole tables; their new part is to be written."""
        self.route_changes = route_change.route_change(self.others, self.numbers, self.span)
        self.new["changes"] = cut_off(
            self.route_changes.groupBy("router", "minute", "event", "subject").agg(F.count("*").alias("changes"))
        )
        self.new["abuse"] = cut_off(abuse_hour.abuse_hour(self.others, self.numbers, self.span))
        return {
            name: added_up(name, self.past(name).unionByName(self.new[name]))  # type: ignore[arg-type]
            for name in ("changes", "abuse")
        }

    def _ids(self, given: dict[str, DataFrame]) -> dict[str, DataFrame | Rows]:
        """Which ids are new, and what became of what was handed on."""
        tables, base = self.tables, self.base
        arrivals = cut_off(handed.arrivals(self.laid.where("is_new")))
        acked = tables.waits_now.where(F.col("code") == pieces.EVENTS.index("acked"))
        takers = [row.recipient for row in acked.select("recipient").distinct().collect()]
        now = cut_off(handed.taken(tables, takers)) if takers else handed.none_handed(self.spark)
        here, beyond = handed.of_takers(now, self.routers)
        newcomers = {log.router for log in self.evidence.logs} - {*base.routers}
        waiting = self.past("waiting")
        if base.parts.get("beyond") and newcomers:
            waiting = waiting.unionByName(
                handed.of_takers(self.past("beyond"), handed.numbers(self.spark, newcomers))[0]
            )
        known, unknown = handed.of_takers(waiting, self.routers)
        all_ids = self.past("ids")
        wanted = arrivals.select("id").unionByName(here.select("id")).unionByName(known.select("id"))
        hits = handed.asked(all_ids, wanted, self.lines.size // ROW_BYTES) if base.parts.get("ids") else all_ids
        accepted_id = cut_off(handed.accepted_id(arrivals, hits))
        self.news = handed.news(accepted_id)
        if self.news.early:
            raise Rebuild("a late segment accepts messages earlier than another did that was counted")
        past = self.past("custody")
        met = cut_off(custody.met(here.unionByName(known), accepted_id))
        handover = custody.judged(met, handed.clock(past, met), self.routers)
        handover = cut_off(tables.flagged(handover))
        given["handover"] = handover
        given["custody"] = handed.custody_table(past, handover, self.routers)
        messages, again = base.messages + self.news.messages, base.accepted_again + self.news.accepted_again
        given["distinct"] = self.spark.createDataFrame([(messages, again)], "messages long, accepted_again long")
        rest = handover.where("custody <> 'followed' AND NOT is_open").select(*handed.HANDED)
        written: dict[str, DataFrame | Rows] = {
            "ids": arrivals, "waiting": rest.unionByName(unknown), "custody": handed.followed(handover),
        }  # fmt: skip
        if takers:
            written["beyond"] = tables.flagged(beyond).where("NOT is_open").select(*handed.HANDED)
        if again:
            written["again"] = self._again(given, accepted_id, all_ids.unionByName(arrivals))
        return written

    def _again(self, given: dict[str, DataFrame], accepted_id: DataFrame, ids: DataFrame) -> DataFrame:
        """All rows of the parcels of ids that a router accepted more than once."""
        before = self.past("again")
        known = cut_off(before.select(*PARCEL).distinct())
        found = before.unionByName(
            self.laid.where(f"is_new AND {NEEDED}").join(known, list(PARCEL), "left_semi").select(*LAID)
        )
        if self.news.accepted_again:
            parcels = handed.accepted_twice(accepted_id, ids).join(known, list(PARCEL), "left_anti")
            everything = self.laid.where(NEEDED).select(*LAID).unionByName(self.past("closed"))
            found = found.unionByName(everything.join(F.broadcast(parcels), list(PARCEL), "left_semi"))
        found = cut_off(found)
        tables = Steps(found, self.told, self.routers, self.span, False, self.has_more, self.partitions, [])
        given["repeats"] = tables.repeats
        return found


def merged(words: Rows) -> Rows:
    """The rows of `tally` with those of one router, event and reason as one."""
    found: dict[tuple[object, ...], dict[str, Any]] = {}
    for row in words:
        key = row["router"], row["event"], row["reason"]
        if key not in found:
            found[key] = dict(row)
            continue
        one = found[key]
        one |= {name: one[name] + row[name] for name in ("lines", "count", "future", "old", "more")}
        one["latest_t"] = max((t for t in (one["latest_t"], row["latest_t"]) if t is not None), default=None)
        if row["first_seq"] < one["first_seq"]:
            one |= {name: row[name] for name in ("first_seq", "first_t")}
        if row["last_seq"] > one["last_seq"]:
            one |= {name: row[name] for name in ("last_seq", "last_t")}
    return list(found.values())
