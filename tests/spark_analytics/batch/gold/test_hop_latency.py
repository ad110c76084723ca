"""Buckets of latencies in Spark are those of the other engines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_analytics.batch.gold.hop_latency import bucket
from spark_analytics.judgement import latency

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.xdist_group("spark")
def test_a_value_has_the_same_bucket_in_python_and_in_spark(spark: SparkSession) -> None:
    near = {2**power + more for power in range(62) for more in (-2, -1, 0, 1, 2)} | {*range(600), 2**63 - 1}
    values = sorted(value for value in near if value >= 0)
    table = spark.createDataFrame([(value,) for value in values], "v bigint")
    found = {row.v: row.bucket for row in table.select("v", bucket("v").alias("bucket")).collect()}
    assert found == {value: latency.bucket(value) for value in values}
