"""What a batch tells of two logs, from what earlier batches kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from spark_analytics.batch.gold.kept import CutOff
from spark_analytics.batch.gold.names import rows
from spark_analytics.batch.judged_claims import change_of, pong_of
from spark_analytics.batch.log_ends import COLUMNS
from spark_analytics.batch.span import Span
from spark_analytics.stream import handovers, state
from spark_analytics.stream.door_and_clock import DoorAndClock
from spark_analytics.stream.judged_once import BatchLines
from spark_analytics.stream.recipients import Recipients
from spark_analytics.stream.stream_tables import Running
from spark_analytics.stream.two_logs import TwoLogs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.xdist_group("spark")

HERE, THERE = "1" * 64, "2" * 64
NUMBERS = {key: handovers.number_of(key) for key in (HERE, THERE)}
A, B = NUMBERS[HERE], NUMBERS[THERE]
HOUR = 3600 * 10**9
NEVER, COMES, HAD, KNOWN, LOST = (word.ljust(32) for word in (b"never", b"comes", b"had", b"known", b"lost"))
MISSING = [(NEVER, A, B, 20, 0, HOUR, 60, "unicast"), (COMES, A, B, 20, 1, HOUR, 60, "unicast")]
WORDS: list[dict[str, Any]] = [
    {"router": HERE, "event": "refused", "reason": "no-route", "at_door": False, "lines": 1, "count": 1},
    {"router": HERE, "event": "expired", "reason": "ttl-expired", "at_door": False, "lines": 1, "count": 1},
]
CUSTODY = (
    "router string, recipient string, acked long, followed long, broken long, unknown long,"
    " lower_ns long, upper_ns long"
)
HANDOVER = f"{state.SCHEMAS['waiting']}, there_t long, is_first boolean, most_ns long, custody string, is_open boolean"


class Batch:
    """A batch in which THERE accepts some messages, and its log ends at `end_ns`. `past`: tables of the state."""

    def __init__(
        self, spark: SparkSession, end_ns: int, *, whole: bool = True, pruned_to: int = 0, **past: list[tuple[Any, ...]]
    ) -> None:
        self._spark, self._past = spark, past
        logs: list[tuple[Any, ...]] = [
            (NUMBERS[key], key, whole, whole, pruned_to, False, 0, end_ns, None, None, 0, 0, False, [], None, None, [])
            for key in NUMBERS
        ]
        routers = spark.createDataFrame(logs, f"number long, {COLUMNS}")
        custody = spark.createDataFrame([(HERE, THERE, 1, 1, 0, 0, -5, 5), (THERE, HERE, 1, 1, 0, 0, -5, 5)], CUSTODY)
        none = spark.createDataFrame([], state.SCHEMAS["open"])
        others = spark.createDataFrame([], state.SCHEMAS["links"])
        given = {"custody": custody, "every": none, "clock": self._table("clock", [])}
        span = Span(10 * end_ns)
        tables = Running(none, others, routers, span, False, 2, True, CutOff(), {}, given)
        arrivals = self._arrivals()
        recipients = Recipients(BatchLines(self.past, tables, none, none, change_of(others), {}), WORDS)
        self.two = TwoLogs(self.past, tables, WORDS, arrivals, none, (), None, recipients)
        hits = self._table("ids", past.get("ids", []))
        new = arrivals.select(*state.names_of("ids"))
        handover = spark.createDataFrame([], HANDOVER)
        self.two.meet(handovers.accepted_id(new, hits), new.unionByName(hits), handover)
        own = {name: self._table(name, []) for name in ("turned", "handed", "clock", "acked", "left", "pulled")}
        doors = DoorAndClock(self.past, tables, WORDS, own, recipients.change, pong_of(others))
        self.told = self.two.told(recipients, doors)

    def past(self, name: str) -> DataFrame:
        return self._table(name, self._past.get(name, []))

    def _table(self, name: str, found: list[tuple[Any, ...]]) -> DataFrame:
        return self._spark.createDataFrame(found, state.COLUMNS.get(name) or state.SCHEMAS[name])

    def _arrivals(self) -> DataFrame:
        schema = f"{state.SCHEMAS['ids']}, i long, ttl_s long, kind string"
        new = [(id, B, 2 * HOUR, 7, A, False, 1, 1, 7, at, 60, "unicast") for at, id in enumerate((COMES, HAD))]
        return self._spark.createDataFrame(new, schema)


@pytest.mark.parametrize(
    ("end_ns", "whole", "count", "waiting", "final"),
    [(2 * HOUR, True, 1, 1, 0), (26 * HOUR, True, 1, 0, 1), (26 * HOUR, False, 0, 1, 0)],
    ids=["within a day", "a day later", "a hole"],
)
def test_a_message_that_a_whole_log_never_tells_of_counts_for_good_a_day_later(
    spark: SparkSession, end_ns: int, whole: bool, count: int, waiting: int, final: int
) -> None:
    batch = Batch(spark, end_ns, whole=whole, missing=MISSING, followed_to=[(A, B, 21)])
    assert sum(row["count"] for row in batch.told["unsent"]) == count
    assert all(row["first"] == {"seq": 20, "i": 0, "id": NEVER.hex()} for row in batch.told["unsent"])
    left = rows(batch.two.suspects()["missing"].where(f"router = {A}"))
    assert [bytes(row["id"]) for row in left] == [NEVER] * waiting
    assert [row["count"] for row in rows(batch.two.added()["unsent"])] == [1] * final


@pytest.mark.parametrize(("whole", "waiting"), [(True, 0), (False, 1)], ids=["whole", "a hole"])
def test_a_multicast_of_which_a_pruned_log_need_not_tell_is_not_kept(
    spark: SparkSession, whole: bool, waiting: int
) -> None:
    """A hole may still be filled by the beginning."""
    missing = [(NEVER, A, B, 20, 0, HOUR, 60, "multicast")]
    batch = Batch(spark, 2 * HOUR, whole=whole, pruned_to=9, missing=missing, followed_to=[(A, B, 21)])
    assert batch.told["unsent"] == []
    assert batch.two.suspects()["missing"].where(f"router = {A}").count() == waiting


def test_what_ended_on_the_way_is_told_when_the_other_log_has_it(spark: SparkSession) -> None:
    line = (A, 1, B, "expired", "ttl-expired", 9, 3 * HOUR, 2, "multicast", "g", HOUR, HAD + LOST)
    known = [(KNOWN, A, B, "expired", "ttl-expired", 8, 3 * HOUR)]
    said = [(KNOWN, A, HOUR, 3, -1, False, 1, 1, 3), (KNOWN, B, HOUR, 4, A, False, 1, 1, 4)]
    batch = Batch(spark, 9 * HOUR, gone=[line], gone_there=known, ids=[*said, (HAD, A, HOUR, 1, -1, False, 1, 1, 1)])
    assert {bytes(row["id"]) for row in rows(batch.two.wanted)} == {KNOWN, HAD}
    assert [row["count"] for row in batch.told["went_on"]] == [2]
    assert {bytes(row["id"]) for row in rows(batch.two.suspects()["gone_there"])} == {KNOWN, HAD}
    batch = Batch(spark, 9 * HOUR, gone_there=known, ids=[*said, (KNOWN, A, 2 * HOUR, 9, -1, False, 1, 1, 9)])
    assert batch.told["went_on"] == [], "accepted here once more, so it may have been sent twice"
