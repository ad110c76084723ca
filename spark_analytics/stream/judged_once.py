"""Lines that are judged by what stands before them in their log, from batch to batch.

Of a log up to its first hole, no later line makes a claim of a line before it: so each line is judged once, when its
log is whole up to it; only lines of which a claim may be made are kept, because a later one may excuse them. A file
that comes in before what was judged has the log judged anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_analytics.batch.findings import Rows
from spark_analytics.batch.gold.kept import cut_off
from spark_analytics.batch.judged_claims import log_of, made
from spark_analytics.batch.local_rows import table_of
from spark_analytics.judgement.presence_sql import NS_MAX

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


@dataclass(frozen=True, slots=True)
class BatchLines:
    """The lines of a stream at a batch. `new`, `older`: those of the batch, and those of earlier ones that are about
    accepted messages; `change`: as of `judged_claims.change_of`; `again`: as of `judged_to`."""

    past: Callable[[str], DataFrame]
    tables: Running
    new: DataFrame
    older: DataFrame
    change: DataFrame
    again: Mapping[str, int]


class JudgedOnce:
    """The lines of which a claim may be made after a batch. `suspects`: the table of the state in which they are kept;
    `pick`: returns the rows of that table of lines; `name`: by which the text reads these; `joins`: as of
    `judged_claims.made`."""

    def __init__(
        self,
        lines: BatchLines,
        suspects: str,
        pick: Callable[[DataFrame], DataFrame],
        text: str,
        name: str,
        joins: int = 0,
    ) -> None:
        logs = [(number_of(router), after) for router, after in lines.again.items()]
        told = F.broadcast(table_of(lines.new.sparkSession, logs, "router long, after long"))
        kept = lines.past(suspects).join(told, "router", "left")
        self._before = kept.where("after IS NULL OR seq <= after").select(*names_of(suspects))
        found = pick(lines.new)
        if lines.again:
            missed = pick(lines.older).join(told, "router", "inner").where("seq > after")
            found = found.unionByName(missed.drop("after"))
        self.read = cut_off(self._before.unionByName(found))
        self._log = log_of(lines.tables)
        self.found = cut_off(made(text, {"change": lines.change, "log": self._log, name: self.read}, joins))

    def kept(self) -> DataFrame:
        """Return the lines to keep after the batch; of logs with a hole also those of before that lie behind it."""
        found = self.read.join(self.found, LINE, "left_semi")
        holes = F.broadcast(self._log.select("router", "hole_seq"))
        behind = self._before.join(holes, "router", "inner").where("seq >= hole_seq").drop("hole_seq")
        return found.unionByName(behind)
