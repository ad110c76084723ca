"""Ranges as bits, and parcels that an older router's line does not name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_analytics.batch.gold import pieces
from spark_analytics.batch.gold.accepted import STEP

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


def test_an_unnamed_parcel_is_the_last_that_begins_before(spark: SparkSession) -> None:
    step = STEP
    starts = [1, 5, 300, step - 1, 3 * step + 7]
    asked = [0, 1, 4, 5, 299, 300, step - 2, step - 1, step, 3 * step, 3 * step + 6, 3 * step + 7, 9 * step]
    accepted = spark.createDataFrame([(1, start) for start in starts] + [(2, 77)], "router int, parcel long")
    ranges = spark.createDataFrame([(1, None, first) for first in asked], "router int, parcel long, range_first long")
    found = {row.range_first: row.parcel for row in pieces._placed(ranges, accepted).collect()}
    assert found == {first: max((start for start in starts if start <= first), default=None) for first in asked}
