"""Sending on, after a comparison, of the messages that another router lacks (R-C35).

Each router has places of its own, and is sent the next message when it has one of those before. So a router that takes
nothing holds up what goes to it, and nothing else.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from itertools import takewhile
from math import inf
from typing import NamedTuple

from msgspec import Struct

from router.core.wire.crypto import MessageId, PublicKey
from router.service import contract as c
from services.pubsub.core.comparison.held import minute_at
from services.pubsub.core.comparison.id_set import MINUTE_BYTES, IdSet, key_of

TAG = "compare "
"""The beginning of the tag of a message that is sent on; the key of the router follows."""


class GiveLimits(Struct, frozen=True):
    """Bounds of sending on. `at_once`: messages to one router at a time; a single one, if it took none while the time
    of one passed (`slow_max` such routers are remembered); `all_at_once`: to all routers together. `giving_s`: seconds
    after which a message of which nothing is heard leaves its place. `waiting_max`: messages that wait for one router;
    further ones are found by a later comparison. `given_max`: messages remembered as sent to one router of one topic,
    `given_in_all_max`: of all; beyond it the pair of router and topic used least lately is forgotten, and may be sent
    something again."""

    at_once: int = 64
    all_at_once: int = 1_024
    giving_s: float = 90.0
    slow_max: int = 256
    waiting_max: int = 10_000
    given_max: int = 20_000
    given_in_all_max: int = 200_000


class _Given(NamedTuple):
    """A message that is being sent on to a router: its group and key, and the time until which it keeps its place."""

    group: PublicKey
    key: bytes
    until_s: float


class Giving:
    """All messages being sent on. Seconds are monotonic."""

    def __init__(self, limits: GiveLimits | None = None) -> None:
        self._limits = limits or GiveLimits()
        self._waiting: dict[PublicKey, deque[tuple[PublicKey, bytes]]] = {}
        self._open: dict[tuple[MessageId, PublicKey], _Given] = {}  # in the order of their `until_s`
        self._pulled: dict[MessageId, list[PublicKey]] = {}  # read from the own router just now, and for whom
        self._places = Counter[PublicKey]()
        self._took: set[PublicKey] = set()  # of those with places: whether they took any since they last let time pass
        self._slow: dict[PublicKey, None] = {}
        self._given: dict[tuple[PublicKey, PublicKey], IdSet] = {}  # by router and group, the one used last at the end
        self._given_in_all = 0

    def __repr__(self) -> str:
        return f"<{len(self._open)} messages being sent on to {len(self._places)} routers>"

    @property
    def due_s(self) -> float:
        """Return the second at which `tick` has something to do; infinity: never."""
        return next((one.until_s for one in self._open.values()), inf)

    def give(self, group: PublicKey, router: PublicKey, keys: Iterable[bytes], now: c.Now) -> None:
        """Send on the messages that the other lacks, each once; its history may be shorter than this node's."""
        limits, place = self._limits, (router, group)
        given = self._given.pop(place, None) or IdSet()
        waiting = self._waiting.setdefault(router, deque())
        self._given_in_all -= given.drop_before(key_of(minute_at(now.wall_s), b""))
        for key in keys:
            if len(given) >= limits.given_max or len(waiting) >= limits.waiting_max:
                break
            if given.add([key]):
                self._given_in_all += 1
                waiting.append((group, key))
        if len(given):
            self._given[place] = given
        while self._given_in_all > limits.given_in_all_max and len(self._given) > 1:
            self._forget(next(iter(self._given)))

    def _forget(self, place: tuple[PublicKey, PublicKey]) -> None:
        self._given_in_all -= len(self._given.pop(place))

    def give_more(self, now: c.Now) -> list[c.Deed]:
        """Read the next messages from the own router, as far as more may be in progress; routers take turns."""
        deeds: list[c.Deed] = []
        for router in list(self._waiting):
            waiting = self._waiting.pop(router)
            while waiting and self._has_place(router):
                group, key = waiting.popleft()
                deeds += self._begin(group, router, key, now)
            if waiting:
                self._waiting[router] = waiting
        return deeds

    def _has_place(self, router: PublicKey) -> bool:
        most = 1 if router in self._slow else self._limits.at_once
        return self._places[router] < most and len(self._open) < self._limits.all_at_once

    def _begin(self, group: PublicKey, router: PublicKey, key: bytes, now: c.Now) -> list[c.Deed]:
        id = MessageId(key[MINUTE_BYTES:])
        if (id, router) in self._open:
            return []
        self._open[id, router] = _Given(group, key, now.mono_s + self._limits.giving_s)
        self._places[router] += 1
        if id in self._pulled:
            self._pulled[id].append(router)
            return []
        self._pulled[id] = [router]
        return [c.Pull(group, id)]

    def pulled(self, heard: c.Pulled) -> list[c.Deed]:
        """Send on a message that the own router has returned, to all routers for which it was asked."""
        to = [one for one in self._pulled.pop(heard.id, ()) if (heard.id, one) in self._open]
        if heard.wire is None:
            for router in to:
                self._end(heard.id, router)
            return []
        return [c.Forward(heard.wire, router, TAG + router.hex()) for router in to]

    def gave(self, id: MessageId, router: PublicKey, *, is_taken: bool) -> None:
        """Record that the other router has taken a message, or does not get it; then a later comparison may send it
        again."""
        if is_taken:
            self._slow.pop(router, None)
            self._took.add(router)
        one = self._end(id, router)
        if one is not None and not is_taken and (given := self._given.get((router, one.group))) is not None:
            before = len(given)
            given.remove([one.key])
            self._given_in_all -= before - len(given)
            if not len(given):
                del self._given[router, one.group]

    def _end(self, id: MessageId, router: PublicKey) -> _Given | None:
        one = self._open.pop((id, router), None)
        if one is not None:
            if router in (waiting := self._pulled.get(id, [])):
                waiting.remove(router)
                if not waiting:
                    del self._pulled[id]
            self._places[router] -= 1
            if not self._places[router]:
                del self._places[router]
        if router not in self._places:
            self._took.discard(router)
        return one

    def tick(self, now: c.Now) -> None:
        """Take the places of messages of which nothing was heard in time."""
        late = list(takewhile(lambda place: self._open[place].until_s <= now.mono_s, self._open))
        for router in {router for _, router in late} - self._took:
            self._slow.pop(router, None)
            while len(self._slow) >= self._limits.slow_max:
                del self._slow[next(iter(self._slow))]
            self._slow[router] = None
        for id, router in late:
            self._took.discard(router)
            self._end(id, router)

    def left(self, group: PublicKey) -> None:
        """Stop sending on messages of a topic."""
        waiting = {to: deque(one for one in each if one[0] != group) for to, each in self._waiting.items()}
        self._waiting = {to: each for to, each in waiting.items() if each}
        for place in [place for place in self._given if place[1] == group]:
            self._forget(place)
