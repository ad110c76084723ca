"""The rates at which datagrams are accepted and answered: counts in a window of time (R-D19)."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable

ROUNDING_S = 1e-6


class Pace:
    """At most `most` in any `window_s` seconds, and one of each key in `each_s`, after a first `burst` at once."""

    def __init__(self, most: int, window_s: float = 1.0, *, each_s: float = 1.0, burst: int = 1) -> None:
        self._most = most
        self._window_s = window_s
        self._each_s = each_s
        self._burst_s = burst * each_s
        self._taken: deque[tuple[float, Hashable]] = deque()
        self._used_until: dict[Hashable, float] = {}  # by key: `each_s` for each that was taken

    def __repr__(self) -> str:
        return f"<pace: {len(self._taken)} taken of {self._most} in {self._window_s:g} s>"

    def has_room(self, now_s: float) -> bool:
        """Whether a datagram of a new key may be taken now."""
        kept_s = max(self._window_s, self._burst_s)
        while self._taken and self._taken[0][0] <= now_s - kept_s:
            _, key = self._taken.popleft()
            if self._used_until.get(key, math.inf) <= now_s:
                del self._used_until[key]
        if len(self._taken) < self._most:
            return True
        return self._taken[-self._most][0] <= now_s - self._window_s

    def free_s(self, key: Hashable = None) -> float:
        """Return when one of this key may be taken again, if it may not now."""
        most_s = self._taken[-self._most][0] + self._window_s if len(self._taken) >= self._most else 0.0
        return max(most_s, self._used_until.get(key, 0.0) + self._each_s - self._burst_s) - ROUNDING_S

    def allows(self, key: Hashable, now_s: float) -> bool:
        """Whether one of this key may be taken now."""
        return self.has_room(now_s) and self._after(key, now_s) <= now_s + self._burst_s + ROUNDING_S

    def take(self, key: Hashable, now_s: float) -> bool:
        """Take one of this key, if the pace allows it."""
        if not self.allows(key, now_s):
            return False
        self._used_until[key] = self._after(key, now_s)
        self._taken.append((now_s, key))
        return True

    def _after(self, key: Hashable, now_s: float) -> float:
        """Return until when the key's share is used once one more is taken."""
        return max(now_s, self._used_until.get(key, now_s)) + self._each_s
