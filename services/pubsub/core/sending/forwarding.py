"""Forwarding: a message is sent on to routers of its topic, and to others in place of those that do not take it
(R-C33).

A copy that is not in a router's custody after `failover_s` goes to the next on its side of the ring, or to another at
random, over the whole view. Copies over random links are left out where they have brought nothing new (`RandomCopies`);
those of a message are sent after all if one along the ring is not taken. A message published on this node is sent until
a neighbour has taken it. `Forwarding` takes one event after the other and returns deeds. Duplicates do not come here,
because the router settles them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from math import inf
from typing import NamedTuple

from msgspec import Struct, field

from router.core.wire.crypto import MessageId, PublicKey
from router.service.contract import Chance
from services.pubsub.core.known import Neighbour, Topic
from services.pubsub.core.sending.random_copies import Came, RandomCopies, RandomCopiesLimits, came_by
from services.pubsub.core.sending.targets import Target, Toward, in_random_order, replacement, targets
from services.pubsub.core.sending.untaken import Own, Untaken, UntakenLimits


class ForwardingLimits(Struct, frozen=True):
    """The fan-out, times and bounds of forwarding.

    `fanout`: number of routers to which a message is sent, neighbours on the ring included. `failover_s`: seconds that
    a router has to take custody of a copy. From `large_bytes` on, random links get a message's id instead (R-C34).
    Copies of at most `pending_max` messages with `pending_bytes_max` are followed. `heard_max`: number of routers whose
    last sign of life is remembered.
    """

    fanout: int = 3
    failover_s: float = 3.0
    large_bytes: int = 16 << 10
    pending_max: int = 10_000
    pending_bytes_max: int = 32 << 20
    heard_max: int = 1_024
    untaken: UntakenLimits = field(default_factory=UntakenLimits)
    random: RandomCopiesLimits = field(default_factory=RandomCopiesLimits)


class EndCause(Enum):
    """Why the copies of a message are no longer followed, though none was taken."""

    NOBODY_TOOK_IT = "no router of the whole view took custody"
    NO_ROOM = "more copies are under way than are followed"
    EXPIRED = "it expired before a neighbour took it"
    GONE = "this node's router does not hold it any more"
    LEFT = "its group is not wanted here any more"


class Origin(NamedTuple):
    """The bringer of a message: a router, or an app of this node (None). `is_member`: it is a router of the topic's
    ring.

    A message not brought by a member comes from this node, or from a client or LAN neighbour of it. If it has an end
    (`until_s`, a Unix second), it is sent until a neighbour has taken it or it has expired."""

    sender: PublicKey | None = None
    is_member: bool = False
    until_s: float | None = None


# -- deeds ------------------------------------------------------------------------------------------------------------


class SendCopy(NamedTuple):
    """Send the message on to a router; `again`: the copy replaces one that another router did not take."""

    id: MessageId
    group: PublicKey
    wire: bytes
    to: PublicKey
    again: bool = False


class Announce(NamedTuple):
    """Tell a router that this one holds a large message."""

    id: MessageId
    group: PublicKey
    to: Neighbour


class Silent(NamedTuple):
    """Report that a router takes nothing: it has not taken a copy sent `failover_s` ago, nor anything since."""

    router: PublicKey


class FetchBytes(NamedTuple):
    """Fetch the bytes of a message from this node's router; `fetched` takes the answer."""

    id: MessageId
    group: PublicKey


class Remember(NamedTuple):
    """Keep over a restart that no neighbour has taken this message of this node."""

    id: MessageId
    own: Own


class Forget(NamedTuple):
    """Undo `Remember`."""

    id: MessageId


class GaveUp(NamedTuple):
    """Report that a message is no longer followed, and to how many routers it was sent. `is_own`: it is of this node,
    so perhaps nobody else has it."""

    id: MessageId
    group: PublicKey
    cause: EndCause
    tried: int = 0
    is_own: bool = False


class RememberRun(NamedTuple):
    """Keep over a restart that no neighbour has taken these messages of this node, which expire together."""

    ids: Sequence[MessageId]
    own: Own


Deed = SendCopy | Announce | Silent | FetchBytes | Remember | RememberRun | Forget | GaveUp


# -- what is under way ------------------------------------------------------------------------------------------------


class _Copying:
    """One copy of a message, and the router that it went to last. `is_over`: it was taken, or given up."""

    __slots__ = ("is_over", "to", "toward")

    def __init__(self, target: Target) -> None:
        self.to, self.toward = target.to.router, target.toward
        self.is_over = False


