"""The rings of a node, and what is known of all of them at once, so that no period looks at each (R-C32)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Set
from itertools import islice

from router.core.wire.crypto import PublicKey
from services.pubsub.core.known import LiveNeighbours, Neighbour, Topic
from services.pubsub.core.rings.ask_order import AskOrder
from services.pubsub.core.rings.circle import Circle
from services.pubsub.core.rings.topic_ring import TopicRing
from services.pubsub.core.rings.view import RingMembers, View, ViewLimits


class RingBook(dict[PublicKey, TopicRing]):
    """The rings by their groups; call `changed` after a change of one's candidates.

    Rings with the same neighbours share a circle, and what happens to a router happens to each circle once. `place`:
    that of this node; `members`: the routers on all rings; those in `barred` are not live.

    As of the last look: `order`, the groups whose rings have neighbours, those asked about longest ago first;
    `with_candidates`, those with candidates; `alone`, those without neighbours; `to_ask`, those of whose last change
    not enough members were told."""

    def __init__(self, place: int, limits: ViewLimits, members: RingMembers, barred: Container[bytes]) -> None:
        super().__init__()
        self.order = AskOrder()
        self.with_candidates: dict[PublicKey, None] = {}
        self.alone: set[PublicKey] = set()
        self.to_ask: set[PublicKey] = set()
        self._place, self._limits, self._members, self._barred = place, limits, members, barred
        self._circles: dict[frozenset[Neighbour], Circle] = {}
        self._changed: dict[PublicKey, None] = {}
        self._changed_circles: dict[Circle, None] = {}
        self._versions = 0

    def begin(self, topic: Topic) -> None:
        """Add a ring without members."""
        circle = self._circles.get(frozenset())
        if circle is None:
            near = LiveNeighbours(topic.near.back, topic.near.moved)
            view = View(self._place, self._limits, self._barred, self._members, is_shared=True)
            circle = self._circles[frozenset()] = Circle(near, view)
        candidates = View(self._place, self._limits, (), self._members)
        self[topic.group] = TopicRing(topic, circle, candidates, self._members.period)
        circle.near.take(topic)
        self.changed(topic.group)

    def end(self, group: PublicKey) -> None:
        """Forget a ring, if it is there."""
        if (ring := self.pop(group, None)) is not None:
            ring.circle.near.leave(ring.topic)
            self._end_if_empty(ring.circle)
            self.order.remove(group)
            self.alone.discard(group)
            self.to_ask.discard(group)
            self._changed.pop(group, None)
            self.with_candidates.pop(group, None)

    # -- neighbours --------------------------------------------------------------------------------------------------

    def seat(self, neighbour: Neighbour, groups: Set[PublicKey]) -> None:
        """Make a router that was just heard a neighbour on the rings of these groups."""
        self._renew(neighbour)
        for circle in list(self._circles.values()):
            self._seat(circle, neighbour, groups)

    def seat_on(self, ring: TopicRing, neighbour: Neighbour) -> None:
        """Make a router that was just heard a neighbour on one ring."""
        self._renew(neighbour)
        self._seat(ring.circle, neighbour, {ring.topic.group})

    def _seat(self, circle: Circle, neighbour: Neighbour, groups: Set[PublicKey]) -> None:
        if not circle.view.is_live(neighbour):
            self._change(circle, groups, lambda view: view.put(neighbour, 0))
            self.hear(neighbour.router)

    def _renew(self, neighbour: Neighbour) -> None:
        """Record that a router was heard, with the service and the network that it has now."""
        self.hear(neighbour.router)
        for circle in self.circles_with(neighbour.router):
            if not circle.view.is_live(neighbour):
                self._seat(circle, neighbour, circle.near.topics.keys())

    def hear(self, router: PublicKey) -> bool:
        """Record that a router was heard just now; return whether it was silent."""
        member = self._members.get(router)
        if member is None or not member.hear(self._members.period):
            return False
        self.show(self.circles_with(router))
        return True

    def silence(self, router: PublicKey) -> Circle | None:
        """Record that a router did not take or answer something; return a circle in which it stands."""
        circles = self.circles_with(router)
        for circle in circles:
            circle.view.silence(router)
        self.show(circles)
        return circles[0] if circles else None

    def remove(self, router: PublicKey, groups: Set[PublicKey] | None = None) -> Neighbour | None:
        """Let a router be no neighbour any more, on the rings of these groups or on all; return it if it was one."""
        found: Neighbour | None = None
        for circle in self.circles_with(router):
            some = circle.near.topics.keys() if groups is None else groups
            if (seat := circle.view.get(router)) is not None and not some.isdisjoint(circle.near.topics):
                found = seat.neighbour
                self._change(circle, some, lambda view: view.remove(router))
        return found

    def circles_with(self, router: bytes) -> list[Circle]:
        """Return the circles in which a router is a neighbour."""
        return [one for one in self._circles.values() if router in one.view]

    def first_of(self, circle: Circle) -> TopicRing:
        """Return a ring of a circle."""
        return self[next(iter(circle.near.topics))]

    def show(self, circles: Iterable[Circle]) -> None:
        """Arrange these neighbours anew, since one was heard, has fallen silent or is barred."""
        for circle in circles:
            circle.show()
            self._changed_circles[circle] = None

    def show_all(self) -> None:
        """Arrange the neighbours of all rings anew."""
        self.show(list(self._circles.values()))

    def _change(self, circle: Circle, groups: Set[PublicKey], act: Callable[[View], None]) -> None:
        """Change the members of a circle for these of its topics: those of the others stay as they are. Those topics
        that have the same members then come together."""
        topics = circle.near.topics
        some = topics.keys() & groups
        if not some:
            return
        if len(some) < len(topics):
            circle = self._moved([group for group in topics if group in some], circle.copy())
        else:
            del self._circles[circle.key]
        circle.change(act)
        self.show([circle])
        other = self._circles.get(circle.key, circle)
        few, many = sorted((circle, other), key=lambda one: len(one.near.topics))
        self._circles[circle.key] = many
        if few is not many:
            self._moved(list(few.near.topics), many)

    def _moved(self, groups: Iterable[PublicKey], to: Circle) -> Circle:
        """Have rings stand in a circle; return it."""
        for group in groups:
            ring, before = self[group], self[group].circle
            ring.move(to)
            self.changed(group)
            if not before.near.topics:
                self._end_if_empty(before)
        return to

    def _end_if_empty(self, circle: Circle) -> None:
        if circle.near.topics:
            return
        if self._circles.get(circle.key) is circle:
            del self._circles[circle.key]
        self._changed_circles.pop(circle, None)
        circle.view.clear()

    # -- what is known of all ------------------------------------------------------------------------------------------

    @property
    def is_settled(self) -> bool:
        """Whether enough members were told of each change, and no ring has candidates, as of the last look."""
        return not self.to_ask and not self.with_candidates

    def changed(self, group: PublicKey) -> None:
        """Look at a ring when the next period begins."""
        self._changed[group] = None

    def perhaps_with_candidates(self) -> list[tuple[PublicKey, TopicRing]]:
        """Return the rings that may have candidates."""
        return [(group, self[group]) for group in self.with_candidates | self._changed]

    def look(self, now_s: float) -> None:
        """Look at the rings that have changed, also because old candidates are forgotten."""
        for group, ring in self.perhaps_with_candidates():
            if ring.candidates.forget_old():
                self.changed(group)
        for circle in self._changed_circles:
            self._look(circle, now_s)
        self._changed_circles.clear()
        for group in self._changed:
            ring = self[group]
            ring.look(now_s)
            self._is_alone(group, not ring.neighbours)
            (self.to_ask.add if ring.to_ask else self.to_ask.discard)(group)
            if ring.candidates:
                self.with_candidates[group] = None
            else:
                self.with_candidates.pop(group, None)
        self._changed.clear()

    def _look(self, circle: Circle, now_s: float) -> None:
        """Look at the rings of a circle at once."""
        topics = circle.near.topics.keys()
        if circle.look(now_s, self._versions + 1):
            self._versions += 1
            if circle.near.neighbours:
                self.to_ask.update(topics)
            else:
                self.to_ask.difference_update(topics)
        if circle.is_alone is not (not circle.view):
            circle.is_alone = not circle.view
            for group in topics:
                self._is_alone(group, circle.is_alone)

    def _is_alone(self, group: PublicKey, is_alone: bool) -> None:
        if is_alone:
            self.alone.add(group)
            self.order.remove(group)
        else:
            self.alone.discard(group)
            self.order.put(group, self[group].since)

    def asked(self, ring: TopicRing, period: int) -> None:
        """Record that a ring was asked about in this period: the next member of it has its turn then."""
        ring.since = period
        ring.next_turn()
        self.told(ring)
        if ring.neighbours:
            self.order.put(ring.topic.group, period)

    def told(self, ring: TopicRing) -> None:
        """Record that a member was told of a ring, in a question or an answer."""
        ring.tell()
        if not ring.to_ask:
            self.to_ask.discard(ring.topic.group)

    def first_shared_with(self, router: PublicKey) -> TopicRing | None:
        """Return the ring on which a router is a neighbour, and about which was asked longest ago."""
        return next((self[group] for group in self.order if router in self[group].neighbours), None)

    def in_turn(self, *, changed_first: bool) -> Iterator[PublicKey]:
        """Yield the groups whose rings have neighbours, those asked about longest ago first; `changed_first`: before
        them those of whose last change too few members were told."""
        if not changed_first or not self.to_ask:
            yield from self.order
        else:
            yield from (group for group in self.order if group in self.to_ask)
            yield from (group for group in self.order if group not in self.to_ask)

    def riders(self, first: TopicRing, router: PublicKey, shared: Collection[PublicKey], most: int) -> list[TopicRing]:
        """Return the rings shared with a router, besides `first`: those of whose last change too few members were told,
        then those that were asked about longest ago.

        They are found among those shared or among all, whichever are fewer to look at."""
        if len(shared) ** 2 <= most * len(self.order):
            some = [self[group] for group in shared if group in self]
            rings: Iterable[TopicRing] = sorted(some, key=lambda one: (not one.to_ask, one.since))
        else:
            rings = (ring for group in self.in_turn(changed_first=True) if router in (ring := self[group]).topic.t)
        return list(islice((ring for ring in rings if ring is not first), most))
