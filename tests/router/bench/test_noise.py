"""The limits from which a machine is too noisy for a verdict, and from which a difference is one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from router.bench.goals import RowGoal
from router.bench.noise import OTHERS_MAX, PAIRS_MAX, Noise, Spread, Watch, paired
from router.bench.yardstick import Yardstick


def test_a_goal_is_met_by_the_worse_end_of_a_spread() -> None:
    least, most = RowGoal("Fast", "rate", 2.0), RowGoal("Small", "size", 60.0, more=False)
    assert (least.met(2.0), least.met(1.9), most.met(60.0), most.met(60.1)) == (True, False, True, False)
    assert not least.met(Spread(2.5, 1.9, 2.6)) and not most.met(Spread(50.0, 40.0, 61.0))
    assert least.met(Spread(2.5, 2.0, 2.6)) and most.met(Spread(50.0, 40.0, 60.0))


@pytest.mark.parametrize(
    ("found", "spread"),
    [
        ([0.2, 0.1, 0.3, 0.5, 0.4], Spread(0.3, 0.1, 0.5)),  # 1 in 16 that the median lies outside
        (list(range(8)), Spread(3.5, 1, 6)),  # 1 in 14
        (list(range(21)), Spread(10, 6, 14)),  # 1 in 13
    ],
)
def test_the_median_lies_between_two_of_the_ordered_values(found: list[float], spread: Spread) -> None:
    assert Spread.of(found) == spread


def test_what_cannot_be_told_from_nothing_is_not_given_as_a_number() -> None:
    assert str(Spread(-0.081, -0.156, 0.297)) == "not distinguishable from 0 (-0.156 to 0.297)"
    assert str(Spread(0.05, 0.02, 0.08)) == "0.050 (0.020 to 0.080)"


@pytest.mark.parametrize(
    ("each", "pairs"),
    [
        ([0.01, 0.02, 0.03, 0.04, 0.05], 5),  # clearly less
        ([0.21, 0.22, 0.23, 0.24, 0.25], 5),  # clearly more
        ([0.05, 0.15], PAIRS_MAX),  # never clear
    ],
)
def test_pairs_are_measured_until_it_is_clear(each: list[float], pairs: int) -> None:
    more = iter(each * PAIRS_MAX)
    spread, found = paired(lambda: next(more), 0.1)
    assert len(found) == pairs and spread == Spread.of(found)


def test_a_noisy_machine_is_one_that_was_robbed_or_changed_its_pace() -> None:
    assert not Noise(0.01, 0.1, 0.05).is_too_much
    assert all(Noise(*one).is_too_much for one in ((0.06, 0.0, 0.0), (0.0, 0.2, 0.0), (0.0, 0.0, 0.2)))
    assert str(Noise(0.06, 0.2, 0.3)) == "steal 6%, yardsticks before and after differ by 20%, others take 0.30 cores"


def test_another_process_at_work_is_seen() -> None:
    rate = Yardstick(1.0, 1.0, 1.0)
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            assert Watch(rate).noise(rate).others > OTHERS_MAX
        finally:
            process.kill()
