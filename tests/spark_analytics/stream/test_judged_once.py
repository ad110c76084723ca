"""Which lines of which logs a batch judges for subscribers left out."""

from __future__ import annotations

import pytest

from spark_analytics.stream.judged_once import judged_to

A, B = "a", "b"


def words(*logs: tuple[str, int, int]) -> list[dict[str, object]]:
    return [{"router": router, "first_seq": first, "last_seq": last} for router, first, last in logs]


@pytest.mark.parametrize(
    ("judged", "before", "new", "holes", "after", "again"),
    [
        ({}, [], [(A, 1, 9), (B, 5, 9)], {B: 1}, {A: 9}, {}),
        ({A: 9}, [(A, 1, 9)], [(A, 10, 12), (A, 11, 15)], {}, {A: 15}, {}),
        ({A: 9}, [(A, 1, 9)], [(A, 20, 25)], {A: 10}, {A: 9}, {}),
        ({A: 4}, [(A, 1, 4), (A, 6, 9)], [(A, 5, 5), (A, 20, 25)], {A: 10}, {A: 9}, {A: 4}),
        ({A: 9}, [(A, 1, 9), (A, 20, 25)], [(A, 10, 19)], {}, {A: 25}, {A: 9}),
        ({A: 9}, [(A, 5, 9)], [(A, 1, 4)], {}, {A: 9}, {A: 0}),
        ({A: 9}, [(A, 5, 9)], [(A, 1, 3)], {A: 4}, {A: 3}, {A: 0}),
        ({A: 9}, [(A, 1, 9), (B, 3, 9)], [], {}, {A: 9, B: 9}, {B: 0}),
    ],
    ids=["first", "next", "a hole", "later", "the hole is filled", "before its begin", "a hole before", "no new lines"],
)
def test_lines_are_judged_once_when_their_log_is_whole_up_to_them(
    judged: dict[str, int],
    before: list[tuple[str, int, int]],
    new: list[tuple[str, int, int]],
    holes: dict[str, int],
    after: dict[str, int],
    again: dict[str, int],
) -> None:
    assert judged_to(judged, words(*before), words(*new), holes) == (after, again)
