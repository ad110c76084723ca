"""A rate limit: a number of tokens a second, some of which may be saved up; one for all, or one for each key."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


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


class Shares(Generic[Key]):
    """An allowance for each key, as for each router that asks. Of more than `keys_max` keys that which was used longest
    ago is forgotten; its allowance is full when it is used again."""

    __slots__ = ("_allowances", "burst", "keys_max", "per_s")

    def __init__(self, per_s: float, burst: float, keys_max: int) -> None:
        self.per_s = per_s
        self.burst = burst
        self.keys_max = keys_max
        self._allowances: dict[Key, Allowance] = {}  # the one that was used last stands last

    def __len__(self) -> int:
        return len(self._allowances)

    def __repr__(self) -> str:
        return f"<shares of {len(self)} keys, each {self.per_s:g} a second>"

    def take(self, key: Key, count: int, now: float) -> bool:
        """Take `count` tokens of this key's at `now` (monotonic seconds), and return whether there were as many."""
        allowance = self._allowances.pop(key, None) or Allowance(self.per_s, self.burst)
        while len(self._allowances) >= self.keys_max:
            del self._allowances[next(iter(self._allowances))]
        self._allowances[key] = allowance
        return allowance.take(count, now)
