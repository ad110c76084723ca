"""What the logs of two routers tell of each other, from batch to batch: messages that ended on the way to a router that
had accepted them, and messages that a neighbour is said to have brought of which its log does not tell.

The rules are those of `claim_findings` and `conflict_findings`; kept are the lines and messages that they are about.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cached_property, reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_analytics.batch import circle_findings, claim_findings, conflict_findings, order_findings
from spark_analytics.batch.findings import Rows
from spark_analytics.batch.gold import accepted
from spark_analytics.batch.gold.kept import cut_off
from spark_analytics.batch.gold.names import named, rows
from spark_analytics.batch.judged_claims import (
    IS_DOOR_NAMED,
    asked_as_history,
    had_first,
    ids_of,
    joined_here,
    log_of,
    made,
    pong_of,
    unread,
)
from spark_analytics.batch.local_rows import table_of
from spark_analytics.judgement.conflicts import row_of
from spark_analytics.judgement.history_sql import NO_HISTORY
from spark_analytics.judgement.presence_sql import HISTORY, JOINED_THERE
from spark_analytics.judgement.schema import SLACK_NS

from . import handovers
from .door_and_clock import DoorAndClock
from .recipients import Recipients
from .state import ADDED, added_up, names_of
from .stream_tables import Running

Past = Callable[[str], DataFrame]
"""Returns a table of the state before the batch."""
IS_FINAL = f"is_known AND end_ns - t >= apart_ns + {SLACK_NS}L"
"""Whether a message counts for good as one that its neighbour never had: the log of that one goes on for a day longer,
by its own clock."""
IS_UNTOLD = f"is_whole AND NOT ({conflict_findings.REACHES})"
"""Whether nothing can be said of a message, whatever comes: the neighbour's log begins too late, or is pruned there."""


