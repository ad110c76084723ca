"""The ring of one topic as a node keeps it: its neighbours, and the candidates that may become neighbours (R-C32)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from math import inf
from typing import NamedTuple

from router.core.wire.crypto import PublicKey
from router.service.contract import Chance
from services.pubsub.core.known import Neighbour, Topic
from services.pubsub.core.rings.circle import Circle
from services.pubsub.core.rings.ring import ahead
from services.pubsub.core.rings.view import Seat, View

SUCCESSOR, PREDECESSOR, RANDOM = range(3)
"""The turns in which members are asked about a topic."""
TURNS = 3
HEARD_AGE = 1
"""The age with which a neighbour passes on a member that it has just heard."""


class Told(NamedTuple):
    """A member of a ring as it is passed on: with the age of this knowledge in periods."""

    neighbour: Neighbour
    age: int


class TopicRing:
    """A topic's ring: whose turn it is to be asked, and the period of the last question. `circle`: its neighbours,
    which other topics have as well. `since`: the period in which it was asked about last."""

    __slots__ = ("_told", "_version", "candidates", "circle", "nearest_s", "since", "topic", "turn")

    def __init__(self, topic: Topic, circle: Circle, candidates: View, period: int) -> None:
        self.topic = topic
        self.circle = circle
        self.candidates = candidates
        self.turn = SUCCESSOR
        self.since = period
        self.nearest_s = inf  # since when no candidate is known that is nearer than the nearest neighbours
        self._told = 0  # in how many exchanges members were told of this version of the circle
        self._version = 0

    def __repr__(self) -> str:
        return f"<ring of {self.topic!r}, {len(self.candidates)} candidates>"

    @property
    def neighbours(self) -> View:
        """Return the members that are neighbours; a change of them goes through the book of rings."""
        return self.circle.view

    @property
    def nearest(self) -> dict[PublicKey, float]:
        """Return the nearest known members on each side, and since which second they are."""
        if self.nearest_s == inf:
            return {}
        return {router: max(at_s, self.nearest_s) for router, at_s in self.circle.nearest.items()}

    @property
    def to_ask(self) -> int:
        """Return in how many more exchanges members are to be told of the last change of the live neighbours: one for
        each turn, or for each neighbour if there are fewer."""
        told = self._told if self._version == self.circle.version else 0
        return max(0, min(TURNS, len(self.topic.neighbours)) - told)

    def tell(self) -> None:
        """Record that a member was told of the ring."""
        if self._version != self.circle.version:
            self._version, self._told = self.circle.version, 0
        self._told += 1

    def move(self, circle: Circle) -> None:
        """Stand in another circle from now on."""
        if circle.nearest != self.circle.nearest:
            self.nearest_s = inf
        self.circle = circle
        circle.near.take(self.topic)

    @property
    def is_whole(self) -> bool:
        """Whether no known candidate on a side is nearer than the first neighbour there."""
        ranks = (self.neighbours.rank(one.ahead, is_after=side) for side in (True, False) for one in self._first(side))
        return all(rank > 0 for rank in ranks)

    def _first(self, is_after: bool) -> list[Seat]:
        seats = list(self.candidates)
        return seats[:1] if is_after else seats[-1:]

    def look(self, now_s: float) -> None:
        """Note whether a candidate is known that is nearer than the nearest neighbours."""
        if self.candidates and not self.is_whole:
            self.nearest_s = inf
        elif self.nearest_s == inf:
            self.nearest_s = now_s

    def partner(self, chance: Chance) -> Neighbour | None:
        """Return the next member to ask: the nearest successor, the nearest predecessor, or a random neighbour.

        Instead of a random one it is the one not heard for longest, if that is too long."""
        if self.turn == RANDOM:
            found = self.neighbours.unheard()
            live = [] if found else list(self.topic.neighbours.values())
            return found or (live[chance.randrange(len(live))] if live else None)
        side = self.neighbours.sides[0 if self.turn == SUCCESSOR else 1]
        return side[0] if side else None

    def next_turn(self) -> None:
        self.turn = (self.turn + 1) % 3

    def last_turn(self) -> None:
        self.turn = (self.turn - 1) % 3

    def told(self, partner: Neighbour, near: int, random: int, chance: Chance) -> tuple[Told, ...]:
        """Return the members sent to a partner: some on each side of its position, nearest first, and some at random.

        The nearest may be candidates, so that a ring closes faster than its members meet; the others are neighbours.
        Ages are sent one period higher, because the lowest of several ages counts, and dead members would otherwise
        never age."""
        place, views = partner.place, (self.neighbours, self.candidates)
        around = [view.around(place, near, but=partner.router) for view in views]
        after = sorted((one for found in around for one in found[0]), key=lambda one: ahead(place, one.neighbour.place))
        before = sorted(
            (one for found in around for one in found[1]), key=lambda one: ahead(one.neighbour.place, place)
        )
        near_ones = {one.neighbour.router: one for one in (*after[:near], *before[:near])}
        rest = [one for one in self.neighbours.passed_on(but=partner.router) if one.neighbour.router not in near_ones]
        chosen = [*near_ones.values(), *chance.sample(rest, min(random, len(rest)))]
        return tuple([Told(one.neighbour, one.age + 1) for one in chosen])

    def take(self, by: Neighbour, members: Iterable[Told], own: PublicKey, age_max: int) -> None:
        """Handle the members that a neighbour sent: they renew neighbours, and the others become candidates."""
        for neighbour, age in members:
            router = neighbour.router
            if router in (own, by.router) or age > age_max:
                continue
            seat = self.neighbours.get(router)
            if seat is None:
                self.candidates.put(neighbour, age, by.router)
                if age <= HEARD_AGE:
                    self.candidates.hear(router)
            elif not seat.is_silent:
                seat.renew(age)

    def wishes(self, count: int, but: Container[PublicKey]) -> Iterator[tuple[int, Seat]]:
        """Yield the nearest candidates on each side that would have a place there, each with its rank on that side."""
        for is_after in (True, False):
            seats = [one for one in self.candidates if one.neighbour.router not in but]
            for more, seat in enumerate((seats if is_after else seats[::-1])[:count]):
                rank = self.neighbours.rank(seat.ahead, is_after=is_after) + more
                if rank < self.neighbours.limits.side:
                    yield rank, seat

    def random_wish(self, but: Container[PublicKey], chance: Chance) -> Seat | None:
        """Return a random candidate if there is a place for it besides the two sides."""
        if len(self.topic.others) >= self.neighbours.limits.others:
            return None
        seats = [one for one in self.candidates if one.neighbour.router not in but]
        return seats[chance.randrange(len(seats))] if seats else None
