"""What a log says of its clock, its door and its links, from batch to batch: sums, and the lines at which its clock may
have moved. The texts are those of `claim_sql`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_analytics.batch.claim_findings import apart
from spark_analytics.batch.findings import Rows
from spark_analytics.batch.gold.kept import cut_off
from spark_analytics.batch.gold.names import named, rows
from spark_analytics.batch.judged_claims import (
    SECOND_NS,
    acked,
    asked,
    blamed,
    copied_by_nobody,
    ids_of,
    left,
    log_of,
    made,
    never_linked,
    not_left,
    runs_of,
    stops_of,
    unlinked,
)
from spark_analytics.batch.order_findings import pulled_of
from spark_analytics.batch.span import Span
from spark_analytics.judgement.claim_sql import BACK, BACK_NS, CLOCK, COPIED, IS_UNEVEN, NOT_BEGUN
from spark_analytics.judgement.clock_moves import moves_while_up
from spark_analytics.judgement.conflicts import row_of
from spark_analytics.judgement.door_sql import NOT_HANDED, NOT_TURNED_AWAY, UNTURNED
from spark_analytics.judgement.link_sql import BEGUN_TWICE, HEARD_WHEN_DOWN, LINKED_THERE
from spark_analytics.judgement.presence_sql import NS_MAX, PRESENT
from spark_analytics.judgement.schema import SLACK_NS, TURNED_EVENTS

from .links import START
from .state import added_up, names_of
from .stream_tables import Running

FILE = ("router", "start", "boot")
APART = "t - mono"


def added(laid: DataFrame, others: DataFrame, starts: DataFrame, span: Span) -> dict[str, DataFrame]:
    """Return the rows of summed tables that a batch adds. `laid`: its lines; `others`: those without a recipient;
    `starts`: the first events of its files, as of `links.starts`."""
    turned = others.where(F.col("event").isin(*TURNED_EVENTS)).where(span.is_within())
    handed = laid.where("is_new AND event IN ('forwarded', 'pulled') AND recipient IS NOT NULL")
    return {
        "turned": turned.select("router", "other.peer", "event", "reason", "seq", "t", "count"),
        "handed": handed.groupBy("router", "recipient").agg(F.sum("count").alias("count")),
        "clock": clock_lines(laid.where("is_new"), starts),
        "acked": acked(laid.where("is_new")),
        "left": left(laid.where("is_new")),
        "pulled": pulled_of(laid.where("is_new")),
    }


def clock_lines(lines: DataFrame, starts: DataFrame) -> DataFrame:
    """Return of each file and boot the first line, the last, the one of the latest monotonic time, and those at which
    the wall clock is ahead of it the least and the most; and where it is `claim_sql.IS_UNEVEN`, each line that is more
    than a tenth of the time off from the one before or after it, or earlier. Between lines that are left out no clock
    moves further than routers let pass."""
    timed = lines.where("t IS NOT NULL AND mono IS NOT NULL").join(starts, "router", "inner")
    timed = timed.select("router", F.expr(START).alias("start"), "boot", "seq", "t", "mono")
    line = F.struct("seq", "t", "mono")
    sums = timed.groupBy(*FILE).agg(
        F.array(F.min(line), F.max(line), F.max_by(line, "mono"), *_farthest(line)).alias("edges"),
        *(F.expr(f"{one}({APART})").alias(f"{one}_apart_ns") for one in ("min", "max")),
        *(F.expr(f"{one}(mono)").alias(f"{one}_mono") for one in ("min", "max")),
        *(F.expr(f"{one}_by(mono, seq)").alias(f"{name}_mono") for one, name in (("min", "first"), ("max", "last"))),
    )
    sums = cut_off(sums.withColumn("is_wide", F.expr(IS_UNEVEN)))
    edges = sums.select("router", "boot", F.explode("edges").alias("line")).select("router", "boot", "line.*")
    order = Window.partitionBy(*FILE).orderBy("seq")
    wide = timed.join(F.broadcast(sums.where("is_wide").select(*FILE)), list(FILE), "left_semi")
    near = wide.select(
        "*", F.lag("mono").over(order).alias("mono_before"), F.lag(F.expr(APART)).over(order).alias("apart_before")
    )
    is_off = f"mono < mono_before OR abs({APART} - apart_before) > abs(mono - mono_before) / 10"
    off = near.withColumn("is_off", F.expr(f"coalesce({is_off}, false)"))
    off = off.withColumn("is_off_after", F.lead("is_off").over(order)).where("is_off OR is_off_after")
    return edges.unionByName(off.select(*edges.columns)).select(*names_of("clock")).distinct()


def moves_of(lines: DataFrame) -> dict[int, int]:
    """Return `clock_moves.moves_while_up` of lines as of `clock_lines`."""
    mono = (F.expr(f"{one}_by(mono, seq)").alias(f"{name}_mono") for one, name in (("min", "first"), ("max", "last")))
    apart_ns = (F.expr(f"{one}({APART})").alias(f"{one}_apart_ns") for one in ("min", "max"))
    return moves_while_up(rows(lines.groupBy("router", "boot").agg(F.min("seq").alias("seq"), *mono, *apart_ns)))


def _farthest(line: Column) -> tuple[Column, Column]:
    return F.min_by(line, F.expr(APART)), F.max_by(line, F.expr(APART))


def settled(turned: DataFrame, logs: DataFrame, apart: DataFrame) -> DataFrame:
    """Return lines of messages turned away with the time 0 where the neighbour's log goes on for a day after them, by
    the bounds of both clocks: it reaches them from then on, so they can be added up, as those can that name no
    neighbour. `logs`, `apart`: as of `log_of` and `claim_findings.apart`."""
    ends = F.broadcast(logs.select(F.col("key").alias("peer"), "end_ns", F.col("router").alias("taker")))
    bounds = F.broadcast(apart.select("router", "taker", "upper_ns"))
    is_past = f"peer IS NULL OR coalesce(t + greatest(coalesce(upper_ns, 0), 0) <= end_ns - {SLACK_NS}L, false)"
    found = turned.join(ends, "peer", "left").join(bounds, ["router", "taker"], "left")
    found = found.withColumn("t", F.when(F.expr(is_past), 0).otherwise(F.col("t")))
    return found.select(*names_of("turned"))


def settled_after(tables: Running, turned: DataFrame) -> DataFrame:
    """Return `settled` lines, after the batch of these tables."""
    return settled(turned, log_of(tables), apart(tables))


class DoorAndClock:
    """The claims about clocks, doors and links after a batch. `words`: rows of `findings.tally`; `new`: as of `added`;
    `change`, `pong`: as of `judged_claims.change_of` and `judged_claims.pong_of`."""

    def __init__(
        self,
        past: Callable[[str], DataFrame],
        tables: Running,
        words: Rows,
        new: Mapping[str, DataFrame],
        change: DataFrame,
        pong: DataFrame,
    ) -> None:
        self._tables, self._change, self._pong = tables, change, pong
        self._asked = asked(words)
        self._all = {name: past(name).unionByName(table) for name, table in new.items()}
        boots = self._all["clock"].groupBy("router", "boot")
        self._unlinked = cut_off(unlinked(change, log_of(tables), added_up("acked", self._all["acked"])))
        self._dropped = {"change": change, "log": log_of(tables), "dropped": self._all["left"]}
        self._present = made(PRESENT, self._dropped, 0)
        copies = past("arrivals").unionByName(tables.arrivals_now.drop("is_open")).where("kind = 'copy'")
        copied = copies.groupBy("router", "peer").agg(F.sum("messages").alias("count"), F.lit(NS_MAX).alias("seq"))
        self._copied = made(COPIED, {"change": change, "log": log_of(tables), "copied": copied}, 0)
        self._moved = boots.agg(F.expr(f"max({APART}) - min({APART})").alias("ns")).where(f"ns > {SECOND_NS}L")

        before = F.lag("mono").over(Window.partitionBy("router", "boot").orderBy("seq"))
        self._back = self._all["clock"].select((before - F.col("mono")).alias("ns")).where(f"ns > {BACK_NS}L")

    def all(self, name: str) -> DataFrame:
        """Return the rows of a table of `added`, of all batches."""
        return self._all[name]

    def kinds(self) -> DataFrame:
        """Return a row `other-time` for each boot in which the clocks moved apart, `time-back` for each line at which
        the monotonic one went back, `never-linked` for each link over which messages arrived while it was not up,
        `copied-by-nobody` for each key that brought copies and is no service, and `not-left` for each line of messages
        dropped for somebody who was in a group and connected."""
        found = {
            "other-time": self._moved,
            "time-back": self._back,
            "never-linked": self._unlinked,
            "copied-by-nobody": self._copied,
            "not-left": self._present,
        }
        return reduce(DataFrame.unionByName, (table.select(F.lit(kind).alias("kind")) for kind, table in found.items()))

    def told(self, kinds: Collection[str]) -> Rows:
        """Return the claims. `kinds`: those of the rows of `kinds`."""
        boots = (
            self._all["clock"].groupBy("router", "boot").agg(F.min("seq").alias("seq"), F.max("seq").alias("last_seq"))
        )
        found = self._found("not-begun", NOT_BEGUN, {"boot": boots, "change": self._change})
        found += self._found("begun-twice", BEGUN_TWICE, {"boot": boots, "change": self._change})
        found += self._found("heard-when-down", HEARD_WHEN_DOWN, {"pong": self._pong, "change": self._change})
        sources = {"pong": self._pong, "change": self._change, "apart": apart(self._tables)}
        found += self._found("linked-there", LINKED_THERE, sources)
        if "other-time" in kinds:
            timed = self._all["clock"].join(F.broadcast(self._moved.drop("ns")), ["router", "boot"], "left_semi")
            found += self._found("other-time", CLOCK, {"timed": timed, "change": self._change})
        if "time-back" in kinds:
            found += self._found("time-back", BACK, {"paced": self._all["clock"]})
        if "never-linked" in kinds:
            found += never_linked(self._tables.everything, rows(self._unlinked))
        if "copied-by-nobody" in kinds:
            found += copied_by_nobody(self._tables.everything, self._change)
        if "not-left" in kinds:
            found += not_left(self._tables.everything, self._dropped)
        if "not-handed" in self._asked:
            handed = added_up("handed", self._all["handed"])
            sources = {"turned": self.door, "handed": handed, "apart": sources["apart"]}
            found += self._found("not-handed", NOT_HANDED, sources)
        return found

    def not_turned_away(self, ended: DataFrame) -> Rows:
        """Return the claims of messages that neighbours are said to have refused. `ended`: all lines as of
        `claim_findings.ended_on_the_way`."""
        if UNTURNED not in self._asked:
            return []
        sources = {"change": self._change, "door": self.door, "blamed": blamed(ended), "apart": apart(self._tables)}
        sources |= {"run": runs_of(self._all["clock"]), "stop": stops_of(self._tables.given["links"])}
        told = rows(named(made(NOT_TURNED_AWAY, {**sources, "log": log_of(self._tables)}, 0), self._tables.routers))
        ids = ids_of(self._tables.everything, told) if told else {}
        return [row_of(UNTURNED, row, ids.get((row["router"], row["seq"]))) for row in told]

    @property
    def door(self) -> DataFrame:
        """Return the lines of messages turned away at the door, added up."""
        return added_up("turned", self._all["turned"])

    def _found(self, claim: str, text: str, sources: Mapping[str, DataFrame]) -> Rows:
        told = made(text, {**sources, "log": log_of(self._tables)}, 0)
        return [row_of(claim, row, None) for row in rows(named(told, self._tables.routers))]
