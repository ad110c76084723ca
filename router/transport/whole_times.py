"""Times at which tasks look at something again and again: the same for all that do so as often, so that a process that
does nothing else wakes once for all of them."""

from __future__ import annotations

import trio


def next_whole_s(period_s: float) -> float:
    """Return the next time of trio's clock that is a whole multiple of the period, in seconds."""
    return (trio.current_time() // period_s + 1) * period_s
