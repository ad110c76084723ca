"""One batch of a stream: from the state before and the lines of new files to the present tables and the state after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_analytics.batch import claim_findings, log_ends, sealed, silver
from spark_analytics.batch.conflict_findings import given, given_once
from spark_analytics.batch.findings import Rows, tally
from spark_analytics.batch.gold import (
    abuse_hour,
    custody,
    delivery,
    flow,
    pieces,
    route_change,
)
from spark_analytics.batch.gold.accepted import arrivals_twice
from spark_analytics.batch.gold.kept import CutOff, cut_off
from spark_analytics.batch.gold.names import named, rows
from spark_analytics.batch.gold.tables import NotIncremental, Tables
from spark_analytics.batch.judged_claims import change_of, pong_of, unjudged
from spark_analytics.batch.local_rows import table_of
from spark_analytics.batch.session import ADAPTIVE, interpreted
from spark_analytics.batch.silver import Part
from spark_analytics.batch.span import Span
from spark_analytics.judgement.chain import Summed
from spark_analytics.judgement.evidence import Evidence, first_holes, witnessed
from spark_analytics.judgement.schema import NOTED, ROUTE_EVENTS, STATE_EVENTS, TURNED_EVENTS, UNLIKE

from . import dates, door_and_clock, handovers, late_lines, ledger, links, window_sums
from .door_and_clock import DoorAndClock, moves_of
from .judged_once import BatchLines, judged_to
from .recipients import Recipients
from .sizes import PARTITIONS_FEW, ROW_BYTES, has_few_lines, has_few_sums, partitions_of
from .state import State, Store, added_up, names_of
from .stream_tables import PARCEL, Running
from .two_logs import TwoLogs

NEEDED = f"parcel IS NOT NULL AND (event = 'accepted' OR recipient IS NOT NULL AND event IN {pieces.EVENTS})"
"""Lines about the fate of accepted messages."""
LAID = (
    "router", "parcel", "event", "seq", "t", "mono", "boot", "recipient", "range_first", "range_count", "more_ranges",
    "reason", "count", "link", "depth", "accepted",
)  # fmt: skip
OF_LINKS = ("router", "event", "seq", "other")
CONFIG = "router long, event string, seq long, other struct<fields:map<string,string>,ids:string>"
OF_PARCELS = ("units", "waits", "ended", *window_sums.TABLES, "arrivals", "readers", "written", "custody")
"""The sums of closed parcels."""
MORE = ("is_new", "start", "taker")
"""The columns by which the stream's tally groups in addition to those of `findings`."""
SIDE_BY_SIDE = (
    "low", "high", "given", "marks", "numbers", "number_marks", "sealed_lines", "sealed_count", "min_t", "max_t",
)  # fmt: skip
"""The columns about arrival numbers and event numbers, which are checked batch by batch."""


class Rebuild(Exception):
    """Earlier sums are no longer right, for the reason in the text; all files must be read again."""


class Unlike(Exception):
    """Signed files (`uris`) hold an invalid line, so they do not count."""

    def __init__(self, uris: set[str]) -> None:
        super().__init__(", ".join(sorted(uris)))
        self.uris = uris


@dataclass(slots=True)
class Lines:
    """The input of a batch: parts of files, and how many bytes these files have; `published`: as of `dates`, None if
    all dates are to be written."""

    parts: Sequence[Part]
    uris: Mapping[str, str]
    size: int
    published: dates.Published | None = None


