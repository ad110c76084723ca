"""`audit_history` below a path: a row for each run, in a directory of its own, of which the newest stay."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterable
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_analytics.batch.local_rows import table_of
from spark_analytics.batch.session import from_java
from spark_analytics.batch.span import Span
from spark_analytics.batch.writer import Writer
from spark_analytics.report.history import COLUMNS, history_row

NAME = "audit_history"
PARTS_MAX = 1_000
"""The newest runs of which a directory stays, each a small file: a nightly audit's of nearly three years."""
_DATED = re.compile(r"run=(\d{20})-[0-9a-f]{32}")
_PART = re.compile(r"run=[0-9a-f-]+")


def write_history(spark: SparkSession, found: dict[str, Any], span: Span, writer: Writer) -> None:
    """Add a row for this run to `audit_history`, and remove those of the oldest runs beyond `PARTS_MAX`."""
    written_ns = time.time_ns()
    row = history_row(found, span.as_of_ns, written_ns)
    table = table_of(spark, [row], ", ".join(map(" ".join, COLUMNS.items())))
    writer.append(NAME, table.coalesce(1), f"{written_ns:020}-{uuid.uuid4().hex}")
    if writer.schema is None and writer.format == "parquet":
        remove_oldest(spark, writer.place(NAME))


def too_old(names: Iterable[str], most: int) -> list[str]:
    """Return the names of the directories `run=…` beyond the newest `most`. One whose name tells no time was written by
    an earlier version, before all others. Names of anything else are left out."""
    parts = sorted((name for name in names if _PART.fullmatch(name)), key=lambda name: (_written(name), name))
    return parts[: max(0, len(parts) - most)]


def _written(name: str) -> str:
    found = _DATED.fullmatch(name)
    return found[1] if found else ""


def remove_oldest(spark: SparkSession, place: str) -> None:
    """Remove the parts of the oldest runs in the table at this place, by Hadoop's file system. Two jobs at once may
    remove the same ones. A session over Connect cannot remove any; what cannot be removed now is left to the next
    run."""
    try:
        jvm, session = spark._jvm, spark._jsparkSession
        root = jvm.org.apache.hadoop.fs.Path(place)  # type: ignore[union-attr]
        files = root.getFileSystem(session.sessionState().newHadoopConf())
        parts = {status.getPath().getName(): status.getPath() for status in files.listStatus(root)}
        for name in too_old(parts, PARTS_MAX):
            files.delete(parts[name], True)
    except Exception as error:
        if not (isinstance(error, AttributeError | PySparkException) or from_java(error)):
            raise
