"""Which lines a batch keeps to judge a router's clock by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_analytics.batch.gold.names import rows
from spark_analytics.batch.silver import Part
from spark_analytics.stream import links
from spark_analytics.stream.door_and_clock import clock_lines, settled
from spark_analytics.stream.handovers import number_of
from spark_analytics.stream.state import ADDED, added_up

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

HERE = "1" * 64
SECOND = 10**9


@pytest.mark.parametrize(
    ("off_s", "kept"),
    [
        ([0, 0, 0, 0, 0, 0, 0], [1, 4, 5, 7]),
        ([0, 0.9, 0, 0, 0, 0, 0], [1, 2, 4, 5, 7]),
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


def test_lines_turned_away_become_one_when_the_neighbours_log_is_a_day_past_them(spark: SparkSession) -> None:
    """The second neighbour's log ends too early, the third has none here, and the fourth's clock is a day ahead."""
    lines = [(1, peer, "refused", "blocked", seq, seq * SECOND, 5) for peer in "abcd" for seq in (10, 20)]
    turned = spark.createDataFrame(lines, ADDED["turned"])
    day = 86_400
    logs = [(2, "a", (day + 20) * SECOND), (3, "b", (day + 19) * SECOND), (4, "d", (2 * day + 19) * SECOND)]
    ends = spark.createDataFrame(logs, "router long, key string, end_ns long")
    apart = spark.createDataFrame(
        [(1, 3, -day * SECOND, 0), (1, 4, 0, day * SECOND), (2, 1, 0, day * SECOND)],
        "router long, taker long, lower_ns long, upper_ns long",
    )
    found = added_up("turned", settled(turned, ends, apart))
    assert sorted((row["peer"], row["t"], row["seq"], row["count"]) for row in rows(found)) == [
        ("a", 0, 10, 10),
        *(("b", t, seq, 5) for seq, t in ((10, 0), (20, 20 * SECOND))),
        *(("c", seq * SECOND, seq, 5) for seq in (10, 20)),
        *(("d", t, seq, 5) for seq, t in ((10, 0), (20, 20 * SECOND))),
    ]
