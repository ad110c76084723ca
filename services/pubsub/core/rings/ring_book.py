"""The rings of a node, and what is known of all of them at once, so that no period looks at each (R-C32)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import islice

from router.core.wire.crypto import PublicKey
from services.pubsub.core.rings.ask_order import AskOrder
from services.pubsub.core.rings.topic_ring import TopicRing


class RingBook(dict[PublicKey, TopicRing]):
    """The rings by their groups; call `changed` after a change of one.

    As of the last look: `order`, the groups whose rings have neighbours, those asked about longest ago first;
    `with_candidates`, those with candidates; `alone`, those without neighbours."""

    def __init__(self) -> None:
        super().__init__()
        self.order = AskOrder()
        self.with_candidates: dict[PublicKey, None] = {}
        self.alone: set[PublicKey] = set()
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
            self._changed.pop(group, None)
            self.with_candidates.pop(group, None)

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
            if ring.candidates:
                self.with_candidates[group] = None
            else:
                self.with_candidates.pop(group, None)
        self._changed.clear()

    def asked(self, ring: TopicRing, period: int) -> None:
        """Record that a ring was asked about in this period: the next member of it has its turn then."""
        ring.since = period
        ring.next_turn()
        if ring.neighbours:
            self.order.put(ring.topic.group, period)

    def riders(self, first: TopicRing, router: PublicKey, shared: Collection[PublicKey], most: int) -> list[TopicRing]:
        """Return the rings shared with a router, besides `first`, that were asked about longest ago.

        They are found among those shared or among all, whichever are fewer to look at."""
        if len(shared) ** 2 <= most * len(self.order):
            some = [self[group] for group in shared if group in self]
            rings: Iterable[TopicRing] = sorted(some, key=lambda one: one.since)
        else:
            rings = (ring for group in self.order if router in (ring := self[group]).topic.t)
        return list(islice((ring for ring in rings if ring is not first), most))
