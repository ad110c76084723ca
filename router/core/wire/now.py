"""The two clocks of a node, read at one moment."""

from __future__ import annotations

from typing import NamedTuple


class Now(NamedTuple):
    """One reading of both clocks, in nanoseconds.

    While the wall clock is doubted there are two times: the one it shows, and the one used for verdicts. `ahead_ns` is
    the first minus the second, and `wall_ns` the later of both, so that doubt shortens no accepted message's life.
    `later_ns`: how much later it was before a step back that no second source has agreed with yet.
    """

    wall_ns: int
    mono_ns: int
    ahead_ns: int = 0
    later_ns: int = 0

    @property
    def wall_s(self) -> int:
        return self.wall_ns // 1_000_000_000

    @property
    def lives_from_s(self) -> int:
        """Return the Unix second from which the ttl of a message counts that is accepted now: if a step back is undone,
        what was accepted meanwhile ends no sooner for it."""
        return (self.wall_ns + self.later_ns) // 1_000_000_000

    @property
    def judged_s(self) -> int:
        """Return the Unix second used for verdicts."""
        return (self.wall_ns - max(0, self.ahead_ns)) // 1_000_000_000

    @property
    def shown_ns(self) -> int:
        """Return the time that the wall clock shows."""
        return self.wall_ns + min(0, self.ahead_ns)

    @property
    def earliest_ns(self) -> int:
        """Return the earlier of both times: a deadline that has passed by it has passed by both."""
        return self.wall_ns - abs(self.ahead_ns)

    def judged_until_s(self, until_s: int) -> int:
        """Return the Unix second, of the time used for verdicts, until which something holds that another program of
        this machine wants until `until_s`, by the clock that may be doubted: no sooner than it means."""
        return until_s + self.judged_s - self.earliest_ns // 1_000_000_000

    @property
    def mono_s(self) -> float:
        return self.mono_ns / 1e9
