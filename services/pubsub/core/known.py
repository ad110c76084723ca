"""The state that the parts of the pub/sub service share: the keys of this node, its topics, and the neighbours of
each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from msgspec import Struct

from router.core.wire.crypto import MessageId, PublicKey
from services.pubsub.core.conduct.withholding import Withholding
from services.pubsub.core.rings.ring import place_of
from services.pubsub.core.sending.untaken import Own

SERVICE = "pubsub"


class Neighbour(Struct, frozen=True):
    """Another router that wants a topic, and its pub/sub service; `prefix`: the public network of its address."""

    router: PublicKey
    service: PublicKey
    prefix: bytes | None = None

    def __repr__(self) -> str:
        return f"<neighbour {self.router.hex()[:8]}>"

    @property
    def place(self) -> int:
        return place_of(self.service, self.router)


Side = tuple[Neighbour, ...]
Place = tuple[PublicKey, PublicKey]
"""A group and a router."""
LOST_MAX = 256
"""Number of routers that a topic remembers as having been live; beyond it some are forgotten."""


FIRST = 2
"""Number of first neighbours of a topic with which it is compared: one of them may have come back just now, too."""


class Topic:
    """A group that is wanted here, and the neighbours with which it is shared.

    `after` and `before` hold the live neighbours on each side of this node on the ring, nearest first, and `others`
    live ones at random: at most 10 each. In a small topic a neighbour may be on both sides; `others` has none of either
    side. Live: met, and not silent since. On a leaf, `others` are the uplinks with a pub/sub service. `t`: by the
    partner's router, the topic by which this node and the partner name the group. `caught_up_s`: the Unix second of the
    last comparison with another node that ended well, None before the first; `missing`: how many messages no router
    asked then had. Since the topic is wanted: `received`, messages that came for the first time, those of this node
    included; `copies`, copies of them sent to routers; `repaired`, messages that came because they were asked for.
    `lost`: routers that were live here and are not any more; `back`: the record of those that are live again, and of
    the first `first_left`, each with the group; `moved`: the record of groups that got their first neighbour or lost
    their last.
    """

    __slots__ = (
        "_by_router", "_sides", "after", "back", "before", "caught_up_s", "copies", "first_left", "group", "lost",
        "missing", "moved", "others", "received", "repaired", "t",
    )  # fmt: skip

    def __init__(self, group: PublicKey, back: set[Place] | None = None, moved: set[PublicKey] | None = None) -> None:
        self.group = group
        self.back: set[Place] = set() if back is None else back
        self.moved: set[PublicKey] = set() if moved is None else moved
        self.lost: set[PublicKey] = set()
        self.first_left = FIRST
        self.after: tuple[Neighbour, ...] = ()
        self.before: tuple[Neighbour, ...] = ()
        self.others: tuple[Neighbour, ...] = ()
        self._sides: tuple[Side, Side, Side] = ((), (), ())  # those of `_by_router`
        self._by_router: dict[PublicKey, Neighbour] = {}
        self.t: dict[PublicKey, bytes] = {}
        self.caught_up_s: int | None = None
        self.missing = self.received = self.copies = self.repaired = 0

    def __repr__(self) -> str:
        return f"<topic {self.group.hex()[:8]}: {len(self.neighbours)} neighbours>"

    @property
    def is_alone(self) -> bool:
        """Whether the topic has no neighbours."""
        return not (self.after or self.before or self.others)

    @property
    def neighbours(self) -> Mapping[PublicKey, Neighbour]:
        """Return all neighbours of the view, by their routers' keys."""
        after, before, others = self._sides
        if not (after is self.after and before is self.before and others is self.others):
            self._sides = self.after, self.before, self.others
            self._by_router = {one.router: one for side in self._sides for one in side}
        return self._by_router

    def show(self, after: Side, before: Side, others: Side) -> None:
        """Take these as the live neighbours, and record which of them were not live before, or are the first.

        Those were sent nothing in the meantime."""
        if after == self.after and before == self.before and others == self.others:
            return
        earlier = self.neighbours.keys()
        self.after, self.before, self.others = after, before, others
        live = self.neighbours.keys()
        if bool(earlier) is not bool(live):
            self.moved.add(self.group)
        first = [router for router in live if router not in earlier | self.lost][: self.first_left]
        self.first_left -= len(first)
        self.back |= {(self.group, router) for router in (*first, *(self.lost & live))}
        self.lost = (self.lost | earlier) - live
        while len(self.lost) > LOST_MAX:
            self.lost.pop()