@dataclass
class Increment:
    """The present tables, the evidence including the lines about logs, and the rows to write: `ledger`, `added`,
    `suspects`, and other tables of the state; and `gold`: rows that are final, or that replace rows of an earlier batch
    with the same key. `is_turned`: there are lines for `abuse_hour`, or that was never written."""

    base: State
    tables: Running
    words: Rows
    evidence: Evidence
    state: State
    ledger: dict[str, Rows]
    added: dict[str, DataFrame]
    suspects: dict[str, DataFrame]
    written: dict[str, DataFrame]
    gold: dict[str, DataFrame]
    is_turned: bool
    two_logs: TwoLogs
    recipients: Recipients
    door_and_clock: DoorAndClock

    def told(self) -> dict[str, Rows]:
        """Return what logs tell of each other, as `findings.find` takes it."""
        is_barred = any(row["event"] == "pubsub_barred" for row in self.words)
        barred = rows(self.tables.given["barred"]) if is_barred else []
        told = self.two_logs.told(self.recipients, self.door_and_clock)
        return {"barred": barred, **told, "unjudged": unjudged(self.recipients.change, self.tables, self.words)}

    def open_units(self) -> DataFrame:
        """Return the rows of `delivery` that may still change."""
        tables = self.tables
        units = tables.flagged(tables.units).where("is_open").drop("is_open")
        return delivery.delivery(units, tables.accepted, tables.routers)


def increment(store: Store, base: State, evidence: Evidence, lines: Lines, span: Span) -> Increment:
    return _Batch(store, base, evidence, lines, span).made()


