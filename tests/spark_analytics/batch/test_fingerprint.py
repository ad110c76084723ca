"""Marks distinguish ranges that lie side by side from others, in Spark as in Python."""

from __future__ import annotations

from functools import reduce
from operator import xor
from random import Random
from typing import TYPE_CHECKING

import pytest

from spark_analytics.batch.conflict_findings import given_once
from spark_analytics.batch.fingerprint import mark, side_by_side

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Stretches = list[tuple[int, int]]
SIDE_BY_SIDE: Stretches = [(1, 4), (4, 5), (5, 90), (90, 91), (91, 300)]


def tallied(stretches: Stretches) -> dict[str, int]:
    marks = reduce(xor, (mark(first) ^ mark(stop) for first, stop in stretches))
    low, high = min(first for first, _ in stretches), max(stop for _, stop in stretches)
    return {"low": low, "high": high, "given": sum(stop - first for first, stop in stretches), "marks": marks}


def test_stretches_side_by_side_in_any_order_and_in_any_parts() -> None:
    shuffled = Random(1).sample(SIDE_BY_SIDE, len(SIDE_BY_SIDE))
    assert given_once([tallied(shuffled)])
    assert given_once([tallied(shuffled[:2]), tallied(shuffled[2:])])


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found[:2] + found[3:],
        lambda found: [*found, found[1]],
        lambda found: [*found, found[1], found[1]],
        lambda found: [*found[:3], (90, 92), (92, 300), (91, 92)],
        lambda found: [*found[:2], (5, 91), *found[4:], (90, 91)],
        lambda found: [*found[:2], found[1], *found[2:3], *found[4:]],
    ],
    ids=[
        "a gap",
        "one twice",
        "one three times",
        "one over two",
        "one over the next",
        "a gap as long as what is twice",
    ],
)
def test_gaps_and_overlaps_are_seen(change: object) -> None:
    assert callable(change)
    assert not given_once([tallied(change(SIDE_BY_SIDE))])


@pytest.mark.xdist_group("spark")
def test_spark_makes_the_same_marks(spark: SparkSession) -> None:
    numbers = [1, 2, 3, 1023, 1 << 31, (1 << 40) + 7, (1 << 62) - 1]
    rows = spark.createDataFrame([(at, one, one + at) for at, one in enumerate(numbers)], "at long, a long, b long")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    found = {row.at: row.marks for row in rows.groupBy("at").agg(side_by_side("a", "b").alias("marks")).collect()}
    assert found == {at: mark(one) ^ mark(one + at) for at, one in enumerate(numbers)}
