"""The order in which a full pool loses messages, under either profile.

Priorities fall along straight lines with different slopes, so messages change places as they age, and no order of all
of them can be maintained. `Ranking` reads the columns anew in each second in which it is asked, and keeps only the
weakest messages in order; a newcomer is inserted among them. Messages that have faded, at 600 s, come before all
others, the oldest first.

`FixedRanking` has the reference's order: by the priorities at the moment when each message came, never corrected.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import NamedTuple, Protocol

from .columns import Columns, Row
from .priority import LIFE_S, aged

WEAKEST_MIN, WEAKEST_SHARE = 512, 64
"""At least `WEAKEST_MIN` of the weakest messages, and one in `WEAKEST_SHARE` of all, are kept in order."""
STALE_SHARE = 64


class Ranked(NamedTuple):
    """A message in a ranking."""

    initial: float
    number: int
    create_time: int

    def priority(self, now_s: int) -> float:
        """Return the message's priority at a Unix second."""
        return aged(self.initial, self.create_time, now_s)

    def has_faded(self, now_s: int) -> bool:
        """Whether the message's priority is used up by its age."""
        return now_s - self.create_time >= LIFE_S


class Order(Protocol):
    """An order in which messages are lost."""

    def put(self, row: Row, now_s: int) -> None:
        """Add a row that was taken."""

    def weakest(self, at: int, now_s: int) -> Ranked | None:
        """Return the message that is lost after the `at` first ones; None if there is none."""

    def drop(self, count: int) -> None:
        """Remove the `count` weakest messages, in the order in which they were last returned."""

    def middle(self, now_s: int) -> float:
        """Return the median priority; there must be a message."""

    def highest(self, now_s: int) -> float:
        """Return the highest priority; there must be a message."""


class Ranking:
    """The order by current priority.

    `middle` and `highest` are computed anew in each second, and after one in 64 of the messages has come or gone."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._weakest: list[tuple[float, float, int, int]] = []
        self._gone = 0  # how many of the weakest have been removed
        self._at_s: int | None = None
        self._reckoned: tuple[int, float, float] | None = None
        self._changes = 0

    def __repr__(self) -> str:
        return f"<Ranking of {len(self._columns)} messages, the {len(self._weakest) - self._gone} weakest in order>"

    def put(self, row: Row, now_s: int) -> None:
        self._changes += 1
        if now_s != self._at_s or now_s - row.create_time >= LIFE_S:
            self._at_s = None
            return
        own = aged(row.initial, row.create_time, now_s), row.initial, row.number, row.create_time
        if self._weakest and own < self._weakest[-1]:
            insort(self._weakest, own, lo=self._gone)

    def weakest(self, at: int, now_s: int) -> Ranked | None:
        if at >= len(self._columns):
            return None
        if now_s != self._at_s or self._gone + at >= len(self._weakest):
            count = max(WEAKEST_MIN, len(self._columns) // WEAKEST_SHARE, 2 * at)
            self._weakest, self._gone, self._at_s = self._columns.weakest(count, now_s), 0, now_s
        return Ranked(*self._weakest[self._gone + at][1:])

    def drop(self, count: int) -> None:
        self._gone += count
        self._changes += count

    def middle(self, now_s: int) -> float:
        return self._reckon(now_s)[1]

    def highest(self, now_s: int) -> float:
        return self._reckon(now_s)[2]

    def _reckon(self, now_s: int) -> tuple[int, float, float]:
        found = self._reckoned
        if found is None or found[0] != now_s or self._changes > len(self._columns) // STALE_SHARE:
            found = self._reckoned = now_s, *self._columns.middle_and_highest(now_s)
            self._changes = 0
        return found


class FixedRanking:
    """The order of the reference's index."""

    def __init__(self) -> None:
        self._order: list[Ranked] = []

    def __repr__(self) -> str:
        return f"<FixedRanking of {len(self._order)} messages>"

    def put(self, row: Row, now_s: int) -> None:
        own = Ranked(row.initial, row.number, row.create_time)
        at = bisect_right(self._order, own.priority(now_s), key=lambda one: one.priority(now_s))
        self._order.insert(at, own)

    def weakest(self, at: int, now_s: int) -> Ranked | None:
        return self._order[at] if at < len(self._order) else None

    def drop(self, count: int) -> None:
        del self._order[:count]

    def middle(self, now_s: int) -> float:
        return self._order[len(self._order) // 2].priority(now_s)

    def highest(self, now_s: int) -> float:
        return self._order[-1].priority(now_s)
