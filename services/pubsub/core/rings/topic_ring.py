"""The ring of one topic as a node keeps it: its neighbours, and the candidates that may become neighbours (R-C32)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import NamedTuple

from router.core.wire.crypto import PublicKey
from router.service.contract import Chance
from services.pubsub.core.known import Neighbour, Topic
from services.pubsub.core.rings.ring import ahead
from services.pubsub.core.rings.view import RingMembers, Seat, View, ViewLimits

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
    """A topic's ring: whose turn it is to be asked, and the period of the last question. `nearest`: the nearest known
    members on each side, and since which second they are. `members`: the routers on all rings of this node. `to_ask`:
    in how many more exchanges members are to be told of the last change of the live neighbours: one for each turn, or
    for each neighbour if there are fewer."""

    __slots__ = ("_seen", "candidates", "nearest", "neighbours", "since", "to_ask", "topic", "turn")

    def __init__(
        self, topic: Topic, place: int, limits: ViewLimits, members: RingMembers, barred: Container[bytes] = ()
    ) -> None:
        self.topic = topic
        self.nearest: dict[PublicKey, float] = {}
        self.neighbours = View(place, limits, barred, members, is_shared=True)
        self.candidates = View(place, limits, (), members)
        self.turn = SUCCESSOR
        self.since = members.period
        self.to_ask = 0
        self._seen: tuple[object, ...] = ()

    def __repr__(self) -> str:
        return f"<ring of {self.topic!r}, {len(self.candidates)} candidates>"

    @property
    def is_whole(self) -> bool:
        """Whether no known candidate on a side is nearer than the first neighbour there."""
        ranks = (self.neighbours.rank(one.ahead, is_after=side) for side in (True, False) for one in self._first(side))
        return all(rank > 0 for rank in ranks)

    def _first(self, is_after: bool) -> list[Seat]:
        seats = list(self.candidates)
        return seats[:1] if is_after else seats[-1:]

    def look(self, now_s: float) -> None:
        """Note whether the live neighbours have changed since the last look, and which members are the nearest on each
        side: neighbours to which no known candidate is nearer."""
        routers = self.neighbours.nearest if not self.candidates or self.is_whole else ()
        if self.nearest.keys() != set(routers):
            self.nearest = {one: self.nearest.get(one, now_s) for one in map(PublicKey, routers)}
        live = self.topic.after, self.topic.before, self.topic.others
        if live != self._seen:
            self._seen, self.to_ask = live, min(TURNS, len(self.topic.neighbours))

    def show(self) -> None:
        """Show the live neighbours to the other parts of the service."""
        self.topic.show(*self.neighbours.sides)

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
        self.neighbours.put(by, 0)
        self.neighbours.hear(by.router)
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
        self.show()

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
