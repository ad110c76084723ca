"""Commits are made in the loop while they hold it up for a small share of the time, and none takes long."""

from __future__ import annotations

from itertools import accumulate, repeat

import pytest

from router.disk.commit_speed import HELD_UP_MAX, PAUSE_S_MAX, QUICK_S, CommitSpeed


def observe(speed: CommitSpeed, took_s: float, *, apart_s: float, times: int, from_s: float = 0.0) -> list[bool]:
    """Observe commits that begin so far apart; return after each whether commits are quick."""
    found = []
    for began_s in accumulate(repeat(apart_s, times), initial=from_s):
        speed.observe(began_s, began_s + took_s)
        found.append(speed.is_quick)
    return found


def test_commits_are_quick_once_dozens_were_and_for_none_of_dozens_after_one_that_took_seconds() -> None:
    speed = CommitSpeed()
    assert not speed.is_quick, "nothing is known yet"
    found = observe(speed, QUICK_S / 100, apart_s=0.1, times=100)
    assert not any(found[:16]) and all(found[60:])
    observe(speed, 5 * QUICK_S, apart_s=0.1, times=0, from_s=20)
    assert speed.is_quick, "one slow commit among quick ones counts little"
    observe(speed, 100 * QUICK_S, apart_s=0.1, times=0, from_s=30)
    found = observe(speed, QUICK_S / 100, apart_s=0.1, times=100, from_s=40)
    assert not any(found[:30]) and found[-1]


@pytest.mark.parametrize(
    ("took_s", "apart_s", "is_quick"),
    [
        (0.9 * QUICK_S, 1.0, True),
        (1.1 * QUICK_S, 1.0, False),
        (0.001, 0.9 * 0.001 / HELD_UP_MAX, False),
        (0.001, 1.1 * 0.001 / HELD_UP_MAX, True),
        (0.0, 0.001, True),
    ],
)
def test_commits_are_quick_by_their_length_and_by_their_share_of_the_time(
    took_s: float, apart_s: float, is_quick: bool
) -> None:
    speed = CommitSpeed()
    assert observe(speed, took_s, apart_s=apart_s, times=1_000)[-1] is is_quick


def test_a_burst_after_a_long_silence_goes_to_the_thread_after_a_while() -> None:
    speed = CommitSpeed()
    assert observe(speed, 0.001, apart_s=3_600.0, times=200)[-1]
    found = observe(speed, 0.001, apart_s=0.002, times=200, from_s=1e6)
    assert found[0] and not found[-1] and sum(found) < 160, f"silences count for {PAUSE_S_MAX} s at most"
