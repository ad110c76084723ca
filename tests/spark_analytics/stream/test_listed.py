"""Until when a stream has read all that came is told by its triggers: no log is late that was only not read yet."""

from __future__ import annotations

from typing import Any

import pytest

from spark_analytics.stream.listed import Listed, is_idle


def waiting(message: str = "Waiting for next trigger", *, is_active: bool = False) -> dict[str, Any]:
    return {"message": message, "isDataAvailable": False, "isTriggerActive": is_active}


def test_all_that_came_by_an_idle_moment_is_read_at_one_some_triggers_later() -> None:
    listed = Listed(every_s=2, files_max=None)
    polls = [(0, False), (1, True), (3, True), (4, False), (5, True), (8, False), (9, True), (10, False)]
    told = [listed.all_ns(waiting(is_active=not idle), at, 100 + at) for at, idle in polls]
    assert told == [None, None, None, None, 101, 101, 105, 105]


@pytest.mark.parametrize("every_s", [None, 0.1])
def test_moments_that_are_idle_tell_nothing_where_files_are_left_or_none_may_be_listed_between(
    every_s: float | None,
) -> None:
    listed = Listed(every_s, files_max=None)
    assert [listed.all_ns(waiting(), at, 100) for at in (0, 0.3, 1)] == [None] * 3
    assert listed.all_ns(waiting(), 9, 109) == (None if every_s is None else 100)


def test_the_first_batch_of_a_run_may_have_the_files_of_an_earlier_time() -> None:
    listed = Listed(every_s=2, files_max=None)
    assert [listed.has_all(new) for new in (1, 1, 1_000)] == [False, True, True]


def test_a_batch_of_limited_size_leaves_files_for_the_next_triggers() -> None:
    listed = Listed(every_s=2, files_max=10)
    assert [listed.has_all(new) for new in (1, 1, 2, 10, 1)] == [False, True, False, False, True]
    listed.all_ns(waiting(), 0, 100)
    listed.has_all(10)
    assert listed.all_ns(waiting(), 5, 105) is None, "more may be left"
    assert listed.all_ns(waiting(), 9, 109) == 105


@pytest.mark.parametrize(
    ("message", "is_active", "expected"),
    [
        ("Initializing sources", False, False),
        ("Getting offsets from FileStreamSource[file:/logs]", True, False),
        ("Waiting for data to arrive", False, True),
        ("Waiting for next trigger", False, True),
    ],
)
def test_a_query_is_idle_between_its_triggers(message: str, is_active: bool, expected: bool) -> None:
    assert is_idle(waiting(message, is_active=is_active)) is expected
