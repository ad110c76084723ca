"""Which messages a full pool loses first, in the order of either profile.

Priorities are straight lines whose slopes differ, so two messages may change places as they age. Those of one second of
creation never do: `Ranking` keeps a heap for each such second, and compares the weakest of each. At most 600 of them
are live, however many messages there are. What has faded, at 600 s, comes before all that is live, the oldest first.

`FixedRanking` has the reference's order: that of the priorities at the moment in which each message came, never mended.
"""

from __future__ import annotations

from bisect import bisect_right
from heapq import heapify, heappop, heappush
from typing import NamedTuple, Protocol

import numpy as np

from .columns import Columns
from .priority import LIFE_S, aged

FRONTS_PER_SECOND = 8
STALE_SHARE = 64


class Ranked(NamedTuple):
    """A message in an order: of those of one second the weakest is the least, and of equals the one that came first."""

    initial: float
    number: int
    place: int
    create_time: int

    def priority(self, now_s: int) -> float:
        """Return its priority at a Unix second."""
        return aged(self.initial, self.create_time, now_s)

    def has_faded(self, now_s: int) -> bool:
        """Whether it is so old that nothing of its priority is left."""
        return now_s - self.create_time >= LIFE_S


class Order(Protocol):
    """An order in which messages are lost."""

    def __len__(self) -> int: ...

    def put(self, own: Ranked, now_s: int) -> None:
        """Take a message in, or back."""

    def first(self, now_s: int) -> Ranked | None:
        """Return the message that is lost first."""

    def pop(self, now_s: int) -> Ranked:
        """Take out the message that is lost first."""

    def middle(self, now_s: int) -> float:
        """Return the priority that half of the messages are below; there must be one."""

    def highest(self, now_s: int) -> float:
        """Return the highest priority; there must be a message."""


class Ranking:
    """The order by current priority.

    `middle` and `highest` are reckoned anew each second, and after every 64th part of the messages has come or gone.
    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._count = 0
        self._seconds: dict[int, list[Ranked]] = {}  # a heap for each second of creation
        self._oldest: list[int] = []  # a heap of the seconds, each once, some of which may be empty by now
        self._listed: set[int] = set()
        self._fronts: list[tuple[float, Ranked]] = []  # a heap of the seconds' weakest, and of former ones
        self._fronts_at: int | None = None
        self._reckoned: tuple[int, float, float] | None = None
        self._changes = 0

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"<Ranking of {self._count} messages of {len(self._seconds)} seconds>"

    def put(self, own: Ranked, now_s: int) -> None:
        heap = self._seconds.setdefault(own.create_time, [])
        if own.create_time not in self._listed:
            self._listed.add(own.create_time)
            heappush(self._oldest, own.create_time)
        heappush(heap, own)
        self._count += 1
        self._changes += 1
        if heap[0] is own:
            self._lead(own)

    def first(self, now_s: int) -> Ranked | None:
        while self._oldest and self._oldest[0] not in self._seconds:
            self._listed.discard(heappop(self._oldest))
        if not self._oldest:
            return None
        oldest = self._seconds[self._oldest[0]][0]
        return oldest if oldest.has_faded(now_s) else self._first_live(now_s)

    def pop(self, now_s: int) -> Ranked:
        own = self.first(now_s)
        assert own is not None, "nothing is left to be taken out"
        heap = self._seconds[own.create_time]
        heappop(heap)
        self._count -= 1
        self._changes += 1
        if heap:
            self._lead(heap[0])
        else:
            del self._seconds[own.create_time]
        return own

    def middle(self, now_s: int) -> float:
        return self._reckon(now_s)[1]

    def highest(self, now_s: int) -> float:
        return self._reckon(now_s)[2]

    def _lead(self, own: Ranked) -> None:
        """Hear that a message is the weakest of its second now."""
        if self._fronts_at is not None:
            heappush(self._fronts, (own.priority(self._fronts_at), own))

    def _first_live(self, now_s: int) -> Ranked:
        if now_s != self._fronts_at or len(self._fronts) > FRONTS_PER_SECOND * (len(self._seconds) + 8):
            self._fronts_at = now_s
            self._fronts = [(heap[0].priority(now_s), heap[0]) for heap in self._seconds.values()]
            heapify(self._fronts)
        while True:
            own = self._fronts[0][1]
            heap = self._seconds.get(own.create_time)
            if heap is not None and heap[0] is own:
                return own
            heappop(self._fronts)

    def _reckon(self, now_s: int) -> tuple[int, float, float]:
        found = self._reckoned
        if found is None or found[0] != now_s or self._changes > self._count // STALE_SHARE:
            priorities = self._columns.priorities(now_s)
            middle = len(priorities) // 2
            highest = float(priorities.max())
            found = self._reckoned = now_s, float(np.partition(priorities, middle)[middle]), highest
            self._changes = 0
        return found


class FixedRanking:
    """The order of the reference's index."""

    def __init__(self) -> None:
        self._order: list[Ranked] = []

    def __len__(self) -> int:
        return len(self._order)

    def __repr__(self) -> str:
        return f"<FixedRanking of {len(self)} messages>"

    def put(self, own: Ranked, now_s: int) -> None:
        at = bisect_right(self._order, own.priority(now_s), key=lambda one: one.priority(now_s))
        self._order.insert(at, own)

    def first(self, now_s: int) -> Ranked | None:
        return self._order[0] if self._order else None

    def pop(self, now_s: int) -> Ranked:
        return self._order.pop(0)

    def middle(self, now_s: int) -> float:
        return self._order[len(self._order) // 2].priority(now_s)

    def highest(self, now_s: int) -> float:
        return self._order[-1].priority(now_s)
