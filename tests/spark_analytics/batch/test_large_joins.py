"""A table of which the files are small because its keys repeat is not handed whole to each task."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_analytics.batch.session import ADAPTIVE, prepare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 400_000
"""So many rows take 60 MB of memory, and 2 MB on disk."""
HANDED_BYTES = 10 << 20
"""Up to this size Spark hands a table to each task."""
KEY = "repeat(char(97 + cast(abs(hash(id + {0})) % 20 AS int)), 64)"


def _steps(plan: Any) -> Iterator[str]:
    yield plan.nodeName()
    for number in range(plan.children().size()):
        yield from _steps(plan.children().apply(number))


@pytest.mark.xdist_group("spark")
def test_a_large_table_in_small_files_is_not_handed_to_each_task(spark: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "queue_minute")
    columns = f"{KEY.format(0)} AS router", f"{KEY.format(1)} AS recipient", "id div 9 AS minute"
    rows = spark.range(0, ROWS, 1, 1).selectExpr(*columns)
    rows.write.option("compression", "zstd").parquet(place)
    assert sum(path.stat().st_size for path in Path(place).iterdir()) < HANDED_BYTES // 3
    prepare(spark)
    before = str(spark.conf.get(ADAPTIVE))
    spark.conf.set(ADAPTIVE, "false")
    table = spark.read.parquet(place)
    joined = table.join(table.withColumnRenamed("minute", "before"), ["router", "recipient"], "inner")
    steps = {*_steps(joined._jdf.queryExecution().executedPlan())}
    spark.conf.set(ADAPTIVE, before)
    assert "SortMergeJoin" in steps and "BroadcastExchange" not in steps
