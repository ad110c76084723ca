"""Mark the tables of a place as unfinished for as long as a job writes them there.

The mark is the row of `audit_run`: its verdict is "unfinished" from before the first table until after the last. So a
reader can tell the tables of a job that was killed, and of two jobs at once, from those of one audit.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_analytics.batch.local_rows import table_of
from spark_analytics.batch.session import from_java
from spark_analytics.batch.writer import Writer
from spark_analytics.report.history import UNFINISHED

NAME = "audit_run"
COLUMNS = "engine string, as_of string, verdict string, run string"


class OverlappingAudits(Exception):
    """Another audit wrote its tables to the same place meanwhile; the text says where, and what to do."""


@dataclass(frozen=True, slots=True)
class RunMark:
    """The mark of one job. `id`: of the run, 32 hex digits; it stands in the summary's `run` too."""

    spark: SparkSession
    writer: Writer
    as_of: str
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def begin(self) -> None:
        """Say that the tables there are unfinished, before the first is written."""
        self._write(self.id)

    def check(self) -> None:
        """Raise `OverlappingAudits` if the place is not, or no longer, marked by this job; it then stays marked as
        unfinished, so the other job, if it still runs, finds the same. To be called when all else is written."""
        found = self._read()
        if found == self.id:
            return
        self._write(uuid.uuid4().hex)
        raise OverlappingAudits(
            f"another audit wrote its tables to {self.writer.place('').rstrip('/')} while this one did, and what is"
            f" there is of both: its audit_run says {UNFINISHED}; give each audit a place of its own, and run both"
            " again"
        )

    def _write(self, run: str) -> None:
        row = ("spark", self.as_of, UNFINISHED, json.dumps({"id": run}))
        self.writer.write(NAME, table_of(self.spark, [row], COLUMNS).coalesce(1))

    def _read(self) -> str | None:
        """Return the id of the run that last marked the place; None if there is none, or it is just being replaced."""
        schema = table_of(self.spark, [("", "", "", "")], COLUMNS).schema
        try:
            if self.writer.schema is not None:
                self.spark.catalog.refreshTable(self.writer.place(NAME))
            rows = self.writer.read(self.spark, NAME, schema).collect()
        except Exception as error:
            if not (isinstance(error, PySparkException) or from_java(error)):
                raise
            return None
        return json.loads(rows[0]["run"]).get("id") if len(rows) == 1 else None
