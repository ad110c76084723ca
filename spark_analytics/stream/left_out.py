"""Subscribers left out of the recipients of multicasts, from batch to batch.

Of a log up to its first hole, no later line makes anybody left out of a line before it: so each line is judged once,
when its log is whole up to it, with all lines about those who joined; only lines that leave somebody out are kept,
because a later one may excuse them. A file that comes in before what was judged has the log judged anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_analytics.batch.findings import Rows
from spark_analytics.batch.gold.kept import cut_off
from spark_analytics.batch.gold.names import named, rows
from spark_analytics.batch.judged_claims import change_of, log_of, made
from spark_analytics.batch.local_rows import table_of
from spark_analytics.judgement.conflicts import row_of
from spark_analytics.judgement.presence_sql import LACKING, NS_MAX

from .handovers import number_of
from .state import names_of
from .stream_tables import Running

LINE = ["router", "seq"]


def judged_to(
    judged: Mapping[str, int], before: Rows, new: Rows, holes: Mapping[str, int]
) -> tuple[dict[str, int], dict[str, int]]:
    """Return up to which event each log is judged after a batch; and of which logs lines of earlier batches must be
    judged now, each with the event after which.

    `judged`: up to which event it was before; `before`, `new`: rows of `findings.tally` of the batches before, and of
    this one; `holes`: the first event of the first hole of each log that has one now.
    """
    lasts = {router: max(row["last_seq"] for row in own) for router, own in _by_router(before).items()}
    batch = _by_router(new)
    after, again = {}, {}
    for router in sorted({*lasts, *batch}):
        known, last = judged.get(router, 0), lasts.get(router, 0)
        if router in batch and min(row["first_seq"] for row in batch[router]) <= known:
            known = 0
        end = holes.get(router, NS_MAX) - 1
        if min(last, end) > known:
            again[router] = known
        known = max(known, min(end, max([last, *(row["last_seq"] for row in batch.get(router, ()))])))
        if known:
            after[router] = known
    return after, again


def _by_router(words: Rows) -> dict[str, Rows]:
    found: dict[str, Rows] = {}
    for row in words:
        found.setdefault(row["router"], []).append(row)
    return found


class LeftOut:
    """Who was left out, after a batch. `new`, `older`: the lines of the batch, and those of earlier ones; `links`: the
    state's table, with the lines of the batch; `again`: as of `judged_to`; `words`: rows of `findings.tally`."""

    def __init__(
        self,
        past: Callable[[str], DataFrame],
        tables: Running,
        words: Rows,
        new: DataFrame,
        older: DataFrame,
        links: DataFrame,
        again: Mapping[str, int],
    ) -> None:
        self._tables = tables
        self.joins = sum(row["lines"] for row in words if row["event"] == "join")
        self.change = cut_off(change_of(links))
        self._lacking: DataFrame | None = None
        if not self.joins:
            return
        logs = [(number_of(router), after) for router, after in again.items()]
        told = table_of(new.sparkSession, logs, "router long, after long")
        kept = past("lacking").join(F.broadcast(told), "router", "left")
        self._before = kept.where("after IS NULL OR seq <= after").select(*names_of("lacking"))
        found = sent(new)
        if again:
            missed = sent(older).join(F.broadcast(told), "router", "inner").where("seq > after")
            found = found.unionByName(missed.drop("after"))
        self._sent = cut_off(self._before.unionByName(found))
        sources = {"change": self.change, "log": log_of(tables), "sent": self._sent}
        self._lacking = cut_off(made(LACKING, sources, self.joins))

    def suspects(self) -> dict[str, DataFrame]:
        """Return the lines that leave somebody out, after the batch; of logs with a hole also those of before that lie
        behind it."""
        if self._lacking is None:
            return {}
        found = self._sent.join(self._lacking, LINE, "left_semi")
        holes = F.broadcast(log_of(self._tables).select("router", "hole_seq"))
        behind = self._before.join(holes, "router", "inner").where("seq >= hole_seq").drop("hole_seq")
        return {"lacking": found.unionByName(behind)}

    def kinds(self) -> DataFrame:
        """Return a row `left-out` for each line that leaves somebody out."""
        found = self.change.where("false") if self._lacking is None else self._lacking
        return found.select(F.lit("left-out").alias("kind"))

    def told(self) -> Rows:
        """Return the claims."""
        assert self._lacking is not None
        sums = self._lacking.groupBy("router", F.col("subscriber").alias("peer")).agg(
            F.sum("n").alias("count"), F.min("seq").alias("seq"), F.min_by("joined_seq", "seq").alias("accepted_seq")
        )
        ids = self._sent.select(*LINE, F.lower(F.hex("first_id")).alias("id"))
        found = rows(named(sums.join(ids, LINE, "inner"), self._tables.routers))
        return [row_of("left-out", row, row["id"]) for row in found]


def sent(lines: DataFrame) -> DataFrame:
    """Return the accepted multicasts among these lines, as `presence_sql.LACKING` reads them, with their `first_id`."""
    found = lines.where("event = 'accepted' AND parcel IS NOT NULL AND accepted.n > 0 AND accepted.kind = 'multicast'")
    return found.select(
        *LINE,
        "accepted.n",
        F.col("accepted.signer").alias("group_key"),
        *("accepted.peer", "accepted.recipients"),
        F.expr("CASE WHEN size(accepted.recipients) = 1 THEN accepted.recipients[0] END").alias("alone"),
        F.expr("CASE WHEN size(accepted.recipients) = 1 THEN lower(hex(accepted.ids)) END").alias("alone_ids"),
        F.expr("substring(accepted.ids, 1, 32)").alias("first_id"),
    )
