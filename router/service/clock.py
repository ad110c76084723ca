"""The clocks of this machine, in the form that rules get."""

from __future__ import annotations

import time

from router.service.contract import Now

_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def steady_s() -> float:
    """Return the seconds of `Now.mono_s`, a clock that cannot be set and that runs on while the machine sleeps."""
    return time.clock_gettime(_STEADY)


def now() -> Now:
    """Read the clocks. Linux's monotonic clock stops while the machine sleeps, so the difference shows for how long."""
    steady = steady_s()
    return Now(time.time(), steady, steady - time.clock_gettime(time.CLOCK_MONOTONIC))
