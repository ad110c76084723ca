"""The wall clock as far as it is believed: one that ran far ahead of the steady clock is doubted."""

from __future__ import annotations

from collections.abc import Iterable

from router.core.effects import Now

SECOND_NS = 1_000_000_000


class WallClock:
    """Looked at about once a second. Between two looks, and while the wall clock is doubted, the steady one counts on
    from the last second that was believed; so no deadline passes by a step that nobody has judged yet."""

    def __init__(self, now: Now, step_s_max: float) -> None:
        self._step_ns_max = step_s_max * SECOND_NS
        self._last = self._believed = now
        self.is_doubted = False

    def __repr__(self) -> str:
        return f"<wall clock: {'doubted' if self.is_doubted else 'believed'}>"

    def seconds(self, now: Now) -> int:
        """The Unix second that deadlines are judged by."""
        return (self._believed.wall_ns + now.mono_ns - self._believed.mono_ns) // SECOND_NS

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