class _Batch:
    """The steps of a batch, in order; each sets the fields that later ones need."""

    def __init__(self, store: Store, base: State, evidence: Evidence, lines: Lines, span: Span) -> None:
        self.store, self.base, self.evidence, self.lines, self.span = store, base, evidence, lines, span
        self.spark: SparkSession = store.spark
        keys = [log.router for log in evidence.logs]
        if len({handovers.number_of(key) for key in keys}) < len(keys):
            raise NotIncremental("two routers have keys that begin alike")
        self.numbers = handovers.numbers(self.spark, keys)
        self.partitions = partitions_of(lines.size + ROW_BYTES * base.rows)
        self.spark.conf.set("spark.sql.shuffle.partitions", str(self.partitions))
        self.spark.conf.set(ADAPTIVE, str(self.partitions > PARTITIONS_FEW).lower())
        self.before = store.ledger(base)
        self.starts = links.starts(self.spark, lines.parts)

    def made(self) -> Increment:
        self._lay_out()
        self._tell()
        self._look_for_strays()
        late = self._late()
        given: dict[str, DataFrame] = {}
        self.tables = tables = self._running(late, given)
        added = self._changes(given)
        every = self.past("closed").unionByName(self.rows.select(*LAID))
        given["every"] = every.unionByName(late["closed"]) if late else every
        older = self.past("closed").unionByName(self.laid.where("NOT is_new").select(*LAID))
        recipients = self.recipients = self._recipients(older, given["links"])
        written = self._ids(given, added, older, late.pop("gone", None))
        added |= self.two_logs.added()
        for name, table in tables.closed().items():
            added[name] = table.unionByName(late[name]) if name in late else table
        closed = self.rows.join(tables.open_parcels, list(PARCEL), "left_anti").select(*LAID)
        written["closed"] = closed.unionByName(late["closed"]) if late else closed
        if self._has_new((*STATE_EVENTS, *links.NOTED, "refused")):
            written["links"] = self.new_links
        written["open"] = self.rows.join(tables.open_parcels, list(PARCEL), "left_semi").select(*LAID)
        return Increment(
            self.base,
            tables,
            self.words,
            self.evidence,
            self._state_after(),
            self.new,
            added,
            self.two_logs.suspects() | recipients.suspects(),
            written,
            self._gold(late),
            self.base.batch < 0
            or self._has_new(TURNED_EVENTS)
            or any(row["event"].endswith(NOTED) for row in self.new["words"]),
            self.two_logs,
            recipients,
            DoorAndClock(self.past, tables, self.words, self.own, recipients.change, pong_of(given["links"])),
        )

    def _running(self, late: dict[str, DataFrame], given: dict[str, DataFrame]) -> Running:
        """Return the present tables. `given`: filled by later steps."""
        self.new_links = cut_off(links.kept(self.others, self.starts))
        given["links"] = cut_off(self.past("links").unionByName(self.new_links))
        ends_ns = ledger.ends_ns(self.before["words"], self.new["words"])
        given["times"] = dates.times_of(self.laid.where("is_new"), ends_ns, self.span)
        past = {one: self.past(one).unionByName(late[one]) if one in late else self.past(one) for one in OF_PARCELS}
        return Running(
            self.rows,
            self.configs.unionByName(given["links"].where(F.col("event").isin(*links.EVENTS)).select(*OF_LINKS)),
            self.routers,
            self.span,
            self.has_more,
            self.partitions,
            True,
            CutOff(),
            past,
            given,
            published=self.lines.published if self.has_same_limits and not late else None,
            ends=(self.base.ends, self.ends),
        )

    def _gold(self, late: dict[str, DataFrame]) -> dict[str, DataFrame]:
        """Return the published rows that are final."""
        tables = self.tables
        units = tables.flagged(tables.units).where("NOT is_open").drop("is_open")
        units = delivery.delivery(units, tables.accepted, tables.routers)
        units = units.unionByName(late["delivery"]) if late else units
        # A hole does not matter to messages that have their ends.
        gold = {"delivery": units.withColumn("hole_first", F.lit(None).cast("bigint"))}
        if self._has_new(ROUTE_EVENTS) or self.base.batch < 0:
            gold["route_change"] = self.route_changes
        return gold

    def _state_after(self) -> State:
        return replace(
            self.base,
            as_of_ns=self.span.as_of_ns,
            has_more=self.has_more,
            takers=self.takers,
            judged=self.judged,
            rows=sum(row["lines"] for row in self.tallied),
            messages=self.base.messages + self.news.messages,
            accepted_again=self.base.accepted_again + self.news.accepted_again,
            is_ahead=any(row["future"] for row in self.words),
            is_unlike=self.base.is_unlike or self.news.unlike > 0,
            routers=tuple(sorted({*self.base.routers, *(log.router for log in self.evidence.logs)})),
            ends=self.ends,
            slo=self.span.slo,
        )

    def past(self, table: str) -> DataFrame:
        return self.store.read(self.base, table)

    def _has_new(self, events: Sequence[str]) -> bool:
        return any(row["event"] in events for row in self.new["words"])

    def _lay_out(self) -> None:
        """Lay out the new lines and those of open parcels, the lines of a parcel side by side."""
        lines, keys = self.lines, (part.router for part in self.lines.parts)
        numbers = {key: handovers.number_of(key) for key in keys}
        new = silver.compact(silver.read_events(self.spark, lines.parts, lines.uris, numbers))
        new = new.select(*LAID, "other", F.lit(True).alias("is_new"))
        before = self.past("open").withColumn("is_new", F.lit(False))
        self.laid = cut_off(silver.laid_out(new.unionByName(before, allowMissingColumns=True), self.partitions))

    def _tell(self) -> None:
        """Compute everything that does not need parcels: counts, and the routers' events about themselves."""
        self.tallied = _tally(self.laid, self.starts, self.numbers, self.span)
        found = [row for row in self.tallied if row["is_new"]]
        if unlike := {row["reason"] for row in found if row["event"] == UNLIKE}:
            raise Unlike(unlike)
        _compare_with_footers(found, self.evidence, self.lines)
        self.has_more = self.base.has_more or any(row["more"] for row in found)
        self.takers = tuple(sorted({*self.base.takers, *(row["taker"] for row in self.tallied if row["taker"])}))
        others = self.laid.where("is_new AND other IS NOT NULL")
        self.others = cut_off(others.select(*silver.OTHER))
        self.new: dict[str, Rows] = {
            "words": ledger.merged_words(
                {name: row[name] for name in row if name not in (*MORE, *SIDE_BY_SIDE)} for row in found
            ),
            "told": log_ends.self_reports(self.others, self.numbers),
            "stretches": _stretches(found, self.before["stretches"], self.laid),
        }
        after = ledger.joined(self.before, self.new)
        self.words, told = after["words"], after["told"]
        self.has_same_limits = self.span.slo == self.base.slo and dates.have_same_limits(
            self.before["told"], told, self.base.routers
        )
        self.evidence = witnessed(self.evidence, log_ends.gaps(told), log_ends.witnesses(told))
        ends = log_ends.log_ends(self.evidence, self.words, told)
        self.ends = log_ends.ends_of_whole(ends)
        numbered = [(handovers.number_of(str(row[0])), *row) for row in ends]
        self.routers = table_of(self.spark, numbered, f"number long, {log_ends.COLUMNS}")
        configs = [row for row in told if row["event"] in ("config", "alarm")]
        self.configs = table_of(
            self.spark,
            [(handovers.number_of(row["router"]), row["event"], row["seq"], (row["fields"], None)) for row in configs],
            CONFIG,
        )

    def _look_for_strays(self) -> None:
        """Find parcels of new lines whose accepted line is neither new nor open. Raise `NotIncremental` if one is
        accepted twice."""
        self.rows = self.laid.where(NEEDED)
        is_line = F.col("event") == "accepted"
        is_new_line = F.col("is_new") & F.expr("event = 'accepted' AND accepted.n > 0")
        parcels = self.rows.groupBy(*PARCEL).agg(
            F.max(is_line).alias("has_line"),
            F.max("is_new").alias("is_new"),
            F.count(F.when(is_new_line, 1)).alias("lines"),
        )
        self.strays = cut_off(parcels.where("lines > 1 OR (is_new AND NOT has_line)"))
        found = self.strays.agg(F.max("lines"), F.count("*"), F.min("parcel"), F.max("parcel"))
        [(lines, self.strays_count, self.strays_low, self.strays_high)] = found.collect()
        if (lines or 0) > 1:
            raise NotIncremental("a file gives an arrival number twice")

    def _late(self) -> dict[str, DataFrame]:
        """Return the changes that late lines make to closed parcels: differences of the summed tables, and the rows
        themselves. Leave all other lines in `rows`."""
        if not self.base.parts.get("closed") or not self.strays_count:
            return {}
        near = self.past("closed").where(F.col("parcel").between(self.strays_low, self.strays_high))
        old = cut_off(near.join(F.broadcast(self.strays.select(*PARCEL)), list(PARCEL), "left_semi"))
        again = F.broadcast(cut_off(old.select(*PARCEL).distinct()))
        if again.isEmpty():
            return {}
        late = cut_off(self.rows.join(again, list(PARCEL), "left_semi").select(*LAID))
        self.rows = self.rows.join(again, list(PARCEL), "left_anti")
        passed = old.where("event = 'acked'").select(*PARCEL, "recipient")
        ends = late.where("event IN ('delivered', 'acked')")
        if (
            not handovers.taken_over(ends, self.numbers).isEmpty()
            or not ends.join(passed, [*PARCEL, "recipient"], "left_semi").isEmpty()
        ):
            raise Rebuild("a late segment holds acknowledgements of messages that had an end already")
        return late_lines.differences(late, self._tables(old), self._tables(old.unionByName(late)))

    def _tables(self, found: DataFrame) -> Tables:
        """Return the tables of these lines alone."""
        return Tables(found, self.configs, self.routers, self.span, self.has_more, self.partitions, True, CutOff())

    def _changes(self, given: dict[str, DataFrame]) -> dict[str, DataFrame]:
        """Return the new rows of changes, abuse, doors and clocks; `given` gets the whole tables of the first two."""
        self.route_changes = route_change.route_change(self.others, self.numbers, self.span)
        changes = self.route_changes.groupBy("router", "minute", "event", "subject")
        new = {
            "changes": changes.agg(F.sum("changes").alias("changes")),
            "abuse": abuse_hour.abuse_hour(self.others, self.numbers, self.span),
            "reasons": flow.reason(self.laid.where("is_new"), self.numbers, self.span),
            "served": flow.served(self.others, self.numbers, self.span),
            "barred": named(claim_findings.barred_by(self.others), self.numbers),
        }
        given |= {name: cut_off(added_up(name, self.past(name).unionByName(table))) for name, table in new.items()}
        own = self.own = door_and_clock.added(self.laid, self.others, self.starts, self.span)
        given["clock"] = self.past("clock").unionByName(own["clock"])
        return new | own

    def _recipients(self, older: DataFrame, known: DataFrame) -> Recipients:
        """Judge whom accepted lines name. `older`: the lines of earlier batches; `known`: the state's table `links`."""
        holes = first_holes(self.evidence)
        self.judged, again = judged_to(self.base.judged, self.before["words"], self.new["words"], holes)
        lines = BatchLines(self.past, self.tables, self.laid.where("is_new"), older, cut_off(change_of(known)), again)
        return Recipients(lines, self.words)

    def _ids(
        self, given: dict[str, DataFrame], added: dict[str, DataFrame], older: DataFrame, late_gone: DataFrame | None
    ) -> dict[str, DataFrame]:
        """Match the new ids with the earlier ones, and set the fate of messages handed on; return the tables to write.
        `older`: the lines of earlier batches; `late_gone`: those of `two_logs` that are about closed parcels."""
        tables, base = self.tables, self.base
        arrivals = cut_off(handovers.arrivals(self.laid.where("is_new")))
        now = cut_off(handovers.taken(tables, self.takers)) if self.takers else handovers.none_handed(self.spark)
        here, beyond = handovers.of_takers(now, self.routers)
        newcomers = {log.router for log in self.evidence.logs} - {*base.routers}
        known, unknown = handovers.of_takers(self._waiting(newcomers), self.routers)
        came = newcomers if base.routers else set()
        self.two_logs = two = TwoLogs(self.past, tables, self.words, arrivals, older, came, late_gone, self.recipients)
        all_ids, new_ids = self.past("ids"), arrivals.select(*names_of("ids"))
        wanted = reduce(DataFrame.unionByName, [table.select("id") for table in (arrivals, here, known, two.wanted)])
        size = self.lines.size // ROW_BYTES + two.asked_count
        with interpreted(self.spark, is_so=has_few_sums(base.messages) and has_few_lines(self.lines.size, base.rows)):
            hits = cut_off(handovers.asked(all_ids, wanted, size) if base.parts.get("ids") else all_ids)
        accepted_id = cut_off(handovers.accepted_id(new_ids, hits))
        self.news = handovers.news(accepted_id)
        if self.news.early:
            raise Rebuild("a late segment accepts messages earlier than another did that was counted")
        past, met = self.past("custody"), cut_off(custody.met(here.unionByName(known), accepted_id))
        clock, moves = handovers.clock(past, met, self.routers), moves_of(given["clock"])
        handover = cut_off(tables.flagged(custody.judged(met, clock, self.routers, moves)))
        given["handover"] = handover
        given["custody"] = handovers.custody_table(past, handover, self.routers)
        given["distinct"] = handovers.distinct(self.spark, base, self.news)
        given["passed_on"] = handovers.passed_on(self.past("passed"), handover, self.routers, self.span)
        added |= {"custody": handovers.followed(handover), "passed": handovers.followed_by_hour(handover, self.span)}
        two.meet(accepted_id, new_ids.unionByName(hits), handover)
        written = {"ids": new_ids}
        if self.takers:
            rest = handover.where(f"NOT ({handovers.IS_FOLLOWED}) AND NOT is_open").select(*custody.HANDED)
            written["waiting"] = rest.unionByName(unknown)
        if {*self.takers} - {log.router for log in self.evidence.logs}:
            written["beyond"] = tables.flagged(beyond).where("NOT is_open").select(*custody.HANDED)
        if base.accepted_again or self.news.accepted_again:
            written["again"] = self._again(given, accepted_id, all_ids.unionByName(new_ids))
        return written

    def _waiting(self, newcomers: set[str]) -> DataFrame:
        """Return the messages that wait for their takers, those handed to newcomers before this batch too."""
        called_delivered = handovers.delivered_to(self.past("closed"), newcomers, self.tables)
        waiting = self.past("waiting").unionByName(called_delivered)
        if not self.base.parts.get("beyond") or not newcomers:
            return waiting
        numbers = handovers.numbers(self.spark, newcomers)
        return waiting.unionByName(handovers.of_takers(self.past("beyond"), numbers)[0])

    def _again(self, given: dict[str, DataFrame], accepted_id: DataFrame, ids: DataFrame) -> DataFrame:
        """Return all rows of the parcels of ids that a router accepted more than once."""
        before = self.past("again")
        known = cut_off(before.select(*PARCEL).distinct())
        found = before.unionByName(
            self.laid.where(f"is_new AND {NEEDED}").join(known, list(PARCEL), "left_semi").select(*LAID)
        )
        if self.news.accepted_again:
            parcels = handovers.accepted_twice(accepted_id, ids).join(known, list(PARCEL), "left_anti")
            everything = self.laid.where(NEEDED).select(*LAID).unionByName(self.past("closed"))
            found = found.unionByName(everything.join(F.broadcast(parcels), list(PARCEL), "left_semi"))
        found = cut_off(found)
        given["repeats"] = self._tables(found).repeats
        return found


