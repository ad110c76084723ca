"""A clock that steps: judged once, doubted only ahead, and no deadline passes by it before."""

from __future__ import annotations

import pytest

from router.core.effects import Now
from router.disk.store_terms import StoreError
from router.wall_clock import SECOND_NS, WallClock, check

START = Now(1_800_000_000 * SECOND_NS, 50 * SECOND_NS)


def after(mono_s: float, step_s: float = 0.0) -> Now:
    return Now(START.wall_ns + int((mono_s + step_s) * SECOND_NS), START.mono_ns + int(mono_s * SECOND_NS))


def test_a_clock_that_runs_with_the_steady_one_is_believed() -> None:
    clock = WallClock(START, 3600)
    assert clock.seconds(START) == 1_800_000_000 and clock.seconds(after(9.5)) == 1_800_000_009
    assert clock.look(after(1, 30), []) == 0, "half a minute is nothing to speak of"
    assert clock.seconds(after(2, 30)) == 1_800_000_032 and repr(clock) == "<wall clock: believed>"


def test_a_step_that_nobody_has_judged_ends_nothing() -> None:
    clock = WallClock(START, 3600)
    assert clock.seconds(after(3, 7200)) == 1_800_000_003


def test_a_step_ahead_is_doubted_until_a_neighbour_agrees() -> None:
    clock = WallClock(START, 3600)
    assert clock.look(after(1, 7200), [0]) == pytest.approx(7200), "what was measured before the step says nothing"
    assert clock.is_doubted and clock.seconds(after(5, 7200)) == 1_800_000_005
    assert clock.look(after(6, 7200), [-7200 * SECOND_NS]) == 0 and clock.is_doubted
    assert repr(clock) == "<wall clock: doubted>"
    assert clock.look(after(7, 7200), [7200 * SECOND_NS, 2 * SECOND_NS]) == 0 and not clock.is_doubted
    assert clock.seconds(after(8, 7200)) == 1_800_007_208


def test_a_step_back_is_believed() -> None:
    clock = WallClock(START, 3600)
    clock.look(after(1, 7200), [])
    assert clock.look(after(2), []) == pytest.approx(-7200) and not clock.is_doubted
    assert clock.seconds(after(3)) == 1_800_000_003


def test_a_start_far_ahead_of_all_that_is_known_is_doubted_until_a_neighbour_agrees() -> None:
    newest_ns, week_s = START.wall_ns - 8 * 86_400 * SECOND_NS, 7 * 86_400
    clock = WallClock(START, 3600, newest_ns, week_s)
    assert clock.is_doubted and clock.seconds(after(5)) == 1_800_000_005 - 8 * 86_400
    assert clock.look(after(6), [7200 * SECOND_NS]) == 0 and clock.is_doubted
    assert clock.look(after(7), [SECOND_NS]) == 0 and not clock.is_doubted and clock.believed(after(9)) == after(9)
    assert not WallClock(START, 3600, newest_ns, 2 * week_s).is_doubted
    assert not WallClock(START, 3600, 0, week_s).is_doubted, "nothing is known yet"


def test_a_clock_whose_times_cannot_be_kept_is_named() -> None:
    check(START)
    with pytest.raises(
        StoreError, match=r"clock of this machine is wrong: it says the year 2106, .*; set it and start"
    ):
        check(Now((1 << 32) * SECOND_NS, 0))
