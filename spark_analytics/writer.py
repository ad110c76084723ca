"""The one writer: tables under a path, or in a catalog's schema, as Parquet, Delta or Iceberg."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

FORMATS = ("parquet", "delta", "iceberg")


@dataclass(frozen=True, slots=True)
class Writer:
    """`path`: the root under which each table is a directory; else `schema` (and `catalog`): where tables have names.

    Delta and Iceberg need their jars and catalogs in the session.
    """

    path: str | None = None
    catalog: str | None = None
    schema: str | None = None
    format: str = "parquet"

    def write(self, name: str, table: DataFrame, *partitioned_by: str) -> None:
        """Put the table in place of an earlier one of that name."""
        writer = table.write.format(self.format).mode("overwrite")
        if self.format == "parquet":
            writer = writer.option("compression", "zstd")
        if partitioned_by:
            writer = writer.partitionBy(*partitioned_by)
        if self.path is not None:
            writer.save(self.place(name))
        else:
            writer.saveAsTable(self.place(name))

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        if self.path is not None:
            return spark.read.format(self.format).load(self.place(name))
        return spark.table(self.place(name))

    def text(self, spark: SparkSession, name: str, text: str) -> None:
        """A text beside the tables, as the one part of a directory; nothing in a catalog."""
        if self.path is not None:
            table = spark.createDataFrame([(text,)], "value string")
            table.coalesce(1).write.mode("overwrite").option("lineSep", "\n").text(self.place(name))

    def place(self, name: str) -> str:
        if self.path is not None:
            return f"{self.path.rstrip('/')}/{name}"
        return ".".join(f"`{part}`" for part in (self.catalog, self.schema, name) if part)
