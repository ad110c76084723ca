"""The seconds at which topics are due, the earliest first, so that no event costs something for every topic."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from math import inf

from router.core.wire.crypto import PublicKey

SPARE_MIN = 64
"""Outdated entries that stay in any case; more of them than there are topics are removed."""


class DueTopics:
    """When each topic is due. A change leaves the entry before it in the heap, until that comes up or there are too
    many."""

    __slots__ = ("_at_s", "_heap")

    def __init__(self) -> None:
        self._at_s: dict[PublicKey, float] = {}
        self._heap: list[tuple[float, PublicKey]] = []

    def __repr__(self) -> str:
        return f"<{len(self._at_s)} topics, the next due at second {self.due_s:.1f}>"

    def put(self, group: PublicKey, at_s: float) -> None:
        """Set when a topic is due, in place of the time before; infinity: not at all."""
        if self._at_s.get(group, inf) == at_s:
            return
        self.end(group)
        if at_s < inf:
            self._at_s[group] = at_s
            heappush(self._heap, (at_s, group))
            if len(self._heap) > SPARE_MIN + 2 * len(self._at_s):
                self._heap = [(at_s, group) for group, at_s in self._at_s.items()]
                heapify(self._heap)

    def end(self, group: PublicKey) -> None:
        """Forget a topic."""
        self._at_s.pop(group, None)

    @property
    def due_s(self) -> float:
        """Return the earliest second; infinity: nothing is due."""
        heap = self._heap
        while heap and self._at_s.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else inf

    def take(self, now_s: float) -> list[PublicKey]:
        """Return and forget the topics that are due."""
        found = list[PublicKey]()
        while self.due_s <= now_s:
            _, group = heappop(self._heap)
            del self._at_s[group]
            found.append(group)
        return found