def _tally(laid: DataFrame, starts: DataFrame, numbers: DataFrame, span: Span) -> Rows:
    """Return `findings.tally` also by `start` (where a line's file begins) and `taker` (who took messages over: whoever
    acknowledged, and each router with a log here to which they were delivered)."""
    lines = handovers.beside_routers(laid.join(starts, "router", "left"), numbers).select(
        "*",
        F.expr(f"CASE WHEN is_new THEN {links.START} END").alias("start"),
        F.expr(f"CASE WHEN {handovers.IS_TAKEN} THEN recipient END").alias("taker"),
        F.expr("CASE WHEN is_new THEN 1L END").alias("seal"),
    )
    return rows(named(tally(lines, span, *MORE), numbers))


def _stretches(found: Rows, before: Rows, laid: DataFrame) -> Rows:
    """Check that a router's files hold ranges of arrival numbers that do not overlap; return the new ranges. Raise
    `NotIncremental` otherwise."""
    new = [{name: row[name] for name in ("router", "low", "high")} for row in found if row["low"] is not None]
    spans: dict[str, list[tuple[int, int]]] = {}
    for row in (*before, *new):
        spans.setdefault(row["router"], []).append((row["low"], row["high"]))
    for router, own in spans.items():
        own.sort()
        if any(one[1] > other[0] for one, other in pairwise(own)):
            raise NotIncremental(f"two files of {router} give the same arrival numbers")
    if any(row["low"] is not None and not given_once([row]) for row in found):
        lines = given(laid.where("is_new"))
        if not arrivals_twice(lines).isEmpty():
            raise NotIncremental("a file gives an arrival number twice")
    return new


