"""The rings of a node, and what is known of all of them at once, so that no period looks at each (R-C32)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice

from router.core.wire.crypto import PublicKey
from services.pubsub.core.rings.ask_order import AskOrder
from services.pubsub.core.rings.topic_ring import TopicRing


class RingBook(dict[PublicKey, TopicRing]):
    """The rings by their groups; call `changed` after a change of one.

    As of the last look: `order`, the groups whose rings have neighbours, those asked about longest ago first;
    `with_candidates`, those with candidates; `alone`, those without neighbours; `to_ask`, those of whose last change
    not enough members were told."""

    def __init__(self) -> None:
        super().__init__()
        self.order = AskOrder()
        self.with_candidates: dict[PublicKey, None] = {}
        self.alone: set[PublicKey] = set()
        self.to_ask: set[PublicKey] = set()
        self._changed: dict[PublicKey, None] = {}

    def __setitem__(self, group: PublicKey, ring: TopicRing) -> None:
        super().__setitem__(group, ring)
        self.changed(group)

    def end(self, group: PublicKey) -> None:
        """Forget a ring, if it is there."""
        if (ring := self.pop(group, None)) is not None:
            ring.neighbours.clear()
            self.order.remove(group)
            self.alone.discard(group)
            self.to_ask.discard(group)
            self._changed.pop(group, None)
            self.with_candidates.pop(group, None)

    @property
    def is_settled(self) -> bool:
        """Whether enough members were told of each change, and no ring has candidates, as of the last look."""
        return not self.to_ask and not self.with_candidates

    def changed(self, group: PublicKey) -> None:
        """Look at a ring when the next period begins."""
        self._changed[group] = None

    def show(self, group: PublicKey) -> None:
        """Arrange the neighbours of a ring anew, since one was heard, has fallen silent or is barred."""
        self[group].neighbours.rearrange()
        self[group].show()
        self.changed(group)

    def perhaps_with_candidates(self) -> list[tuple[PublicKey, TopicRing]]:
        """Return the rings that may have candidates."""
        return [(group, self[group]) for group in self.with_candidates | self._changed]

    def look(self, now_s: float) -> None:
        """Look at the rings that have changed, also because old candidates are forgotten."""
        for group, ring in self.perhaps_with_candidates():
            if ring.candidates.forget_old():
                self.changed(group)
        for group in self._changed:
            ring = self[group]
            ring.look(now_s)
            if ring.neighbours:
                self.alone.discard(group)
                self.order.put(group, ring.since)
            else:
                self.alone.add(group)
                self.order.remove(group)
            (self.to_ask.add if ring.to_ask else self.to_ask.discard)(group)
            if ring.candidates:
                self.with_candidates[group] = None
            else:
                self.with_candidates.pop(group, None)
        self._changed.clear()

    def asked(self, ring: TopicRing, period: int) -> None:
        """Record that a ring was asked about in this period: the next member of it has its turn then."""
        ring.since = period
        ring.next_turn()
        self.told(ring)
        if ring.neighbours:
            self.order.put(ring.topic.group, period)

    def told(self, ring: TopicRing) -> None:
        """Record that a member was told of a ring, in a question or an answer."""
        ring.to_ask = max(0, ring.to_ask - 1)
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
