"""Names of snapshots, which of them go, and when the next is due, whatever the wall clock says."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.disk.snapshot.series import (
    NUMBER_MAX,
    RETRY_S_MAX,
    RETRY_S_MIN,
    UNKNOWN_AGE_S,
    Made,
    SnapshotTimer,
    draft_name,
    expired,
    made_of,
    next_name,
    snapshot_of_draft,
)

KEY, OTHER = bytes(range(32)), bytes(32)
DAY, YEAR = 86_400, 366 * 86_400


def made(key: bytes, *times: int) -> list[Made]:
    names = list[str]()
    for at_s in times:
        names.append(next_name(key, made_of(key, names), at_s))
    return made_of(key, names)


@given(st.lists(st.integers(0, (1 << 32) - 1), max_size=20))
def test_names_tell_number_and_time_and_are_ordered_by_number(times: list[int]) -> None:
    found = made(KEY, *times)
    assert [(one.number, one.at_s) for one in found] == list(enumerate(times, 1))
    assert made_of(KEY, reversed([one.name for one in found])) == found


def test_a_node_with_another_key_goes_on_with_the_numbers_of_the_former_one() -> None:
    names = [one.name for one in made(KEY, 1, 2)] + [one.name for one in made(bytes([9] * 32), 7)]
    names.append(next_name(OTHER, made_of(OTHER, names, [KEY]), 3))
    found = made_of(OTHER, names, [KEY])
    assert [(one.number, one.at_s) for one in found] == [(1, 1), (2, 2), (3, 3)]
    assert [one.at_s for one in expired(found, 1)] == [1, 2] and made_of(KEY, names) == found[:2]


def test_a_clock_that_was_set_ahead_or_back_changes_nothing_about_which_snapshots_go() -> None:
    found = made(KEY, 1_800_000_000, 1_800_000_000 + YEAR, 1_800_000_000 + DAY, 0)
    assert [one.number for one in expired(found, 2)] == [1, 2]
    assert [expired(found, keep) for keep in (4, 5)] == [[], []]


@pytest.mark.parametrize(
    "name",
    [
        "notes.txt",
        next_name(OTHER, [], 1),
        next_name(KEY, [], 1) + "~",
        "copy of " + next_name(KEY, [], 1),
        draft_name(next_name(KEY, [], 1)),
        next_name(KEY, [], 1).replace("19700101", "19701332"),
        next_name(KEY, [], 1).replace("000001", "٠٠٠٠٠١"),
    ],
)
def test_a_name_that_this_node_did_not_give_is_none_of_its_snapshots(name: str) -> None:
    assert made_of(KEY, [name]) == []


def test_a_draft_names_its_snapshot_and_nothing_else_is_one() -> None:
    name = next_name(KEY, [], 1)
    assert snapshot_of_draft(draft_name(name)) == name
    assert [snapshot_of_draft(one) for one in (name, f".{name}", ".draft")] == ["", "", ""]


@pytest.mark.parametrize(
    ("age_s", "due_s"), [(None, 0), (0, DAY), (3600, DAY - 3600), (DAY, 0), (YEAR, 0), (-1, UNKNOWN_AGE_S)]
)
def test_first_snapshot_after_a_start_is_due_by_the_age_of_the_newest(age_s: float | None, due_s: float) -> None:
    assert SnapshotTimer(DAY, 1000.0, age_s).at_s == 1000 + due_s


def test_an_age_that_is_not_known_delays_no_snapshot_beyond_its_time() -> None:
    assert SnapshotTimer(60, 0.0, -YEAR).at_s == 60


def test_a_clock_a_year_ahead_at_the_start_makes_one_snapshot_and_not_one_for_each_day() -> None:
    due, begun = SnapshotTimer(DAY, 0.0, float(YEAR)), list[float]()
    while len(begun) < 4:
        begun.append(due.at_s)
        due.made(due.at_s)
    assert begun == [0, DAY, 2 * DAY, 3 * DAY]


def test_failures_are_tried_again_sooner_with_longer_and_longer_waits() -> None:
    due, at_s = SnapshotTimer(DAY, 0.0, None), [0.0]
    for _ in range(9):
        due.failed(at_s[-1])
        at_s.append(due.at_s)
    waits = [after - before for before, after in pairwise(at_s)]
    assert waits[:3] == [RETRY_S_MIN, 2 * RETRY_S_MIN, 4 * RETRY_S_MIN]
    assert waits[-1] == RETRY_S_MAX
    due.made(at_s[-1])
    due.failed(at_s[-1])
    assert due.at_s - at_s[-1] == RETRY_S_MIN
    assert due.age_s(at_s[-1] + 5) == 5


def test_a_failure_does_not_wait_longer_than_from_one_snapshot_to_the_next() -> None:
    due = SnapshotTimer(90, 0.0, None)
    for _ in range(5):
        due.failed(0.0)
    assert due.at_s == 90
    assert due.age_s(10.0) is None


def test_next_name_rejects_a_number_beyond_those_of_names() -> None:
    """A snapshot with a longer number would not be among those that go, and the directory would fill."""
    last = next_name(KEY, [], 1).replace("-000001-", f"-{NUMBER_MAX}-")
    assert [one.number for one in made_of(KEY, [last])] == [NUMBER_MAX]
    with pytest.raises(ValueError, match=f"{last}, which no node made: move that file"):
        next_name(KEY, made_of(KEY, [last]), 2)
    before = made_of(KEY, [last.replace(str(NUMBER_MAX), str(NUMBER_MAX - 1))])
    assert made_of(KEY, [next_name(KEY, before, 2)])
