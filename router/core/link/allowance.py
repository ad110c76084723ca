"""A rate limit: a number of tokens a second, some of which may be saved up."""

from __future__ import annotations


class Allowance:
    """A token bucket: `per_s` tokens a second, at most `burst` saved up. A rate of 0 allows everything."""

    __slots__ = ("_at", "_left", "burst", "per_s")

    def __init__(self, per_s: float, burst: float) -> None:
        self.per_s = per_s
        self.burst = burst
        self._left = burst
        self._at: float | None = None

    def take(self, count: int, now: float) -> bool:
        """Take `count` tokens at `now` (monotonic seconds) and return True, or return False if there are too few."""
        if not self.per_s:
            return True
        if self._at is not None:
            self._left = min(self.burst, self._left + (now - self._at) * self.per_s)
        self._at = now
        if self._left < count:
            return False
        self._left -= count
        return True

    def charge(self, count: int, now: float) -> None:
        """Take `count` tokens even if there are fewer; none can be taken until the debt is made up for."""
        if self.per_s:
            self.take(0, now)
            self._left -= count