def _compare_with_footers(found: Rows, evidence: Evidence, lines: Lines) -> None:
    """Raise `Unlike` for signed files whose lines do not match their footers."""
    sums: dict[tuple[str, int], list[Summed]] = {}
    for row in found:
        said = (row["event"], row["lines"], row["count"], row["numbers"] or 0, row["number_marks"] or 0)
        sums.setdefault((row["router"], row["start"]), []).append(Summed(*said, row["min_t"], row["max_t"]))
    seals = {seal.path: seal for seal in evidence.seals if seal.is_kept}
    new = [seals[part.file] for part in lines.parts if part.file in seals]
    odd = [seal.path for seal in new if not sealed.fits(seal, _by_event(sums.get(seal[:2], ())))]
    if odd:
        raise Unlike({lines.uris[path] for path in odd})


def _by_event(sums: Iterable[Summed]) -> list[Summed]:
    """Merge the sums of one event into one row."""
    found: dict[str, Summed] = {}
    for one in sums:
        _, lines, messages, numbers, marks, *_ = known = found.get(one.event, Summed(one.event, 0, 0, 0, 0))
        added = lines + one.lines, messages + one.messages, numbers + one.numbers, marks ^ one.marks
        times = [one, known] if known.lines else [one]
        first = min((each.min_t for each in times if each.min_t is not None), default=None)
        last = max((each.max_t for each in times if each.max_t is not None), default=None)
        found[one.event] = Summed(one.event, *added, first, last)
    return [*found.values()]
