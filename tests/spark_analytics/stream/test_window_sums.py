"""Sums by the hour or the day tell of each window of a summary what sums by the minute tell."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from spark_analytics.batch.findings import Rows
from spark_analytics.batch.gold import queue_minute
from spark_analytics.batch.gold.names import rows
from spark_analytics.batch.gold.pieces import EVENTS
from spark_analytics.batch.local_rows import table_of
from spark_analytics.report.summary import Windows, step_of
from spark_analytics.stream import window_sums
from spark_analytics.stream.state import ADDED, COUNTS, names_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")
DAY = 1440


def test_windows_stay_multiples_of_what_sums_are_kept_by() -> None:
    """However logs grow: the first minute may be earlier, the last one later."""
    chance = random.Random(5)
    for _ in range(300):
        first = last = chance.randrange(30_000_000, 31_000_000)
        grain, step = 1, 0
        for _ in range(60):
            first -= chance.choice((0, 0, 0, 1, 50, DAY))
            last += chance.choice((1, 59, 400, DAY, 9 * DAY))
            before, step = step, step_of(first, last)
            assert step >= before and step % grain == 0
            grain = window_sums.grain_of(step)
    assert [window_sums.grain_of(step) for step in (1, 30, 60, 180, 720, DAY, 3 * DAY)] == [1, 1, 60, 60, 60, DAY, DAY]


def _units(chance: random.Random) -> Rows:
    """Return rows of `units`, of which one is at the edge of an hour and of a day."""
    minutes = [DAY - 1, DAY, *(chance.randrange(3 * DAY) for _ in range(40))]
    return [
        {"router": chance.randrange(2), "recipient": chance.choice("xy"), "minute": minute}
        | {"hole_first": chance.choice((None, 7)), "is_within": chance.random() < 0.9}
        | {name: chance.randrange(5) for name in COUNTS}
        | {"pending_due_ns": None, "due_ns": minute}
        for minute in minutes
    ]


@pytest.mark.parametrize("grain", [1, 60, DAY])
def test_units_of_a_window_are_those_of_its_minutes(spark: SparkSession, grain: int) -> None:
    found = _units(random.Random(grain))
    table = table_of(spark, [tuple(row[name] for name in names_of("units")) for row in found], ADDED["units"])
    sums, expected = Counter[tuple[object, ...]](), Counter[tuple[object, ...]]()
    for row in found:
        for name in COUNTS:
            window = row["minute"] // grain * grain
            expected[row["router"], window, row["hole_first"], row["is_within"], name] += row[name]
    coarse = window_sums.units(table, grain)
    for row in rows(coarse):
        for name in COUNTS:
            sums[row["router"], row["minute"], row["hole_first"], row["is_within"], name] += row[name]
    assert sums == expected
    assert coarse.columns == names_of("window_units")


@pytest.mark.parametrize("grain", [1, 60, DAY])
def test_queues_are_as_long_at_the_end_of_a_window_as_by_the_minute(spark: SparkSession, grain: int) -> None:
    """Also where a clock lets messages end before they are accepted, and the depth comes from another minute."""
    chance = random.Random(grain)
    units = [row | {"hole_first": None, "is_within": True} for row in _units(chance)]
    table = table_of(spark, [tuple(row[name] for name in names_of("units")) for row in units], ADDED["units"])
    ends = [
        (chance.randrange(2), chance.choice("xyz"), chance.randrange(3 * DAY), chance.randrange(5), 0, 0, depth)
        for depth in (*range(40), None)
    ]
    ended = table_of(spark, ends, ADDED["ended"])
    coarse = window_sums.queues(table, ended, grain)
    windows = Windows(grain, 0, 2 * DAY)
    found, expected = (
        {tuple(row.values()) for row in rows(queue_minute.by_window(queues, windows))}
        for queues in (queue_minute.queues(coarse, coarse), queue_minute.queues(ended, table))
    )
    assert found == expected
    assert len(found) > 5


def test_the_windows_of_earlier_batches_are_folded_to_the_same_length(spark: SparkSession) -> None:
    columns = ADDED["window_waits"]
    table = table_of(spark, [(1, minute, True, 3, 1, 2) for minute in (0, 59, 60, DAY)], columns)
    for grain, windows in ((60, [0, 0, 60, DAY]), (DAY, [0, 0, 0, DAY])):
        made = window_sums.settled(grain)
        assert set(made) == {"window_units", "window_waits", "window_queues"}
        assert [row["minute"] for row in rows(made["window_waits"](table))] == windows


def test_sums_of_a_router_have_its_messages_and_its_odd_ends(spark: SparkSession) -> None:
    ended = table_of(spark, [(1, "x", 5, 9, 2, 1, None), (1, "y", 7, 9, 1, 0, 4)], ADDED["ended"])
    lines = table_of(
        spark, [(1, 5, 10, 3), (1, 9, 1, 0), (2, 6, 4, 0)], "router long, minute long, n long, copies long"
    )
    none = table_of(spark, [], ADDED["waits"])
    units = table_of(spark, [], ADDED["units"])
    closed = {"units": units, "waits": none, "ended": ended}
    found = window_sums.of_closed(closed, lines, 1)["router_sums"]
    names = ("router", "first", "last", "n", "copies", "outside", "early")
    assert {tuple(row[name] for name in names) for row in rows(found)} == {
        (1, 5, 9, 11, 3, 3, 1),
        (2, 6, 6, 4, 0, None, None),
    }
    [late] = rows(window_sums.of_closed(closed, None, 1)["router_sums"])
    assert [late[name] for name in names] == [1, None, None, None, None, 3, 1]


def test_only_another_router_keeps_its_waits_by_itself(spark: SparkSession) -> None:
    """The waits of acknowledged messages tell of a hop, those of delivered ones of the router alone."""
    acked, delivered = EVENTS.index("acked"), EVENTS.index("delivered")
    lines = [
        (1, one, code, minute, True, 4, 1, minute) for one in "xy" for code in (acked, delivered) for minute in (5, 6)
    ]
    found = window_sums.hops(table_of(spark, lines, ADDED["waits"]))
    assert {(row["recipient"], row["code"], row["count"], row["max_ns"]) for row in rows(found)} == {
        ("x", acked, 2, 6),
        ("y", acked, 2, 6),
        (None, delivered, 4, 6),
    }
