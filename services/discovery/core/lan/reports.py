"""What this node's router hears of the neighbours on local networks. Each report costs it a commit (R-D19)."""

from __future__ import annotations

from router.core.wire.crypto import PublicKey
from router.service.contract import AddNeighbour, Deed, Now
from services.discovery.core.lan.neighbours import KEYS_MAX, Neighbour, Neighbours
from services.discovery.core.lan.paces import Pace

KEPT_S, CLAIMED_S = 86_400, 600
"""How long the router knows a neighbour that a link has proven, and one that none has, after its last report."""
SLOW_S = 10.0
REPORTED_MAX, REPORTED_EACH_S, REPORTED_BURST = 30, 5.0, 3
"""Most reports in `SLOW_S` that neighbours which no link has proven have other addresses; of each one neighbour, proven
or not, one in five seconds, after those of its first datagrams."""


UNANSWERED_MAX, PATIENCE_S = 8, 10.0
"""From so many reports on that the router has not carried out yet newcomers wait for their turns, so that they do not
wait in a line at the router, where nobody goes before another; a report counts for so long at most."""


class Reports:
    """Reports neighbours to the router. It alone sets their `urls`, `reported_name` and `until_s`."""

    def __init__(self, neighbours: Neighbours) -> None:
        self._neighbours = neighbours
        self._claimed = Pace(REPORTED_MAX, SLOW_S, each_s=REPORTED_EACH_S, burst=REPORTED_BURST)
        self._proven = Pace(KEYS_MAX, each_s=REPORTED_EACH_S, burst=REPORTED_BURST)
        self._unanswered: dict[PublicKey, float] = {}  # when each was reported, in this order

    def __repr__(self) -> str:
        return f"<reports: {self._claimed!r}>"

    def are_behind(self, now_s: float) -> bool:
        """Whether the router has so many reports to carry out that no newcomer should have a turn now."""
        while self._unanswered and self._unanswered[first := next(iter(self._unanswered))] <= now_s - PATIENCE_S:
            del self._unanswered[first]
        return len(self._unanswered) >= UNANSWERED_MAX

    def was_answered(self, key: PublicKey) -> None:
        """Record that the router has carried out a report, or refused it."""
        self._unanswered.pop(key, None)

    def report(self, one: Neighbour, urls: tuple[str, ...], now: Now) -> list[Deed]:
        """Report a neighbour if it is new, its addresses or its name changed, or half of its time is over; if that may
        not be now, the next datagram asks again."""
        kept_s = KEPT_S if self._neighbours.is_proven(one.key) else CLAIMED_S
        is_new = (urls, one.name) != (one.urls, one.reported_name)
        is_due = is_new or (bool(urls) and now.wall_s >= one.until_s - kept_s / 2)
        if not is_due or (one.until_s and urls and not self._may(one.key, now)):
            return []
        one.urls, one.reported_name, one.until_s = urls, one.name, int(now.wall_s) + kept_s
        self._unanswered.setdefault(one.key, now.mono_s)
        return [AddNeighbour(one.key, urls, one.until_s, one.name, "lan")]

    def is_named(self, key: PublicKey, name: str, now: Now) -> list[Deed]:
        """Record what a router calls itself, and report it."""
        one = self._neighbours.get(key)
        if one is None or not one.is_here:
            return []
        one.name = name
        return self.report(one, one.reached_at(), now)

    def leave(self, one: Neighbour, now: Now) -> list[Deed]:
        """Report a router as away: one that a link has proven stays known for a day, without an address."""
        if self._neighbours.is_proven(one.key):
            return self.report(one, (), now)
        return self.forget(one)

    def forget(self, one: Neighbour) -> list[Deed]:
        was_known, one.urls, one.until_s = one.until_s, (), 0
        return [AddNeighbour(one.key)] if was_known else []

    def _may(self, key: PublicKey, now: Now) -> bool:
        pace = self._proven if self._neighbours.is_proven(key) else self._claimed
        return pace.take(key, now.mono_s)
