"""Searches of apps that wait for their turn: one asker after the other, so that many of one hold up nobody else.

A search is answered at once while this turn's units last; the rest waits until others have had theirs. What waits is
lost with the process: its asker hears nothing, and asks again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from router.core.link.allowance import Allowance
from router.core.wire.crypto import PublicKey

from .messages import PAGE_IDS_MAX, PAGE_MESSAGES_MAX, Query
from .nexa.limits import QUERY_UNITS, UNIT_ROWS, answer_units

UNITS_PER_S, UNITS_BURST, ASKERS_MAX = 2_000.0, 40_000.0, 4_096
"""What one asker may search, in units as those of Nexa's neighbours, and of how many askers that is remembered."""
TURN_UNITS = 400
"""Units of all askers' searches after which others have their turn: some 20 ms."""
WAITING_OF_ONE_MAX, WAITING_MAX = 256, 4_096
"""Searches that wait, of one asker and in all."""


class Searches:
    """What askers may search, and what of it waits."""

    def __init__(self) -> None:
        self._allowances: dict[PublicKey, Allowance] = {}
        self._waiting: dict[PublicKey, deque[Query]] = {}
        self._count = 0
        self._turn_left = TURN_UNITS

    def __repr__(self) -> str:
        return f"<Searches: {self._count} wait, of {len(self._waiting)} askers>"

    @property
    def is_held_up(self) -> bool:
        """Whether searches wait for nothing but their turn."""
        return self._count > 0

    def may(self, asker: PublicKey, query: Query, rows: int, now_s: float) -> bool:
        """Take the units of a search in a pool of so many rows from what an asker may ask for; return whether there
        were enough."""
        allowance = self._allowances.pop(asker, None) or Allowance(UNITS_PER_S, UNITS_BURST)
        self._allowances[asker] = allowance
        if len(self._allowances) > ASKERS_MAX:
            del self._allowances[next(iter(self._allowances))]
        of_one = len(self._waiting.get(asker, ()))
        has_room = of_one < WAITING_OF_ONE_MAX and self._count < WAITING_MAX
        return has_room and allowance.take(_units(query, rows), now_s)

    def put(self, asker: PublicKey, query: Query) -> None:
        """Let a search wait for its turn."""
        self._waiting.setdefault(asker, deque()).append(query)
        self._count += 1

    def now(self, rows: int) -> Iterator[tuple[PublicKey, Query]]:
        """Yield the searches that are to be answered now, of one asker after the other, while the turn lasts."""
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
        """Begin the next turn."""
        self._turn_left = TURN_UNITS


def _units(query: Query, rows: int) -> int:
    """Return what a search costs in a pool of so many rows, for a page as long as it may become."""
    page = min(query.limit, rows, PAGE_IDS_MAX if query.ids else PAGE_MESSAGES_MAX)
    return QUERY_UNITS + rows // UNIT_ROWS + answer_units(page, are_ids=query.ids)
