"""The places of tables and texts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from samples.published_tables import Published, published

from spark_analytics.batch.writer import Writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_places() -> None:
    assert Writer("s3a://bucket/audit/").place("delivery") == "s3a://bucket/audit/delivery"
    assert Writer(schema="audit").place("delivery") == "`audit`.`delivery`"
    assert Writer("/page", "lake", "audit").place("delivery") == "`lake`.`audit`.`delivery`"


@pytest.mark.xdist_group("spark")
def test_tables_go_to_the_schema_and_texts_below_the_path(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("CREATE SCHEMA written")
    writer = Writer(str(tmp_path / "out"), schema="written")
    for seq in (1, 2):
        table = spark.createDataFrame([(seq, "x")], "seq long, day string")
        writer.write("events", table, "day")
    writer.text(spark, "summary.json", "{}")
    Writer(schema="written").text(spark, "summary.json", "{}")
    assert [tuple(row) for row in writer.read(spark, "events", table.schema).collect()] == [(2, "x")]
    assert [row.tableName for row in spark.sql("SHOW TABLES IN written").collect()] == ["events"]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["summary.json"]
    spark.sql("DROP SCHEMA written CASCADE")


@pytest.mark.xdist_group("spark")
def test_a_table_without_rows_is_read_as_it_was_written(spark: SparkSession, tmp_path: Path) -> None:
    writer, table = Writer(str(tmp_path)), spark.createDataFrame([], "seq long, day string")
    writer.write("events", table, "day")
    assert writer.read(spark, "events", table.drop("day").schema).drop("day").collect() == []
    assert published(tmp_path, "events") == Published([("seq", "BIGINT")], [])


@pytest.mark.xdist_group("spark")
def test_a_partition_is_added_to_a_table_without_rows(spark: SparkSession, tmp_path: Path) -> None:
    writer, table = Writer(str(tmp_path)), spark.createDataFrame([(7, "2026-01-01")], "seq long, day string")
    writer.write("events", table.where("seq < 7"), "day")
    writer.replace("events", table, "day")
    assert [tuple(row) for row in writer.read(spark, "events", table.schema).collect()] == [(7, "2026-01-01")]
    assert published(tmp_path, "events").rows == [(7,)]
