"""How much is listened to and answered: numbers of things in a window of time (D19)."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable


class Pace:
    """At most `most` in any `window_s` seconds, and of each key one."""

    def __init__(self, most: int, window_s: float = 1.0, *, each_s: float = 1.0) -> None:
        self._most = most
        self._window_s = window_s
        self._each_s = each_s
        self._taken: deque[tuple[float, Hashable]] = deque()
        self._last: dict[Hashable, float] = {}

    def __repr__(self) -> str:
        return f"<pace: {len(self._taken)} taken of {self._most} in {self._window_s:g} s>"

    def has_room(self, now_s: float) -> bool:
        """Whether anything may be taken now, of a key that has not been yet."""
        kept_s = max(self._window_s, self._each_s)
        while self._taken and self._taken[0][0] <= now_s - kept_s:
            _, key = self._taken.popleft()
            if self._last.get(key, now_s) <= now_s - self._each_s:
                del self._last[key]
        if len(self._taken) < self._most:
            return True
        return self._taken[-self._most][0] <= now_s - self._window_s

    def take(self, key: Hashable, now_s: float) -> bool:
        """Take one of this key, if the pace allows it."""
        if not self.has_room(now_s) or self._last.get(key, now_s - self._each_s) > now_s - self._each_s:
            return False
        self._last[key] = now_s
        self._taken.append((now_s, key))
        return True
