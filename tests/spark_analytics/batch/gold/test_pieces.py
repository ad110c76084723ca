"""Ranges of outward lines as bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_analytics.batch.gold import pieces

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")


def test_every_message_of_a_range_is_one_bit(spark: SparkSession) -> None:
    ranges = [(0, 0), (0, 1), (0, 32), (31, 33), (5, 100), (64, 96), (33, 33), (1023, 1024)]
    rows = [(number, start, stop) for number, (start, stop) in enumerate(ranges)]
    cut = pieces.cut(spark.createDataFrame(rows, "number int, start long, stop long")).collect()
    found = {number: set[int]() for number in range(len(ranges))}
    for row in cut:
        bits = {32 * row.block + bit for bit in range(64) if row.mask >> bit & 1}
        assert not bits & found[row.number] and 0 < row.mask < 2**32
        found[row.number] |= bits
    assert found == {number: {*range(start, stop)} for number, (start, stop) in enumerate(ranges)}
