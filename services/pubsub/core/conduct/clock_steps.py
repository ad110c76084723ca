"""The last time when the clock was set, as far as a service can tell: earlier records by that clock prove nothing."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from struct import Struct

from router.service import contract as c

KEPT = b"clock"
STEADY_S = 2.0
"""Seconds by which the clock may deviate from the steady one, which cannot be set, before it counts as set."""
_ROW = Struct(">dd")


class ClockSteps:
    """The last step of the clock, kept on disk because a service that starts again did not see the time in between.
    After a restart of the machine, whose monotonic clock begins anew, the clock counts as set."""

    def __init__(self, kept: Mapping[bytes, bytes]) -> None:
        found = kept.get(KEPT)
        self._ahead_s: float
        self._set_s: float
        self._ahead_s, self._set_s = (inf, -inf) if found is None else _ROW.unpack(found)

    def __repr__(self) -> str:
        return f"<the clock was set at monotonic second {self._set_s:.0f}>"

    def look(self, now: c.Now) -> list[c.Deed]:
        """Check whether the clock has been set; called with every event."""
        ahead_s = now.wall_s - now.mono_s
        if abs(ahead_s - self._ahead_s) <= STEADY_S:
            return []
        self._ahead_s, self._set_s = ahead_s, now.mono_s
        return [c.Put(KEPT, _ROW.pack(ahead_s, now.mono_s))]

    def is_steady_for(self, seconds: float, now: c.Now) -> bool:
        """Whether the clock has not been set in the last `seconds`."""
        return now.mono_s - self._set_s >= seconds
