"""Shrinking finds a small part of a schedule that fails, and never one that does not."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from router.chaos.schedule import Fault, Schedule
from router.chaos.shrinking import shrinking


def faults(count: int) -> Schedule:
    return tuple(Fault(number, float(number), 1.0, "kill", "core-1") for number in range(1, count + 1))


def shrunk(whole: Schedule, fails: Callable[[frozenset[int]], bool]) -> tuple[list[int], int]:
    """Return the numbers that are left, and how many schedules were tried."""
    trial, tried = shrinking(whole), 0
    try:
        candidate = next(trial)
        while True:
            tried += 1
            candidate = trial.send(fails(frozenset(one.number for one in candidate)))
    except StopIteration as end:
        return [one.number for one in end.value], tried


def test_one_fault_of_many_is_found_in_few_rounds() -> None:
    assert shrunk(faults(64), lambda numbers: 37 in numbers)[0] == [37]
    assert shrunk(faults(64), lambda numbers: 37 in numbers)[1] <= 13


def test_two_faults_that_fail_together_are_found() -> None:
    assert shrunk(faults(20), lambda numbers: {3, 17} <= numbers)[0] == [3, 17]


def test_what_fails_without_any_fault_has_none() -> None:
    assert shrunk(faults(9), lambda numbers: True) == ([], 1)
    assert shrunk((), lambda numbers: True) == ([], 0)


def test_what_does_not_fail_again_stays_whole() -> None:
    assert shrunk(faults(4), lambda numbers: False)[0] == [1, 2, 3, 4]


@given(st.integers(1, 40), st.sets(st.integers(1, 40), min_size=1, max_size=5))
def test_what_is_left_is_the_smallest_that_fails(count: int, needed: set[int]) -> None:
    needed = {1 + one % count for one in needed}
    assert shrunk(faults(count), needed.issubset)[0] == sorted(needed)