class TwoLogs:
    """The claims of a batch, in this order: `wanted`, `meet`; then `added`, `suspects` and `told`.

    `arrivals`: the messages that the batch accepts; `older`: all lines about accepted messages but those of the batch;
    `newcomers`: the routers of which the first file came with the batch; `late`: lines as of
    `claim_findings.ended_on_the_way` that are about closed parcels; `recipients`: as of this batch.
    `asked_count`: so many messages were asked for as history, of which all acceptances are needed in each batch.
    """

    def __init__(
        self,
        past: Past,
        tables: Running,
        words: Rows,
        arrivals: DataFrame,
        older: DataFrame,
        newcomers: Collection[str],
        late: DataFrame | None,
        recipients: Recipients,
    ) -> None:
        self._past, self._tables, self._words, self._arrivals = past, tables, words, arrivals
        self._change = recipients.change
        self._older = older
        self._newcomers = tables.routers.where(F.col("router").isin(*sorted(newcomers))) if newcomers else None
        ends = {(row["event"], row["reason"]) for row in words if not row["at_door"]}
        self._has_gone = any(event in claim_findings.GONE for event, _ in ends)
        self._has_unread = ("refused", "no-subscribers") in ends
        self.asked_count = sum(row["count"] for row in words if row["event"] == HISTORY)
        self._gone = cut_off(self._gone_lines(late))
        self._candidates = cut_off(self._messages_gone())
        self._brought = self._brought_by_newcomers()

    @cached_property
    def _first(self) -> DataFrame:
        """Return the accepted lines of closed parcels."""
        lines = self._past("closed").where("event = 'accepted'")
        return accepted.accepted(lines, self._tables.routers, self._tables.span)

    def _gone_lines(self, late: DataFrame | None) -> DataFrame:
        """Return the new lines of `gone`, and those of open parcels (`is_open`)."""
        tables, closed = self._tables, F.lit(False)
        now = claim_findings.ended_on_the_way(tables.rows, tables.accepted, tables.routers)
        found = [tables.flagged(now)]
        if late is not None:
            found.append(late.withColumn("is_open", closed))
        if self._newcomers is not None:
            old = claim_findings.ended_on_the_way(self._past("closed"), self._first, self._newcomers)
            found.append(old.withColumn("is_open", closed))
        return reduce(DataFrame.unionByName, found)

    def _messages_gone(self) -> DataFrame:
        """Return the messages of which this batch may tell that their taker had them: those that were known to be so,
        those that it accepts, and those of new lines."""
        columns = (*names_of("gone_there"), "is_open")
        before = self._past("gone_there").withColumn("is_open", F.lit(False))
        new = claim_findings.each_message(self._gone).select(*columns)
        if not self._has_gone:
            return before
        same = ["id", "router", "taker", "seq"]
        past = claim_findings.each_message(self._past("gone")).withColumn("is_open", F.lit(False)).select(*columns)
        ids = self._arrivals.select("id").unionByName(new.select("id")).distinct()
        met = past.join(ids, "id", "left_semi").join(before, same, "left_anti")
        return before.unionByName(met).unionByName(new)

    def _brought_by_newcomers(self) -> DataFrame:
        """Return the messages of lines before this batch that its newcomers are said to have brought."""
        columns = names_of("missing")
        if self._newcomers is None:
            return self._arrivals.where("false").select(*columns)
        peers = F.broadcast(self._newcomers.select(F.col("router").alias("peer")))
        lines = self._older.where("event = 'accepted'").withColumn("peer", F.col("accepted.peer"))
        found = handovers.arrivals(lines.join(peers, "peer", "left_semi")).where("brought >= 0")
        return cut_off(found.select(*columns))

    @property
    def wanted(self) -> DataFrame:
        """Return the ids of which all acceptances are needed."""
        found = self._candidates.select("id").unionByName(self._brought.select("id"))
        found = found.unionByName(self._past("circles"))
        return found.unionByName(asked_as_history(self._change)) if self.asked_count else found

    def meet(self, accepted_id: DataFrame, acceptances: DataFrame, handover: DataFrame) -> None:
        """Match the messages with what is known of their ids. `acceptances`: rows of `ids` with these; `handover`: the
        messages handed over that this batch looks at."""
        tables = self._tables
        once = accepted_id.where("times = 1 AND NOT is_copied").select("id", "router")
        self._there = claim_findings.accepted_there(tables, self._candidates, once, accepted_id)
        known = F.broadcast(tables.routers.select(F.col("number").alias("brought")))
        new = self._arrivals.select(*names_of("missing")).join(known, "brought", "left_semi")
        had = accepted_id.select("id", F.col("router").alias("brought"))
        said = self._past("missing").unionByName(new).unionByName(self._brought)
        followed = handover.where("custody = 'followed'").select(
            "id", F.col("router").alias("brought"), F.col("taker").alias("router")
        )
        first = acceptances.where(conflict_findings.IS_FIRST_LIFE)
        both = first.join(followed, ["id", "router", "brought"], "left_semi").groupBy("router", "brought")
        pairs = [tuple(row.values()) for row in rows(both.agg(F.max("seq").alias("followed_seq")))]
        self._followed = table_of(acceptances.sparkSession, pairs, ADDED["followed_to"])
        self._circles = cut_off(circles(acceptances))
        if self.asked_count:
            asked = acceptances.join(asked_as_history(self._change), "id", "left_semi")
            self._had = cut_off(had_first(asked))
            sources = {"change": self._change, "log": log_of(tables), "had": self._had}
            self._no_history = cut_off(made(NO_HISTORY, sources | {"apart": claim_findings.apart(tables)}, 0))
        self._missing = cut_off(self._judged(said.join(had, ["id", "brought"], "left_anti")))

    def _judged(self, missing: DataFrame) -> DataFrame:
        """Add to missing messages whether the neighbour's log must tell of them (`is_known`), and whether it will not
        (`is_final`); leave out those of which nothing can be said."""
        pair = ["router", "brought"]
        followed = added_up("followed_to", self._past("followed_to").unionByName(self._followed))
        bounds = claim_findings.bounds(self._tables).where(conflict_findings.IS_BOUND)
        clocks = bounds.select(
            F.col("router").alias("brought"),
            F.col("taker").alias("router"),
            F.expr("greatest(lower_ns, upper_ns)").alias("apart_ns"),
        )
        logs = conflict_findings.logs_of_neighbours(self._tables, self._words)
        found = missing.join(F.broadcast(followed), pair, "left").join(F.broadcast(clocks), pair, "left")
        found = found.join(F.broadcast(logs), "brought", "left")
        found = found.withColumn("is_known", F.expr(f"coalesce({conflict_findings.IS_UNSENT}, false)"))
        is_final = F.expr(f"coalesce({IS_FINAL}, false)").alias("is_final")
        return found.where(f"NOT coalesce({IS_UNTOLD}, false)").select(*names_of("missing"), "is_known", is_final)

    @cached_property
    def _carriers(self) -> DataFrame:
        tables = self._tables
        now = conflict_findings.carriers(tables.flagged(tables.accepted), tables.routers, "is_open")
        if self._newcomers is not None:
            old = conflict_findings.carriers(self._first, self._newcomers)
            now = now.unionByName(old.withColumn("is_open", F.lit(False)))
        return cut_off(now)

    def added(self) -> dict[str, DataFrame]:
        """Return the rows of summed tables that the batch adds."""
        return {
            "gone": self._gone.where("NOT is_open").drop("is_open"),
            "followed_to": self._followed,
            "unsent": conflict_findings.added_up_unsent(self._missing.where("is_final")),
            "carriers": self._carriers.where("NOT is_open").drop("is_open"),
        }

    def suspects(self) -> dict[str, DataFrame]:
        """Return what may be a claim, after the batch."""
        return {
            "gone_there": self._there.where("NOT is_open").select(*names_of("gone_there")),
            "missing": self._missing.where("NOT is_final").drop("is_known", "is_final"),
            "circles": self._circles.select("id").distinct(),
        }

    def told(self, recipients: Recipients, own: DoorAndClock) -> dict[str, Rows]:
        """Return what was never sent, what went on, and the claims, with those of each log by itself."""
        sums = self._unsent().select(F.lit("unsent").alias("kind"))
        both = sums.unionByName(self._there.select(F.col("event").alias("kind"))).unionByName(recipients.kinds())
        both = both.unionByName(own.kinds()).unionByName(self._circles.select(F.lit("circle").alias("kind")))
        if self.asked_count:
            both = both.unionByName(self._no_history.select(F.lit("no-history").alias("kind")))
        kinds = {row["kind"] for row in rows(both.distinct())}
        tables, words = self._tables, self._words
        unsent = rows(self._unsent()) if "unsent" in kinds else []
        carried: Mapping[tuple[int, str], int] = {}
        if any(row["kind"] != "unicast" for row in unsent):
            sums = added_up("carriers", self._past("carriers").unionByName(self._carriers.drop("is_open")))
            carried = {(row["router"], row["destination"]): row["n"] for row in rows(sums)}
        found = [
            *(claim_findings.refused_there(tables, self._there, words) if "refused" in kinds else []),
            *(self._joined_there(recipients) if self._has_unread else []),
            *own.not_turned_away(self._ended),
            *(self._claimed("no-history", self._no_history) if "no-history" in kinds else []),
            *recipients.told(kinds),
            *own.told(kinds),
            *order_findings.by_order(tables, words, self._change, self._of_order(own)),
            *(self._in_a_circle() if "circle" in kinds else []),
        ]
        return {
            "unsent": conflict_findings.named_unsent(tables, unsent, carried),
            "went_on": claim_findings.went_on(tables, self._there) if kinds.intersection(claim_findings.GONE) else [],
            "claims": joined_here(tables, found, lambda: self._ended, self._doors_named),
        }

    def _doors_named(self) -> DataFrame:
        lines = self._tables.given["links"].where(IS_DOOR_NAMED)
        return lines.selectExpr("router", "other.fields['peer'] AS peer", "seq", "other.ids")

    def _of_order(self, own: DoorAndClock) -> order_findings.Sources:
        """Return the tables of which order tells."""
        tables = self._tables
        return {
            "gone": lambda: order_findings.gone(tables.everything, self._there, own.all("pulled")),
            "refused": lambda: order_findings.unread_from(tables.everything, self._ended),
            "had": lambda: self._had,
            "pong": lambda: pong_of(tables.given["links"]),
        }

    def _in_a_circle(self) -> Rows:
        every = self._tables.everything
        parcels = F.broadcast(self._circles.select("router", "parcel").distinct())
        lines = every.accepted.join(parcels, ["router", "parcel"], "left_semi")
        return circle_findings.in_a_circle(every, lines, self._circles.select("id").distinct())

    def _unsent(self) -> DataFrame:
        """Add up what was never sent, of logs that are whole now."""
        whole = F.broadcast(self._tables.routers.where("is_whole").select(F.col("number").alias("brought")))
        now = conflict_findings.added_up_unsent(self._missing.where("is_known"))
        return added_up("unsent", self._past("unsent").unionByName(now).join(whole, "brought", "left_semi"))

    @property
    def _ended(self) -> DataFrame:
        """Return the lines of `gone`, and those of open parcels."""
        return self._past("gone").unionByName(self._gone.drop("is_open"))

    def _joined_there(self, recipients: Recipients) -> Rows:
        tables = self._tables
        sources = {"change": self._change, "log": log_of(tables), "refused": unread(self._ended)}
        sources["apart"] = claim_findings.apart(tables)
        told = rows(named(made(JOINED_THERE, sources, recipients.joins), tables.routers))
        ids = ids_of(tables.everything, told) if told else {}
        return [row_of("joined-there", row, ids.get((row["router"], row["seq"]))) for row in told]

    def _claimed(self, claim: str, told: DataFrame) -> Rows:
        return [row_of(claim, row, None) for row in rows(named(told, self._tables.routers))]


def circles(acceptances: DataFrame) -> DataFrame:
    """Return, of rows of `ids` that hold all acceptances of theirs, those of messages that each router had from another
    one that has them: `id`, `router`, `parcel`."""
    own = acceptances.where("NOT is_copy")
    sets = own.groupBy("id").agg(F.expr("size(array_except(collect_set(brought), collect_set(router)))").alias("rest"))
    return own.join(sets.where("rest = 0"), "id", "left_semi").select("id", "router", "parcel")
