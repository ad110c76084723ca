"""Write the tables that are as large as the logs: by UTC date, in few files, sorted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_analytics.batch.local_rows import table_of
from spark_analytics.batch.span import Span
from spark_analytics.judgement.evidence import File
from spark_analytics.judgement.log_files import FileFacts

from . import bronze
from .packed import is_packed
from .session import ADAPTIVE
from .writer import Writer

FILE_BYTES = 768 << 20
"""The size of a file's rows in Spark's shuffle; as Parquet they measured 4.6 times less, so about 170 MiB."""
_FILE_BYTES = "spark.sql.adaptive.advisoryPartitionSizeInBytes"


def write_events(spark: SparkSession, events: DataFrame, span: Span, writer: Writer) -> None:
    """Write silver. Within a file the lines that accept messages are sorted by the id of their first one, and all other
    lines, which come before them, by parcel: so a search for either skips most of a file."""
    _write(spark, "events", events.drop("number"), span, writer, "ids", "router", "parcel", "seq")


def write_raw(
    spark: SparkSession,
    files: Iterable[File],
    facts: Iterable[FileFacts],
    uris: Mapping[str, str],
    span: Span,
    writer: Writer,
) -> None:
    """Write bronze: every unprocessed line, header and footer too, of every file that Spark can read, but of copies
    only one."""
    facts = list(facts)
    digests = {one.path: one.digest for one in facts}
    packed = {one.path for one in facts if one.error and is_packed(one.path)}
    known = [file for file in files if file.status != "copy" and file.path not in packed]
    read = {file.path: uris[file.path] for file in known if file.path in uris}
    rows = [(uri, name, digests[name]) for name in read for uri in bronze.spellings(read[name])]
    sources = table_of(spark, rows, "file string, segment string, digest string")
    raw = bronze.events_raw(bronze.text_lines(spark, list(read.values())))
    named = raw.join(F.broadcast(sources), "file", "inner").drop("file")
    _write(spark, "events_raw", named, span, writer, "segment", "seq")


def _write(spark: SparkSession, name: str, table: DataFrame, span: Span, writer: Writer, *order: str) -> None:
    """Write a table partitioned by `date`, the day of the event time; null for a line without a time."""
    dated = table.withColumn("date", span.date())
    # As SQL, because DataFrame.hint of Spark 3.5 takes no column.
    even = spark.sql("SELECT /*+ REBALANCE(date) */ * FROM {dated}", dated=dated)
    laid = even.sortWithinPartitions("date", *order)
    with _set(spark, {ADAPTIVE: "true", _FILE_BYTES: str(FILE_BYTES)}):  # A table is rebalanced by adaptive plans only.
        writer.write(name, laid, "date")


@contextmanager
def _set(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, earlier in before.items():
            if earlier is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, earlier)
