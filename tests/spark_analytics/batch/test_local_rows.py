"""Small tables from rows of the driver: every value, and a plan that costs nothing to print."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_analytics.batch.gold.kept import cut_off
from spark_analytics.batch.local_rows import ROWS_MAX, table_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")
SCHEMA = "number long, name string, holes array<struct<first:long,last:long>>"
SHOWN = "spark.sql.maxPlanStringLength"


def test_rows_are_as_they_were_given(spark: SparkSession) -> None:
    texts = "a'\"\\\n:x", "${spark.app.name}", "\\u0027 \\' $ :rows", "é"
    rows = [*((-(1 << 63), text, [(1, 2), (3, 4)]) for text in texts), (None, None, None), (1, "", [])]
    assert [tuple(row) for row in table_of(spark, rows, SCHEMA).collect()] == rows
    assert table_of(spark, [], SCHEMA).collect() == []
    assert table_of(spark, [], SCHEMA).schema == spark.createDataFrame([], SCHEMA).schema


def test_what_is_made_of_no_rows_is_planned_as_nothing(spark: SparkSession) -> None:
    """Also beyond a table that is cut off, which else begins a plan of its own."""
    joined = table_of(spark, [], SCHEMA).join(spark.range(9).withColumnRenamed("id", "number"), "number")
    plan = cut_off(joined).groupBy("name").count()._jdf.queryExecution().optimizedPlan()
    assert plan.nodeName() == "LocalRelation"


def test_a_table_that_is_cut_off_is_joined_with_what_it_was_made_of(spark: SparkSession) -> None:
    """Also where that begins with a table without rows."""
    numbers = spark.range(3).selectExpr("id AS number", "2 * id AS twice")
    every = table_of(spark, [], "number long, twice long").unionByName(cut_off(numbers))
    some = cut_off(every.where("twice > 2"))
    found = every.select("number").join(some, "number", "left").collect()
    assert sorted(map(tuple, found)) == [(0, None), (1, None), (2, 4)]


def test_rows_of_thousands_of_files_are_in_no_printed_plan_and_need_no_python(spark: SparkSession) -> None:
    count = 4_000
    assert count < ROWS_MAX
    table = table_of(spark, [(number, f"file {number}", []) for number in range(count)], SCHEMA)
    before = spark.conf.get(SHOWN)
    spark.conf.set(SHOWN, str(1 << 20))
    try:
        plan = table._jdf.queryExecution().executedPlan().toString()
    finally:
        spark.conf.set(SHOWN, str(before))
    assert "LocalTableScan" in plan and "file 1" not in plan and "ExistingRDD" not in plan
    assert table.count() == count
