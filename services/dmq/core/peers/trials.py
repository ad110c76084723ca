"""Trials: strangers that wait take the places of hot ones, so that what each says is heard before long.

Which hot one gives way is decided by how early it announces, and by chance among equals; which one that was pulled from
before comes back, by chance. By age it may not be: peers that have met many nodes at the same time would be left by all
of them at the same time, and heard by nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf

from router.service import contract as c

from .acts import Act
from .book import PeerBook
from .hot_places import HotPlaces
from .known import KnownPeer, PeerState

TRIAL_S = 60.0
"""Seconds for which a hot stranger keeps its place from others, and between two trials."""
TURN_S = 120.0
"""Seconds between two trials of strangers that were pulled from before; fifteen of them lie in a message's life."""


class Trials:
    """The trials of one node. `due_s`: when the next one is, if a stranger waits for it; else infinity."""

    def __init__(self, book: PeerBook, chance: c.Chance) -> None:
        self._book = book
        self._chance = chance
        self._trial_s = self._turn_s = -inf
        self.due_s = inf

    def __repr__(self) -> str:
        return f"<Trials: the next at {self.due_s:g} s>"

    def exchanged(self, places: HotPlaces, now_s: float) -> Iterator[Act]:
        """Yield what gives a stranger the place of the hot stranger that announces latest: of those that were never
        pulled from the one that has waited longest, and once in `TURN_S` any of those that have rested."""
        warm = [peer for peer in self._book.of(PeerState.WARM) if peer.is_stranger and peer.may_be_hot]
        fresh = [peer for peer in warm if not peer.was_hot]
        rested = [peer for peer in warm if peer.was_hot and peer.rests_s <= now_s]
        if now_s >= self._trial_s and rested and now_s >= self._turn_s:
            self._trial_s, self._turn_s = now_s + TRIAL_S, now_s + TURN_S
            yield from self._exchange(self._chance.sample(rested, len(rested)), places, now_s)
        elif now_s >= self._trial_s and fresh:
            self._trial_s = now_s + TRIAL_S
            yield from self._exchange(sorted(fresh, key=lambda one: one.since_s), places, now_s)
        turn_s = max(self._trial_s, self._turn_s) if rested else inf
        self.due_s = min(turn_s, self._trial_s if fresh else inf)

    def _exchange(self, waiting: list[KnownPeer], places: HotPlaces, now_s: float) -> Iterator[Act]:
        hot = [peer for peer in self._book.of(PeerState.HOT) if peer.is_stranger and peer.since_s + TRIAL_S <= now_s]
        for loser in latest_first(hot, self._chance, now_s):
            places.leave(loser)
            heir = next((peer for peer in waiting if places.take(peer)), None)
            if heir is not None:
                yield self._book.cool(loser, now_s)
                yield self._book.heat(heir, now_s)
                return
            places.take(loser)


def latest_first(peers: Iterable[KnownPeer], chance: c.Chance, now_s: float) -> list[KnownPeer]:
    """Return the peers in the order in which they give way: those that announce latest first, equal ones by chance."""
    found = list(peers)
    return sorted(chance.sample(found, len(found)), key=lambda one: one.earliness(now_s))
