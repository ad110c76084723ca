"""Handovers of one batch: which can be summed for good, and which may still tell more of the clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_analytics.batch.gold import custody
from spark_analytics.stream import handovers
from spark_analytics.stream.state import SCHEMAS, State

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

HERE, THERE, ELSEWHERE = 1, 2, 3
LOGS = "number long, router string, is_whole boolean, start_ns long, end_ns long, pruned_to long, is_restored boolean"


def test_copy_is_final_when_its_first_acceptance_is_known(spark: SparkSession) -> None:
    """A copy of which the first acceptance comes in a later batch keeps its place among those that wait. What it tells
    of its id is compared with what others tell."""
    taken = [
        (b"own", THERE, HERE, 1, 0, "multicast", 10, 40),
        (b"known", THERE, HERE, 2, 0, "copy", 20, 40),
        (b"later", THERE, HERE, 3, 0, "copy", 20, 40),
        (b"had", THERE, HERE, 4, 0, "copy", 20, 40),
    ]
    said, lie = (False, 7, 9, 1), (True, 8, 9, 2)
    old = [(b"own", THERE, 15, 1, HERE, *said), (b"known", HERE, 12, 2, -1, *said)]
    new = [
        (b"known", THERE, 25, 1, HERE, *said), (b"later", THERE, 26, 2, HERE, *said),
        (b"had", THERE, 5, 3, ELSEWHERE, *said), (b"had", HERE, 20, 4, -1, *lie),
    ]  # fmt: skip
    ids = handovers.accepted_id(spark.createDataFrame(new, SCHEMAS["ids"]), spark.createDataFrame(old, SCHEMAS["ids"]))
    news = handovers.news(ids)
    assert news == handovers.News(messages=2, accepted_again=0, early=0, unlike=1)
    assert handovers.distinct(spark, State(messages=3), news).collect() == [(5, 0, 1)]
    met = custody.met(spark.createDataFrame(taken, SCHEMAS["waiting"]), ids)
    logs = spark.createDataFrame([(THERE, "there", True, 0, 99, 0, False)], LOGS)
    judged = custody.judged(met, custody.clock(met, logs), logs, {})
    rows = {bytes(row.id): row for row in judged.collect()}
    assert {one: (row.custody, row.most_ns, row.is_first) for one, row in rows.items()} == {
        b"own": ("followed", 5, True), b"known": ("followed", 13, True), b"later": ("followed", None, True),
        b"had": ("followed", None, False),
    }  # fmt: skip
    assert {(row.lower_ns, row.upper_ns) for row in rows.values()} == {(26 - 40, 5)}
    final = {bytes(row.id) for row in judged.where(handovers.IS_FOLLOWED).collect()}
    assert final == {b"own", b"known", b"had"}


@pytest.mark.parametrize(
    ("moves", "fate"), [({}, "broken"), ({THERE: 40}, "unknown"), ({HERE: 20, THERE: 9}, "broken")]
)
def test_a_log_must_go_on_by_as_much_longer_as_either_clock_was_set(
    moves: dict[int, int], fate: str, spark: SparkSession
) -> None:
    taken = [(b"had", THERE, HERE, 1, 0, "multicast", 10, 40), (b"lacked", THERE, HERE, 2, 0, "multicast", 20, 60)]
    fact = (False, 7, 9, 1)
    ids = spark.createDataFrame([(b"had", THERE, 15, 1, HERE, *fact)], SCHEMAS["ids"])
    none = spark.createDataFrame([], SCHEMAS["ids"])
    met = custody.met(spark.createDataFrame(taken, SCHEMAS["waiting"]), handovers.accepted_id(ids, none))
    logs = spark.createDataFrame([(THERE, "there", True, 0, 99, 0, False)], LOGS)
    judged = custody.judged(met, custody.clock(met, logs), logs, moves)
    assert {bytes(row.id): row.custody for row in judged.collect()} == {b"had": "followed", b"lacked": fate}
