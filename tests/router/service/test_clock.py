"""The clocks that rules get."""

from __future__ import annotations

import time

from router.service import clock


def test_the_steady_clock_runs_on_while_the_machine_sleeps() -> None:
    before_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    now = clock.now()
    assert before_s <= now.mono_s <= clock.steady_s() <= time.clock_gettime(time.CLOCK_BOOTTIME)
    slept_s = before_s - time.clock_gettime(time.CLOCK_MONOTONIC)
    assert round(now.slept_s - slept_s) == 0
