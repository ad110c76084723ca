"""Write tables under a path, or in a catalog's schema, as Parquet, Delta or Iceberg."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from spark_analytics.batch.kept_rows import is_here, write_checked, write_text_checked
from spark_analytics.batch.local_rows import table_of
from spark_analytics.batch.small_texts import write_text

FORMATS = ("parquet", "delta", "iceberg")
NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""The directory of rows without a partition, by Hive's name."""


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes and reads tables. `path`: the root under which each table is a directory; with a `schema` (of a `catalog`)
    tables are written there, and only texts below the path.

    Delta and Iceberg need their jars and catalogs in the session. `is_by_python`: a path of this machine is one of this
    very process, which writes texts there itself.
    """

    path: str | None = None
    catalog: str | None = None
    schema: str | None = None
    format: str = "parquet"
    is_by_python: bool = False

    def write(self, name: str, table: DataFrame, *partitioned_by: str) -> None:
        """Write the table, replacing an earlier one of that name. Raise `NotKept` if Parquet below a path then lacks
        rows; the other formats keep lists of their files."""
        if self.schema is None and self.format == "parquet":
            write_checked(table, self.place(name), lambda rows: self._write(name, rows, partitioned_by))
        else:
            self._write(name, table, partitioned_by)

    def replace(self, name: str, table: DataFrame, partitioned_by: str) -> None:
        """Write the partitions that the table has, replacing these of an earlier one: of Parquet below a path of this
        machine."""
        rows = table.write.mode("overwrite").option("compression", "zstd").partitionBy(partitioned_by)
        rows.option("partitionOverwriteMode", "dynamic").parquet(self.place(name))

    def _write(self, name: str, table: DataFrame, partitioned_by: Sequence[str]) -> None:
        writer = table.write.format(self.format).mode("overwrite")
        if self.format == "parquet":
            writer = writer.option("compression", "zstd")
        elif self.format == "delta":
            writer = writer.option("overwriteSchema", "true")  # An earlier version may have had other columns.
        if partitioned_by:
            writer = writer.partitionBy(*partitioned_by)
        if self.schema is not None:
            writer.saveAsTable(self.place(name))
            return
        writer.save(self.place(name))
        if self.format == "parquet" and partitioned_by:
            self._write_columns(name, table, partitioned_by)

    def _write_columns(self, name: str, table: DataFrame, partitioned_by: Sequence[str]) -> None:
        """Write one file without rows if the table has none: Spark writes no file then, in which other programs find
        the columns."""
        place = self.place(name)
        if not table.sparkSession.read.schema(table.schema).parquet(place).inputFiles():
            below = "/".join(f"{column}={NO_PARTITION}" for column in partitioned_by)
            save_parquet(table.limit(0).drop(*partitioned_by).coalesce(1), f"{place}/{below}")

    def append(self, name: str, table: DataFrame, run: str) -> None:
        """Add the rows of a run to a table, in a part of their own: below a path nothing that another run writes at the
        same time can remove them."""
        writer = table.write.format(self.format)
        if self.schema is not None:
            writer.mode("append").saveAsTable(self.place(name))
        elif self.format == "parquet":
            place = f"{self.place(name)}/run={run}"
            write_checked(table, place, lambda rows: save_parquet(rows, place))
        else:
            writer.mode("append").save(self.place(name))

    def read(self, spark: SparkSession, name: str, schema: StructType) -> DataFrame:
        """Read a table with these columns and its partition columns; the schema is needed for a table without rows."""
        if self.schema is not None:
            return spark.table(self.place(name))
        reader = spark.read.format(self.format)
        return (reader.schema(schema) if self.format == "parquet" else reader).load(self.place(name))

    def text(self, spark: SparkSession, name: str, text: str) -> None:
        """Write a text as the only part of a directory below the path; do nothing without a path. Raise `NotKept`."""
        if self.path is not None and self.is_by_python and is_here(self.path):
            write_text(self._below(name), text)
        elif self.path is not None:
            table, place = table_of(spark, [(text,)], "value string").coalesce(1), self._below(name)
            writer = table.write.mode("overwrite").option("lineSep", "\n")
            write_text_checked(spark, place, text, lambda: writer.text(place))

    def place(self, name: str) -> str:
        if self.schema is None:
            return self._below(name)
        return ".".join(f"`{part}`" for part in (self.catalog, self.schema, name) if part)

    def _below(self, name: str) -> str:
        return f"{(self.path or '').rstrip('/')}/{name}"


def save_parquet(rows: DataFrame, place: str) -> None:
    """Write the rows as Parquet to this place, replacing what is there."""
    rows.write.mode("overwrite").option("compression", "zstd").parquet(place)
