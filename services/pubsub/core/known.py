"""The state that the parts of the pub/sub service share: the keys of this node, its topics, and the neighbours of
each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Set

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


class LiveNeighbours:
    """The live neighbours of the topics that have the same ones, so that a change of these costs the same for one topic
    and for thousands.

    `after` and `before` hold the live neighbours on each side of this node on the ring, nearest first, and `others`
    live ones at random: at most 10 each. With few members a neighbour may be on both sides; `others` has none of either
    side. Live: met, and not silent since. On a leaf, `others` are the uplinks with a pub/sub service. `neighbours`: all
    of them, by their routers' keys. `topics`: those whose neighbours they are, by their groups. `lost`: routers that
    were live and are not any more. `back` and `moved`: as in `Topic`."""

    __slots__ = ("after", "back", "before", "lost", "moved", "neighbours", "others", "topics", "young")

    def __init__(self, back: set[Place], moved: set[PublicKey]) -> None:
        self.back = back
        self.moved = moved
        self.topics: dict[PublicKey, Topic] = {}
        self.young: dict[PublicKey, Topic] = {}  # topics that were not compared with `FIRST` neighbours
        self.lost: set[PublicKey] = set()
        self.after: Side = ()
        self.before: Side = ()
        self.others: Side = ()
        self.neighbours: Mapping[PublicKey, Neighbour] = {}

    def __repr__(self) -> str:
        return f"<{len(self.neighbours)} neighbours of {len(self.topics)} topics>"

    def show(self, after: Side, before: Side, others: Side) -> None:
        """Take these as the live neighbours, and record which of them were not live before, or are the first.

        Those were sent nothing in the meantime."""
        if after == self.after and before == self.before and others == self.others:
            return
        earlier, live = self.neighbours.keys(), {one.router: one for side in (after, before, others) for one in side}
        self.after, self.before, self.others, self.neighbours = after, before, others, live
        if bool(earlier) is not bool(live):
            self.moved.update(self.topics)
        for topic in list(self.young.values()):
            topic.first(earlier | self.lost)
        for router in self.lost & live.keys():
            self.back |= {(group, router) for group in self.topics}
        self._lose(self.lost | earlier)

    def take(self, topic: Topic) -> None:
        """Take a topic that has had other neighbours until now; record what `show` records of it."""
        before = topic.near
        if before is self:
            return
        before.leave(topic)
        self.topics[topic.group], topic.near = topic, self
        if topic.first_left:
            self.young[topic.group] = topic
        if before.neighbours.keys() != self.neighbours.keys():
            if bool(before.neighbours) is not bool(self.neighbours):
                self.moved.add(topic.group)
            topic.first(before.neighbours.keys() | before.lost)
            self.back |= {(topic.group, router) for router in before.lost & self.neighbours.keys()}
        self._lose(self.lost | before.lost | before.neighbours.keys())

    def leave(self, topic: Topic) -> None:
        """Forget a topic."""
        self.topics.pop(topic.group, None)
        self.young.pop(topic.group, None)

    def _lose(self, routers: Set[PublicKey]) -> None:
        self.lost = {one for one in routers if one not in self.neighbours}
        while len(self.lost) > LOST_MAX:
            self.lost.pop()


class Topic:
    """A group that is wanted here, and the neighbours with which it is shared.

    `near`: the live ones, which other topics may have as well. `t`: by the partner's router, the topic by which this
    node and the partner name the group. `caught_up_s`: the Unix second of the last comparison with another node that
    ended well, None before the first; `missing`: how many messages no router asked then had. Since the topic is wanted:
    `received`, messages that came for the first time, those of this node included; `copies`, copies of them sent to
    routers; `repaired`, messages that came because they were asked for. `back`: the record of routers that are live
    again, and of the first `first_left`, each with the group; `moved`: the record of groups that got their first
    neighbour or lost their last.
    """

    __slots__ = ("caught_up_s", "copies", "first_left", "group", "missing", "near", "received", "repaired", "t")

    def __init__(self, group: PublicKey, back: set[Place] | None = None, moved: set[PublicKey] | None = None) -> None:
        self.group = group
        self.first_left = FIRST
        self.near = LiveNeighbours(set() if back is None else back, set() if moved is None else moved)
        self.near.topics[group] = self.near.young[group] = self
        self.t: dict[PublicKey, bytes] = {}
        self.caught_up_s: int | None = None
        self.missing = self.received = self.copies = self.repaired = 0

    def __repr__(self) -> str:
        return f"<topic {self.group.hex()[:8]}: {len(self.neighbours)} neighbours>"

    @property
    def after(self) -> Side:
        return self.near.after

    @property
    def before(self) -> Side:
        return self.near.before

    @property
    def others(self) -> Side:
        return self.near.others

    @property
    def neighbours(self) -> Mapping[PublicKey, Neighbour]:
        """Return all live neighbours, by their routers' keys."""
        return self.near.neighbours

    @property
    def is_alone(self) -> bool:
        """Whether the topic has no neighbours."""
        return not self.near.neighbours

    def show(self, after: Side, before: Side, others: Side) -> None:
        """Take these as the live neighbours; see `LiveNeighbours.show`."""
        self.near.show(after, before, others)

    def first(self, known: Set[PublicKey]) -> None:
        """Record those of the live neighbours that are not known, as long as they are among the first."""
        found = [router for router in self.neighbours if router not in known][: self.first_left]
        self.near.back |= {(self.group, router) for router in found}
        self.first_left -= len(found)
        if not self.first_left:
            self.near.young.pop(self.group, None)


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
        if topic is not None:
            topic.near.leave(topic)
        for router in topic.t if topic is not None else ():
            self._shared.get(router, {}).pop(group, None)

    def silent(self, router: PublicKey) -> None:
        """Record that a neighbour did not take or answer something in time: it is not live until it is heard again."""
        self.fell_silent.add(router)
        shared = self._shared.get(router, {})
        topics = [self.topics[group] for group in shared if group in self.topics]
        for near in dict.fromkeys(topic.near for topic in topics):
            sides = ((one for one in side if one.router != router) for side in (near.after, near.before, near.others))
            near.show(*map(tuple, sides))
