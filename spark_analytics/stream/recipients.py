"""Claims about the recipients that accepted lines name, from batch to batch: who was left out of them, and who is named
wrongly. Each line is judged once (`judged_once`)."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_analytics.batch.findings import Rows
from spark_analytics.batch.gold.names import named, rows
from spark_analytics.batch.judged_claims import log_of, made, odd, room
from spark_analytics.judgement import owed_sql
from spark_analytics.judgement.conflicts import row_of
from spark_analytics.judgement.presence_sql import LACKING

from .judged_once import LINE, BatchLines, JudgedOnce


class Recipients:
    """The claims after a batch. `words`: rows of `findings.tally`."""

    def __init__(self, lines: BatchLines, words: Rows) -> None:
        self._tables, self.change = lines.tables, lines.change
        self.joins = sum(row["lines"] for row in words if row["event"] == "join")
        self._lacking: JudgedOnce | None = None
        if self.joins:
            self._lacking = JudgedOnce(lines, "lacking", sent, LACKING, "sent", self.joins)
        apps = lines.change.where("event = 'link_up' AND standing = 'local' AND peer IS NOT NULL")
        self._apps = F.broadcast(apps.select("router", F.col("peer").alias("app")).distinct())
        self._owed = JudgedOnce(lines, "owed_wrongly", self._odd, owed_sql.OWED, "odd")

    def suspects(self) -> dict[str, DataFrame]:
        """Return the lines to keep after the batch."""
        found = {"owed_wrongly": self._owed.kept()}
        return found if self._lacking is None else found | {"lacking": self._lacking.kept()}

    def kinds(self) -> DataFrame:
        """Return a row for each line of which there may be a claim: `left-out`, `owed-wrongly`."""
        found = self._owed.found.select(F.lit(owed_sql.CLAIM).alias("kind"))
        if self._lacking is None:
            return found
        return found.unionByName(self._lacking.found.select(F.lit("left-out").alias("kind")))

    def told(self, kinds: set[str]) -> Rows:
        """Return the claims. `kinds`: those of the rows of `kinds`."""
        found: Rows = []
        if "left-out" in kinds and self._lacking is not None:
            sums = self._lacking.found.groupBy("router", F.col("subscriber").alias("peer")).agg(
                F.sum("n").alias("count"),
                F.min("seq").alias("seq"),
                F.min_by("joined_seq", "seq").alias("accepted_seq"),
            )
            found += self._named("left-out", sums, self._lacking)
        if owed_sql.CLAIM in kinds:
            lines = self._owed.found.drop("linked_seq")
            sources = {"change": self.change, "log": log_of(self._tables), "odd": lines, "room": room(self._tables)}
            found += self._named(owed_sql.CLAIM, made(owed_sql.OWED_WRONGLY, sources, 0), self._owed)
        return found

    def _named(self, claim: str, sums: DataFrame, judged: JudgedOnce) -> Rows:
        ids = judged.read.select(*LINE, F.lower(F.hex("first_id")).alias("id"))
        told = rows(named(sums.join(ids, LINE, "inner"), self._tables.routers))
        return [row_of(claim, row, row["id"]) for row in told]

    def _odd(self, lines: DataFrame) -> DataFrame:
        """Return the accepted lines among these that `owed_sql.OWED` reads, of apps those that were ever connected."""
        said = lines.where("event = 'accepted' AND parcel IS NOT NULL AND accepted.n > 0")
        said = said.select(*LINE, "accepted.n", "accepted.recipients", "accepted.ids", F.col("accepted").alias("said"))
        found = odd(said, F.expr("substring(ids, 1, 32)").alias("first_id"))
        return found.where("app IS NULL").unionByName(found.join(self._apps, ["router", "app"], "left_semi"))


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
