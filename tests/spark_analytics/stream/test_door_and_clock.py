"""Which lines a batch keeps to judge a router's clock by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_analytics.batch.gold.names import rows
from spark_analytics.batch.silver import Part
from spark_analytics.stream import links
from spark_analytics.stream.door_and_clock import clock_lines
from spark_analytics.stream.handovers import number_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

HERE = "1" * 64
SECOND = 10**9


@pytest.mark.parametrize(
    ("off_s", "kept"),
    [
        ([0, 0, 0, 0, 0, 0, 0], [1, 4, 5, 7]),
        ([0, 0.9, 0, 0, 0, 0, 0], [1, 4, 5, 7]),
        ([0, 0, 0, 0, 0, 900, 0], [1, 4, 5, 6, 7]),
        ([0, 0, 900, 900, 900, 900, 900], [1, 2, 3, 4, 5, 7]),
    ],
    ids=["right", "within a second", "a line", "for good"],
)
def test_the_ends_of_files_and_the_lines_at_jumps_are_kept(
    spark: SparkSession, off_s: list[float], kept: list[int]
) -> None:
    """Events 1 to 4 are a file, 5 to 7 another, ten seconds apart."""
    lines = [
        (number_of(HERE), 1, seq, int(10 * seq * SECOND + by_s * SECOND), 10 * seq * SECOND)
        for seq, by_s in enumerate(off_s, 1)
    ]
    table = spark.createDataFrame(lines, "router long, boot long, seq long, t long, mono long")
    starts = links.starts(spark, [Part("a", HERE, 1, 4), Part("b", HERE, 5, 7)])
    assert sorted(row["seq"] for row in rows(clock_lines(table, starts))) == kept
