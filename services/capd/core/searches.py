"""A queue of the searches of apps, served one asker after the other, so that many of one asker delay nobody else.

A search is answered at once while the units of this turn last; the rest waits for the next turn, after other work.
Waiting searches are lost when the process ends: their askers get no answer, and ask again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from router.core.link.allowance import Allowance
from router.core.wire.crypto import PublicKey

from .messages import PAGE_IDS_MAX, PAGE_MESSAGES_MAX, Query
from .nexa.limits import QUERY_UNITS, UNIT_ROWS, answer_units

UNITS_PER_S, UNITS_BURST, ASKERS_MAX = 2_000.0, 40_000.0, 4_096
"""The allowance of one asker, in the units of Nexa's neighbours, and the most askers for which it is remembered."""
TURN_UNITS = 400
"""Units of searches in one turn, of all askers together: some 20 ms."""
WAITING_OF_ONE_MAX, WAITING_MAX = 256, 4_096
"""Most searches that wait, of one asker and in all."""


class Searches:
    """The allowances of askers, and their waiting searches."""

    def __init__(self) -> None:
        self._allowances: dict[PublicKey, Allowance] = {}
        self._waiting: dict[PublicKey, deque[Query]] = {}
        self._held: dict[bytes, list[tuple[PublicKey, Query]]] = {}
        self._count = 0
        self._turn_left = TURN_UNITS

    def __repr__(self) -> str:
        return f"<Searches: {self._count} wait, of {len(self._waiting)} askers>"

    @property
    def is_held_up(self) -> bool:
        """Whether searches wait only because the units of this turn are used up."""
        return bool(self._waiting)

    def may(self, asker: PublicKey, query: Query, rows: int, now_s: float) -> bool:
        """Charge an asker for a search in a pool of `rows` rows; return False if too many searches wait, or its
        allowance is used up."""
        of_one = len(self._waiting.get(asker, ()))
        has_room = of_one < WAITING_OF_ONE_MAX and self._count < WAITING_MAX
        return has_room and self.take(asker, _units(query, rows), now_s)

    def take(self, asker: PublicKey, units: int, now_s: float) -> bool:
        """Charge an asker for work; return False if its allowance is used up."""
        return self._allowance(asker).take(units, now_s)

    def refund(self, asker: PublicKey, units: int, now_s: float) -> None:
        """Return units to an asker, for work that has paid for itself."""
        self._allowance(asker).charge(-units, now_s)

    def _allowance(self, asker: PublicKey) -> Allowance:
        found = self._allowances.pop(asker, None) or Allowance(UNITS_PER_S, UNITS_BURST)
        self._allowances[asker] = found
        if len(self._allowances) > ASKERS_MAX:
            del self._allowances[next(iter(self._allowances))]
        return found

    def put(self, asker: PublicKey, query: Query) -> None:
        """Queue a search."""
        self._waiting.setdefault(asker, deque()).append(query)
        self._count += 1

    def hold(self, asker: PublicKey, query: Query, content: bytes) -> None:
        """Hold a search until `release` is called for its content."""
        self._held.setdefault(content, []).append((asker, query))
        self._count += 1

    def release(self, is_open: Callable[[bytes], bool]) -> None:
        """Queue the searches that were held for contents that are not open any more."""
        for content in [one for one in self._held if not is_open(one)]:
            for asker, query in self._held.pop(content):
                self._count -= 1
                self.put(asker, query)

    def now(self, rows: int) -> Iterator[tuple[PublicKey, Query]]:
        """Yield the searches to answer now, of one asker after the other, while units of this turn are left."""
        while self._waiting and self._turn_left > 0:
            asker = next(iter(self._waiting))
            waiting = self._waiting.pop(asker)
            query = waiting.popleft()
            self._count -= 1
            if waiting:
                self._waiting[asker] = waiting
            self._turn_left -= _units(query, rows)
            yield asker, query

    def begin_turn(self) -> None:
        """Start a turn with all its units."""
        self._turn_left = TURN_UNITS


def _units(query: Query, rows: int) -> int:
    """Return the units of a search in a pool of `rows` rows, for the longest page that it may return."""
    page = min(query.limit, rows, PAGE_IDS_MAX if query.ids else PAGE_MESSAGES_MAX)
    return QUERY_UNITS + rows // UNIT_ROWS + answer_units(page, are_ids=query.ids)
