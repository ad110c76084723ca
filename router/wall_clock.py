"""The wall clock as far as it is believed: one that ran far ahead of the steady clock, or of all that is known from
before the start, is doubted."""

from __future__ import annotations

import time
from collections.abc import Iterable

from router.core.effects import Now
from router.core.lifetime import UINT32_MAX
from router.disk.store_terms import StoreError

SECOND_NS = 1_000_000_000
WALL_S_MAX = UINT32_MAX - 366 * 86_400  # what ends up to a year from now has a Unix second of 32 bits


def check(now: Now) -> None:
    """`StoreError` if the store could not hold the times of a node that starts now."""
    if now.wall_s > WALL_S_MAX:
        said = f"the clock of this machine is wrong: it says the year {time.gmtime(now.wall_s).tm_year}"
        raise StoreError(f"{said}, and no time after 2105 can be kept; set it and start again: nothing was touched")


class WallClock:
    """Looked at about once a second. Between two looks, and while the wall clock is doubted, the steady one counts on
    from the last second that was believed; so no deadline passes by a step that nobody has judged yet."""

    def __init__(self, now: Now, step_s_max: float, newest_ns: int = 0, ahead_s_max: float = 0.0) -> None:
        """`newest_ns`: the latest wall time known from before the start, 0: none. Further ahead of it than that, the
        clock is doubted from the start."""
        self._step_ns_max = step_s_max * SECOND_NS
        self._last = self._believed = now
        self.is_doubted = bool(newest_ns) and now.wall_ns - newest_ns > ahead_s_max * SECOND_NS
        if self.is_doubted:
            self._believed = Now(newest_ns, now.mono_ns)

    def __repr__(self) -> str:
        return f"<wall clock: {'doubted' if self.is_doubted else 'believed'}>"

    def seconds(self, now: Now) -> int:
        """The Unix second that deadlines are judged by."""
        return self.believed(now).wall_s

    def believed(self, now: Now) -> Now:
        """The same as a reading of both clocks."""
        return Now(self._believed.wall_ns + now.mono_ns - self._believed.mono_ns, now.mono_ns)

    def look(self, now: Now, offsets_ns: Iterable[int]) -> float:
        """By how many seconds it stepped since the last look; 0: by none to speak of.

        A step ahead is doubted until one of the neighbours' clocks, so far from ours, agrees. A step back is not: then
        nothing ends before its time.
        """
        ahead_ns = now.wall_ns - self._last.wall_ns - (now.mono_ns - self._last.mono_ns)
        self._last = now
        stepped = abs(ahead_ns) > self._step_ns_max
        if stepped:
            self.is_doubted = ahead_ns > 0
        elif self.is_doubted:
            self.is_doubted = not any(abs(one) < self._step_ns_max for one in offsets_ns)
        if not self.is_doubted:
            self._believed = now
        return ahead_ns / SECOND_NS if stepped else 0.0
