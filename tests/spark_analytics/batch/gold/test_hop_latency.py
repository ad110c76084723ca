"""Buckets of latencies in Spark are those of the other engines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_analytics.batch.gold.hop_latency import bucket
from spark_analytics.batch.local_rows import table_of
from spark_analytics.judgement import latency

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.xdist_group("spark")


def buckets(spark: SparkSession) -> tuple[dict[int, int], dict[int, int]]:
    """Return the buckets of values near all powers of two, as Spark finds them and as Python does."""
    near = {2**power + more for power in range(62) for more in (-2, -1, 0, 1, 2)} | {*range(600), 2**63 - 1}
    values = sorted(value for value in near if value >= 0)
    table = table_of(spark, [(value,) for value in values], "v bigint")
    found = {row.v: row.bucket for row in table.select("v", bucket("v").alias("bucket")).collect()}
    return found, {value: latency.bucket(value) for value in values}


def test_a_value_has_the_same_bucket_in_python_and_in_spark(spark: SparkSession) -> None:
    found, expected = buckets(spark)
    assert found == expected


@pytest.mark.long  # Only there does Spark compile its expressions.
def test_a_value_has_the_same_bucket_in_compiled_plans(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.codegen.wholeStage") == "true"
    found, expected = buckets(spark)
    assert found == expected
