"""The comparisons that wait: for a place, in their order, or for a partner (R-C35)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from itertools import islice
from math import inf

from router.core.wire.crypto import PublicKey
from services.pubsub.core.comparison.plan import Plans

TRIED_MAX = 16
"""Most comparisons that are tried in place of those that have ended, or at one moment."""
RETRY_S = 1.0
"""Seconds after which some are tried again, though none has ended: there may be a place, or a partner."""


class Waiting:
    """Makes the plans of topics due that have waited."""

    def __init__(self, plans: Plans) -> None:
        self._plans = plans
        self._alone: set[PublicKey] = set()
        self._places: dict[tuple[PublicKey, PublicKey | None], None] = {}  # groups, with the named router
        self._freed = 0
        self._try_s = -inf

    def __repr__(self) -> str:
        return f"<{len(self._places)} comparisons wait for a place, {len(self._alone)} for a partner>"

    @property
    def due_s(self) -> float:
        """Return the second at which `take_turns` tries some, though none has ended; infinity: none waits."""
        return self._try_s if self._places else inf

    @property
    def pause_s(self) -> float:
        """Return after how many seconds one that waits for a place is due by itself: its turn comes before, as so many
        wait; a node may have thousands of them."""
        return RETRY_S * max(1.0, len(self._places) / TRIED_MAX)

    def for_partner(self, group: PublicKey) -> None:
        """Record a topic that has no partner."""
        self._alone.add(group)

    def partner_came(self, groups: Iterable[PublicKey], now_s: float) -> None:
        """Make the plans of these topics due, if they had no partner."""
        for group in self._alone.intersection(groups):
            self._alone.discard(group)
            self._plans.hurry(group, now_s)

    def for_place(self, group: PublicKey, router: PublicKey | None = None) -> None:
        """Record a topic for which there is no place, with the neighbour that is named, or with any."""
        self._places[group, router] = None

    def begun(self, group: PublicKey, router: PublicKey) -> None:
        """Record that a topic is compared with this neighbour."""
        for one in (router, None):
            self._places.pop((group, one), None)

    def freed(self) -> None:
        """Record that a comparison has ended."""
        self._freed += 1

    def left(self, group: PublicKey) -> None:
        """Forget a topic."""
        self._alone.discard(group)
        self._places = {place: None for place in self._places if place[0] != group}

    def take_turns(self, now_s: float, begun: Sized) -> Iterator[None]:
        """Make those due that have waited longest for a place, one at each step, until as many have `begun` as have
        ended since the last call; after `RETRY_S` some in any case. Some that cannot begin yet are passed over."""
        if not self._freed:
            if now_s < self.due_s:
                return
            self._freed = TRIED_MAX
        self._try_s = now_s + RETRY_S
        for group, router in list(islice(self._places, TRIED_MAX)):
            before = len(begun)
            self._places.pop((group, router), None)
            self._plans.hurry(group, now_s, router)
            yield
            self._freed -= len(begun) - before
            if self._freed <= 0:
                break
        self._freed = 0