class Known:
    """The key of this service, that of its router once it has started, and the topics by the keys of their groups.

    `unread`: the topics that are wanted only because something is published in them here. `finder`: the discovery
    service, in whose group it announces nodes here. `fell_silent`: routers that did not take or answer something, and
    must still be asked whether they are there. `back`: neighbours that are live again in a topic, which must still be
    compared with them. `newly_shared`: topics that one more router was found to share since the last look. `moved`:
    topics that are new, have got their first neighbour or lost their last: the router must still be told.
    `lost_s`: the monotonic second at which a neighbour was removed that did not answer, until it is live again.
    `let_go`: routers that are met no more, as others need their place, with the monotonic second until which their
    questions are still answered.
    `withholding`: the proofs against routers that pass nothing on; those that it bars have no place among the live
    neighbours, unless nobody else has. `nearest_since(group)`: the nearest known members on each side of a ring, and
    the second since which they are. `is_asked(id)`: whether a message was asked for after a comparison.
    `is_history(id)`: whether a message was asked for as history, which is kept and not sent on. `oldest_untaken(group,
    router)`: the first message published here that no neighbour has taken yet, and that this router will be sent, as it
    is no leaf.
    """

    __slots__ = (
        "_earlier",
        "_shared",
        "back",
        "fell_silent",
        "finder",
        "is_asked",
        "is_history",
        "let_go",
        "lost_s",
        "moved",
        "nearest_since",
        "newly_shared",
        "oldest_untaken",
        "router",
        "service",
        "topics",
        "unread",
        "withholding",
    )

    def __init__(self, service: PublicKey) -> None:
        self.service = service
        self.router: PublicKey | None = None
        self.topics: dict[PublicKey, Topic] = {}
        self.unread: set[PublicKey] = set()
        self.fell_silent: set[PublicKey] = set()
        self.finder: PublicKey | None = None
        self.back: set[Place] = set()
        self.newly_shared: set[PublicKey] = set()
        self.moved: set[PublicKey] = set()
        self.let_go: dict[PublicKey, float] = {}
        self.lost_s: dict[PublicKey, float] = {}
        self.withholding = Withholding()
        self.nearest_since: Callable[[PublicKey], dict[PublicKey, float]] = lambda _: {}
        self.is_asked: Callable[[MessageId], bool] = lambda _: False
        self.is_history: Callable[[MessageId], bool] = lambda _: False
        self.oldest_untaken: Callable[[PublicKey, PublicKey], tuple[MessageId, Own] | None] = lambda *_: None
        self._shared: dict[PublicKey, dict[PublicKey, bytes]] = {}
        self._earlier: dict[PublicKey, dict[bytes, PublicKey]] = {}

    def __repr__(self) -> str:
        return f"<{len(self.topics)} topics, shared with {len(self._shared)} routers>"

    def topic(self, router: PublicKey, t: bytes) -> Topic | None:
        """Return the topic that a router named `t` in its last meeting with this node or the one before; else None."""
        group = self._earlier.get(router, {}).get(t)
        topic = None if group is None else self.topics.get(group)
        return topic if topic is not None and router in topic.t else None

    def has_shared(self, router: PublicKey, group: PublicKey) -> bool:
        """Whether a group is shared with a router, or was when it was left, as of the last meeting."""
        topic = self.topics.get(group)
        return (topic is not None and router in topic.t) or group in self._earlier.get(router, {}).values()

    def shared_with(self, router: PublicKey) -> tuple[Topic, ...]:
        """Return the topics shared with a router, as of the last meeting."""
        shared = self._shared.get(router, {})
        return tuple([self.topics[group] for group in shared if group in self.topics])

    def groups_shared_with(self, router: PublicKey) -> Collection[PublicKey]:
        """Return the groups shared with a router, as of the last meeting, with some that are not wanted any more."""
        return self._shared.get(router, {}).keys()

    def is_partner(self, router: PublicKey) -> bool:
        """Whether a topic is shared with a router."""
        return bool(self._shared.get(router))

    @property
    def partners(self) -> set[PublicKey]:
        """Return the routers with which topics are shared."""
        return {router for router, shared in self._shared.items() if shared}

    def share(self, router: PublicKey, topics: Mapping[PublicKey, bytes]) -> None:
        """Record the groups shared with a router and their topics, in place of the earlier ones.

        Topics of the last meeting but one are still understood, because messages may be on their way."""
        before = self._shared.pop(router, {})
        for group in before.keys() - topics.keys():
            if group in self.topics:
                self.topics[group].t.pop(router, None)
        for group, t in topics.items():
            if group in self.topics:
                if router not in self.topics[group].t:
                    self.newly_shared.add(group)
                self.topics[group].t[router] = t
        self._earlier.pop(router, None)
        if topics:
            self._shared[router] = dict(topics)
            both = [(t, group) for each in (before, topics) for group, t in each.items() if group in topics]
            self._earlier[router] = dict(both)

    def end(self, group: PublicKey) -> None:
        """Forget a topic that is not wanted any more."""
        topic = self.topics.pop(group, None)
        for router in topic.t if topic is not None else ():
            self._shared.get(router, {}).pop(group, None)

    def silent(self, router: PublicKey) -> None:
        """Record that a neighbour did not take or answer something in time: it is not live until it is heard again."""
        self.fell_silent.add(router)
        for topic in self.shared_with(router):
            after, before, others = (
                tuple([one for one in side if one.router != router])
                for side in (topic.after, topic.before, topic.others)
            )
            topic.show(after, before, others)