class _Pending:
    """A message whose copies are in progress. `by_router`: the copy that each router was sent; `open`: number of copies
    that are not over; `left_out`: routers to which no random copy was sent; `came`: how the message came."""

    __slots__ = ("by_router", "came", "group", "is_taken", "left_out", "open", "origin", "wire")

    def __init__(self, group: PublicKey, wire: bytes, origin: Origin) -> None:
        self.group, self.wire, self.origin = group, wire, origin
        self.came = Came.HERE
        self.left_out: list[Target] = []
        self.by_router: dict[PublicKey, _Copying] = {}
        self.open = 0
        self.is_taken = False


class Forwarding:
    """The copies of one node that are in progress.

    `topics` has the live neighbours of each topic; messages of other topics are not forwarded. Seconds are monotonic
    except for expiries and `wall_s`. `copies`, `copies_again`, `announced`: how many of each were sent; `left_out`: how
    many random copies were not, as others had brought nothing new.
    """

    def __init__(
        self, topics: Mapping[PublicKey, Topic], chance: Chance, limits: ForwardingLimits | None = None
    ) -> None:
        self._topics = topics
        self._chance = chance
        self._limits = limits = limits or ForwardingLimits()
        self._untaken = Untaken(self._has_neighbours, limits.untaken)
        self._pending: dict[MessageId, _Pending] = {}
        self._bytes = 0
        self._timers: deque[tuple[float, MessageId, PublicKey]] = deque()
        self._heard_s: dict[PublicKey, float] = {}
        self.random = RandomCopies(chance, limits.random)
        self.copies = self.copies_again = self.announced = self.left_out = 0

    def __repr__(self) -> str:
        return f"<forwarding of {len(self._pending)} messages; {self._untaken!r}>"

    @property
    def pending(self) -> int:
        """Return how many messages have copies under way."""
        return len(self._pending)

    def oldest_untaken(self, group: PublicKey) -> tuple[MessageId, Own] | None:
        """Return the first message of this node in a topic that no neighbour has taken; None if all are taken."""
        return self._untaken.oldest(group)

    def groups_untaken(self) -> list[PublicKey]:
        """Return the groups with a message of this node that no neighbour has taken."""
        return self._untaken.groups

    def untaken_in(self, group: PublicKey) -> int:
        """Return how many messages of this node in a topic no neighbour has taken yet."""
        return self._untaken.count(group)

    @property
    def untaken(self) -> int:
        """Return how many messages of this node no neighbour has taken yet."""
        return len(self._untaken)

    @property
    def room(self) -> int:
        """Return how many more messages of this node may wait for a neighbour."""
        return self._untaken.room

    @property
    def due_s(self) -> float:
        """Return the monotonic second at which `tick` has something to do; infinity: never."""
        self._forget_timers()
        due_s = self._untaken.due_s
        return min(self._timers[0][0], due_s) if self._timers else due_s

    # -- what happens -------------------------------------------------------------------------------------------------

    def received(self, id: MessageId, group: PublicKey, wire: bytes, origin: Origin, now_s: float) -> list[Deed]:
        """Send a message on that has come for the first time."""
        topic = self._topics.get(group)
        if topic is None or id in self._pending or id in self._untaken:
            return []
        if origin.sender is not None:
            self._hear(origin.sender, now_s)
        deeds: list[Deed] = []
        if origin.until_s is not None and not origin.is_member:
            own = Own(group, origin.until_s)
            kept = self._untaken.add(id, own)
            deeds.append(Remember(id, own) if kept else GaveUp(id, group, EndCause.NO_ROOM, is_own=True))
        return [*deeds, *self._begin(id, _Pending(group, wire, origin), topic, now_s)]

    def published(self, ids: Sequence[MessageId], own: Own, now_s: float) -> list[Deed]:
        """Take note of at most `room` messages of this node that expire together, to be fetched for a neighbour."""
        self._untaken.add_run(ids, own, now_s)
        return [RememberRun(ids, own)]

    def hurry(self, group: PublicKey, now_s: float) -> None:
        """Try the waiting messages of a topic at once, since it has a neighbour."""
        self._untaken.hurry(group, now_s)

    def taken(self, id: MessageId, to: PublicKey, now_s: float, *, was_known: bool = False) -> list[Deed]:
        """Record that a router has taken custody of its copy, or had the message already (`was_known`)."""
        self._hear(to, now_s)
        deeds: list[Deed] = []
        if self._untaken.end(id):
            deeds.append(Forget(id))
        pending = self._pending.get(id)
        copy = pending.by_router.get(to) if pending is not None else None
        if pending is None or copy is None:
            return deeds
        pending.is_taken = True
        if copy.toward is Toward.ANYBODY and (topic := self._topics.get(pending.group)) is not None:
            self.random.ended(topic, pending.came, pending.origin.sender, to, was_known=was_known)
        if deeds:
            self._untaken.hurry(pending.group, now_s)
        return [*deeds, *self._end_copy(id, pending, copy, now_s)]

    def refused(self, id: MessageId, to: PublicKey, now_s: float) -> list[Deed]:
        """Send a copy to another router at once, because its router will not take it."""
        found = self._open_copy(id, to)
        return [] if found is None else self._advance(id, *found, now_s)

    def fetched(self, id: MessageId, wire: bytes | None, now_s: float) -> list[Deed]:
        """Handle the answer to `FetchBytes`; without its bytes a message cannot be sent on."""
        own = self._untaken.fetched(id)
        if own is None:
            return []
        topic = self._topics.get(own.group)
        if wire is None or topic is None:
            self._untaken.end(id)
            return [Forget(id), GaveUp(id, own.group, EndCause.GONE, is_own=True)]
        return self._begin(id, _Pending(own.group, wire, Origin(until_s=own.until_s)), topic, now_s)

    def restore(self, kept: Iterable[tuple[MessageId, Own]], now_s: float) -> list[Deed]:
        """Load the messages kept by `Remember` and `RememberRun` before a restart: all of them are tried again."""
        deeds: list[Deed] = []
        for id, own in kept:
            if self._untaken.add(id, own):
                self._untaken.rest(id, now_s)
            else:
                deeds.append(Forget(id))
        return deeds

    def left(self, group: PublicKey) -> list[Deed]:
        """Forget all messages of a topic that this node has left."""
        for id in [id for id, one in self._pending.items() if one.group == group]:
            self._drop(id)
        self.random.forget(group)
        ended = [id for id in self._untaken.of(group) if self._untaken.end(id)]
        gave_up = [GaveUp(id, group, EndCause.LEFT, is_own=True) for id in ended]
        return [*map(Forget, ended), *gave_up]

    def tick(self, now_s: float, wall_s: float) -> list[Deed]:
        """Send copies that were not taken in time to other routers, and retry waiting messages."""
        deeds: list[Deed] = []
        while self._timers and self._timers[0][0] <= now_s:
            _, id, to = self._timers.popleft()
            if (found := self._open_copy(id, to)) is not None:
                if self._heard_s.get(to, -inf) < now_s - self._limits.failover_s:
                    deeds.append(Silent(to))
                deeds += self._advance(id, *found, now_s)
        if self._untaken.due_s <= now_s:
            fetch, expired = self._untaken.due(now_s, wall_s)
            for id, own in expired:
                deeds += [Forget(id), GaveUp(id, own.group, EndCause.EXPIRED, is_own=True)]
            deeds += [FetchBytes(id, own.group) for id, own in fetch]
        return deeds

    # -- inside -------------------------------------------------------------------------------------------------------

    def _has_neighbours(self, group: PublicKey) -> bool:
        topic = self._topics.get(group)
        return topic is not None and bool(topic.after or topic.before or topic.others)

    def _open_copy(self, id: MessageId, to: PublicKey) -> tuple[_Pending, _Copying] | None:
        """Return the copy that went to a router last and is not over, and its message; None if there is none."""
        pending = self._pending.get(id)
        copy = pending.by_router.get(to) if pending is not None else None
        if pending is None or copy is None or copy.is_over or copy.to != to:
            return None
        return pending, copy

    def _forget_timers(self) -> None:
        """Remove timers at the front whose copies are over, so that they cause no wake-up."""
        while self._timers and self._open_copy(*self._timers[0][1:]) is None:
            self._timers.popleft()

    def _begin(self, id: MessageId, pending: _Pending, topic: Topic, now_s: float) -> list[Deed]:
        chosen = self._targets(pending, topic)
        if not chosen:
            if id in self._untaken:
                self._untaken.rest(id, now_s)
            return []
        deeds = self._make_room(len(pending.wire), now_s)
        self._pending[id] = pending
        self._bytes += len(pending.wire)
        is_large = len(pending.wire) >= self._limits.large_bytes and chosen[0].toward is not Toward.ANYBODY
        for target in chosen:
            if is_large and target.toward is Toward.ANYBODY:
                self.announced += 1
                deeds.append(Announce(id, pending.group, target.to))
            else:
                deeds.append(self._send(id, pending, target, now_s))
        return deeds

    def _targets(self, pending: _Pending, topic: Topic) -> list[Target]:
        """Return the routers that are sent a message, or its id; note those to which a random copy would be no news."""
        sender, is_member, _ = pending.origin
        fanout = self._limits.fanout
        chosen = targets(topic, sender, fanout, self._chance, is_member=is_member)
        pending.came = came_by(topic, sender, is_member=is_member)
        ring = [one for one in chosen if one.toward is not Toward.ANYBODY]
        if not ring or len(pending.wire) >= self._limits.large_bytes or not self.random.is_measured(topic):
            return chosen
        order = in_random_order(topic, {sender, *(one.to.router for one in ring)}, self._chance)
        found = self.random.choose(topic, pending.came, sender, order, fanout - len(ring))
        left_out = [one for one in order if one not in found][: max(0, fanout - len(ring) - len(found))]
        pending.left_out = [Target(one, Toward.ANYBODY) for one in left_out]
        self.left_out += len(left_out)
        return [*ring, *(Target(one, Toward.ANYBODY) for one in found)]

    def _send(self, id: MessageId, pending: _Pending, target: Target, now_s: float) -> SendCopy:
        pending.open += 1
        return self._hand(id, pending, _Copying(target), now_s)

    def _hand(self, id: MessageId, pending: _Pending, copy: _Copying, now_s: float, *, again: bool = False) -> SendCopy:
        pending.by_router[copy.to] = copy
        self._timers.append((now_s + self._limits.failover_s, id, copy.to))
        self.copies += 1
        self.copies_again += again
        return SendCopy(id, pending.group, pending.wire, copy.to, again)

    def _advance(self, id: MessageId, pending: _Pending, copy: _Copying, now_s: float) -> list[Deed]:
        """Send a copy to the next candidate; if there is none, the copy is over. Send the random ones that were left
        out."""
        self.random.forget(pending.group)
        left_out, pending.left_out = pending.left_out, []
        free = (one for one in left_out if one.to.router not in pending.by_router)
        more: list[Deed] = [self._send(id, pending, one, now_s) for one in free]
        topic, other = self._topics.get(pending.group), None
        if topic is not None:
            sender, is_member, _ = pending.origin
            taken = {sender, *pending.by_router}
            other = replacement(topic, copy.toward, sender, taken, self._chance, is_member=is_member)
        if other is None:
            return [*more, *self._end_copy(id, pending, copy, now_s)]
        copy.to = other.router
        return [*more, self._hand(id, pending, copy, now_s, again=True)]

    def _end_copy(self, id: MessageId, pending: _Pending, copy: _Copying, now_s: float) -> list[Deed]:
        """End one copy, and with the last one the message."""
        if copy.is_over:
            return []
        copy.is_over = True
        pending.open -= 1
        if pending.open:
            return []
        self._drop(id)
        if pending.is_taken:
            return []
        if id in self._untaken:
            self._untaken.rest(id, now_s)
            return []
        return [
            GaveUp(id, pending.group, EndCause.NOBODY_TOOK_IT, len(pending.by_router), not pending.origin.is_member)
        ]

    def _drop(self, id: MessageId) -> None:
        self._bytes -= len(self._pending.pop(id).wire)

    def _make_room(self, size: int, now_s: float) -> list[Deed]:
        """Stop following the oldest messages until there is room; those of this node are retried later."""
        limits, deeds, pending = self._limits, list[Deed](), self._pending
        while pending and (len(pending) >= limits.pending_max or self._bytes + size > limits.pending_bytes_max):
            id = next(iter(pending))
            oldest = pending[id]
            self._drop(id)
            if id in self._untaken:
                self._untaken.rest(id, now_s)
            else:
                tried, is_own = len(oldest.by_router), not oldest.origin.is_member
                deeds.append(GaveUp(id, oldest.group, EndCause.NO_ROOM, tried, is_own))
        return deeds

    def _hear(self, router: PublicKey, now_s: float) -> None:
        """Record that a router takes or sends something now; beyond the limit, the first is forgotten."""
        self._heard_s.pop(router, None)
        if len(self._heard_s) >= self._limits.heard_max:
            del self._heard_s[next(iter(self._heard_s))]
        self._heard_s[router] = now_s
