"""One schedule of deadlines for many owners: the next one is known at once, and a changed one costs a heap's push."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from math import inf
from typing import Generic, TypeVar

Owner = TypeVar("Owner")
STALE_SHARE = 4
"""Entries for each owner that are kept before those that changed since are dropped."""


class Deadlines(Generic[Owner]):
    """The deadline of each owner, by a clock that never steps; infinity: none."""

    def __init__(self) -> None:
        self._at_s: dict[Owner, float] = {}
        self._heap: list[tuple[float, int, Owner]] = []
        self._count = 0

    def __repr__(self) -> str:
        return f"<Deadlines of {len(self._at_s)}>"

    @property
    def next_s(self) -> float:
        """Return when the first one is due; infinity if there is none."""
        self._drop_stale()
        return self._heap[0][0] if self._heap else inf

    def set(self, owner: Owner, at_s: float) -> None:
        """Let this be the owner's deadline, in place of an earlier one."""
        if self._at_s.get(owner, inf) == at_s:
            return
        if at_s == inf:
            del self._at_s[owner]
            return
        self._at_s[owner] = at_s
        self._count += 1
        heappush(self._heap, (at_s, self._count, owner))
        if len(self._heap) > STALE_SHARE * (len(self._at_s) + 1):
            self._heap = [one for one in self._heap if self._at_s.get(one[2]) == one[0]]
            heapify(self._heap)

    def due(self, now_s: float) -> list[Owner]:
        """Return those whose deadline has come, in order, and forget it."""
        found = []
        while self.next_s <= now_s:
            found.append(heappop(self._heap)[2])
            del self._at_s[found[-1]]
        return found

    def _drop_stale(self) -> None:
        while self._heap and self._at_s.get(self._heap[0][2]) != self._heap[0][0]:
            heappop(self._heap)
