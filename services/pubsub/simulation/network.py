"""A simulated network whose nodes keep rings, forward and repair with the code that ships; links are simulated.

A copy takes the delay of its link, and so does its acknowledgement. A dead node takes nothing and sends nothing, so its
neighbours wait for as long as the shipped limits prescribe.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from math import inf
from random import Random
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct

from router.core.wire.crypto import KEY_BYTES, MessageId, PublicKey
from services.pubsub.core.known import Known, Neighbour, Topic
from services.pubsub.core.rings import overlay as o
from services.pubsub.core.sending import forwarding as f
from services.pubsub.core.sending import repair as r
from services.pubsub.simulation.broadcast import Broadcast
from services.pubsub.simulation.engine import CONNECT_FAILS_S, DELAY_S, Engine, Links

GROUP = PublicKey(b"\x07" * KEY_BYTES)
LIFE_S = 86_400.0
SMALL_BYTES = 200
ID_BYTES = 32
TOPIC_BYTES = 16

T = TypeVar("T")


class Arrive(NamedTuple):
    """A message comes from a node: sent on, or as the answer to a question (`is_answer`)."""

    by: int
    id: MessageId
    is_answer: bool = False


class Taken(NamedTuple):
    """A node has taken custody of a message that was sent to it, or had it already (`was_known`)."""

    by: int
    id: MessageId
    was_known: bool = False


class Announced(NamedTuple):
    """A node has announced that it holds a message."""

    by: int
    id: MessageId


class MessageAsked(NamedTuple):
    """A node asks for a message."""

    by: int
    id: MessageId


class Meet(NamedTuple):
    """A node asks which topics both want; it sends its own after it got those of the other."""

    by: int


class Met(NamedTuple):
    """A node has sent the topics that both want. `is_answer`: it does not know the other's yet, which are sent in
    return."""

    by: int
    is_answer: bool


class RingsAsked(NamedTuple):
    """A node asks for members of rings, and sends those it knows."""

    by: int
    rings: tuple[o.RingOf, ...]


class RingsTold(NamedTuple):
    """A node answers with members of rings."""

    by: int
    rings: tuple[o.RingOf, ...]


class Unreachable(NamedTuple):
    """No connection to a node could be made."""

    to: int


class Due(NamedTuple):
    """Something is due at the node at that second."""

    at_s: float


class Faults(Struct, frozen=True):
    """Faults. `lost`: the share of copies that are lost; `lost_unnoticed`: those lost although they were acknowledged;
    `droppers`: nodes that take everything and do nothing with it."""

    lost: float = 0.0
    lost_unnoticed: float = 0.0
    droppers: frozenset[int] = frozenset()


class Limits(Struct, frozen=True):
    """The shipped limits of all nodes; `overlay`: None if rings are given and not maintained."""

    forwarding: f.ForwardingLimits
    overlay: o.OverlayLimits | None = None


class Node:
    """A node: the shipped decisions, and the messages that it holds, each with the ids that it names."""

    __slots__ = ("forwarding", "heads", "held", "key", "known", "number", "overlay", "repair", "since_s", "wake_s")

    def __init__(self, number: int, key: PublicKey, chance: Random, limits: Limits, now_s: float) -> None:
        self.number, self.key, self.since_s = number, key, now_s
        self.known = Known(key)
        self.known.router = key
        self.overlay = o.Overlay(self.known, key, chance, limits.overlay) if limits.overlay is not None else None
        self.forwarding = f.Forwarding(self.known.topics, chance, limits.forwarding)
        self.repair = r.Repair(self.known.topics, chance)
        self.held: dict[MessageId, tuple[MessageId, ...]] = {}
        self.heads: dict[MessageId, None] = {}
        self.wake_s = inf

    def __repr__(self) -> str:
        return f"<node {self.number} with {len(self.held)} messages>"

    def hold(self, id: MessageId, seen: tuple[MessageId, ...]) -> None:
        """Keep a message; the messages that it names are no heads any more."""
        self.held[id] = seen
        for one in seen:
            self.heads.pop(one, None)
        self.heads[id] = None


class Network:
    """Nodes by their numbers, and the messages between them."""

    def __init__(
        self,
        seed: int,
        nodes: int,
        fanout: int,
        faults: Faults | None = None,
        rings: o.OverlayLimits | None = None,
        delay_s: tuple[float, float] = DELAY_S,
    ) -> None:
        self.engine = Engine(seed)
        self.links = Links(self.engine.chance, delay_s)
        self.faults = faults or Faults()
        self.limits = Limits(f.ForwardingLimits(fanout=fanout), rings)
        self.nodes: list[Node] = []
        self.dead: set[int] = set()
        self.broadcasts: dict[MessageId, Broadcast] = {}
        self.gave_up = 0
        self._numbers: dict[PublicKey, int] = {}
        self._wires: dict[MessageId, bytes] = {}
        self._groups: dict[MessageId, PublicKey] = {}
        self.misdirected = 0
        self._handle: dict[type, Callable[[Node, Any], None]] = {
            Meet: self._meet,
            Met: self._met,
            RingsAsked: self._ask_rings,
            RingsTold: self._tell_rings,
            Unreachable: self._unreachable,
            Arrive: self._arrive,
            Taken: self._taken,
            Announced: self._announced,
            MessageAsked: self._asked,
            Due: self._due,
        }
        for _ in range(nodes):
            self.add()

    def __repr__(self) -> str:
        return f"<network of {len(self.live)} live nodes at {self.engine.now_s:.1f} s>"

    # -- what a scenario does -----------------------------------------------------------------------------------------

    @property
    def live(self) -> list[int]:
        """Return the numbers of the live nodes."""
        return [one.number for one in self.nodes if one.number not in self.dead]

    def add(self, groups: Collection[PublicKey] = (GROUP,)) -> Node:
        """Add a node that wants these groups and knows no other; it begins within the first period."""
        chance = self.engine.chance
        node = Node(len(self.nodes), PublicKey(chance.randbytes(KEY_BYTES)), chance, self.limits, self.engine.now_s)
        node.known.topics.update({group: Topic(group) for group in groups})
        self.nodes.append(node)
        self._numbers[node.key] = node.number
        if node.overlay is not None and self.limits.overlay is not None:
            for group in groups:
                node.overlay.begin(group)
            rings = self.limits.overlay
            node.wake_s = self.engine.now_s + chance.random() * (rings.fast_s if rings.fast_periods else rings.period_s)
            self.engine.at(node.wake_s, node.number, Due(node.wake_s))
        return node

    def neighbour(self, number: int) -> Neighbour:
        """Return a node as others see it."""
        key = self.nodes[number].key
        return Neighbour(key, key)

    def number(self, router: PublicKey) -> int:
        """Return the number of the node with that key."""
        return self._numbers[router]

    def publish(self, at: int, wire: bytes = b"\0" * SMALL_BYTES, group: PublicKey = GROUP) -> MessageId:
        """Publish a message at a live node, and return its id. It names the heads of the node's messages."""
        node = self.nodes[at]
        id = MessageId(self.engine.chance.randbytes(ID_BYTES))
        self._wires[id], self._groups[id] = wire, group
        self.broadcasts[id] = Broadcast(at, self.engine.now_s)
        node.hold(id, tuple([one for one in node.heads if self._groups[one] == group]))
        now_s = self.engine.now_s
        self._repair(node, node.repair.arrived(id, None, now_s))
        self._forward(node, node.forwarding.received(id, group, wire, f.Origin(until_s=now_s + LIFE_S), now_s))
        self._wake(node)
        return id

    def on(self, kind: type[T], handle: Callable[[Node, T], None]) -> None:
        """Have events of another kind handled at the nodes where they occur."""
        self._handle[kind] = handle

    def say(self, node: Node, to: int, event: object) -> None:
        """Send an event from a node to another, where it occurs after the delay."""
        self.engine.after(self.links.delay_s(node.number, to), to, event)

    def run(self, span_s: float = inf) -> None:
        """Let time pass; without a span, until nothing is on its way and nothing due."""
        self.engine.run(self._happen, self.engine.now_s + span_s)

    # -- what happens -------------------------------------------------------------------------------------------------

    def _happen(self, number: int, event: object) -> None:
        if number not in self.dead:
            node = self.nodes[number]
            self._handle[type(event)](node, event)
            self._wake(node)

    def _meet(self, node: Node, event: Meet) -> None:
        self.say(node, event.by, Met(node.number, is_answer=True))

    def _met(self, node: Node, event: Met) -> None:
        other = self.nodes[event.by]
        shared = [group for group in node.known.topics if group in other.known.topics]
        node.known.share(other.key, {group: group[:TOPIC_BYTES] for group in shared})
        assert node.overlay is not None
        node.overlay.met(self.neighbour(event.by), self.engine.now_s)
        if event.is_answer:
            self.say(node, event.by, Met(node.number, is_answer=False))

    def _ask_rings(self, node: Node, event: RingsAsked) -> None:
        assert node.overlay is not None
        reply = node.overlay.hear_question(self.neighbour(event.by), event.rings)
        if reply is not None:
            self.say(node, event.by, RingsTold(node.number, self._sent(node, reply.rings)))

    def _sent(self, node: Node, rings: Iterable[o.RingOf]) -> tuple[o.RingOf, ...]:
        """Return the rings as a node can send them."""
        return tuple(rings)

    def _tell_rings(self, node: Node, event: RingsTold) -> None:
        assert node.overlay is not None
        node.overlay.hear_answer(self.neighbour(event.by), event.rings)

    def _unreachable(self, node: Node, event: Unreachable) -> None:
        assert node.overlay is not None
        node.overlay.absent(self.nodes[event.to].key, self.engine.now_s)

    def _arrive(self, node: Node, event: Arrive) -> None:
        faults, chance = self.faults, self.engine.chance
        self.say(node, event.by, Taken(node.number, event.id, event.id in node.held))
        if faults.lost_unnoticed and not event.is_answer and chance.random() < faults.lost_unnoticed:
            return
        broadcast, group = self.broadcasts[event.id], self._groups[event.id]
        if group not in node.known.topics:
            self.misdirected += 1
            return
        if not broadcast.received(node.number, broadcast.hops[event.by] + 1, self.engine.now_s):
            return
        if node.number in faults.droppers:
            return
        self._heard(node, event.by)
        by, seen, now_s = self.nodes[event.by].key, self.nodes[event.by].held[event.id], self.engine.now_s
        node.hold(event.id, seen)
        self._repair(node, node.repair.arrived(event.id, by, now_s))
        if seen:
            node.repair.named(seen, group, by, r.Named.SEEN, now_s)
        origin = f.Origin(by, is_member=True)
        self._forward(node, node.forwarding.received(event.id, group, self._wires[event.id], origin, now_s))

    def _taken(self, node: Node, event: Taken) -> None:
        self._heard(node, event.by)
        by, was_known = self.nodes[event.by].key, event.was_known
        self._forward(node, node.forwarding.taken(event.id, by, self.engine.now_s, was_known=was_known))

    def _announced(self, node: Node, event: Announced) -> None:
        if node.number not in self.faults.droppers:
            by, group = self.nodes[event.by].key, self._groups[event.id]
            node.repair.named([event.id], group, by, r.Named.HAVE, self.engine.now_s)

    def _asked(self, node: Node, event: MessageAsked) -> None:
        if event.id in node.held:
            self.say(node, event.by, Arrive(node.number, event.id, is_answer=True))

    def _due(self, node: Node, event: Due) -> None:
        if event.at_s != node.wake_s:
            return
        node.wake_s = inf
        now_s = self.engine.now_s
        self._forward(node, node.forwarding.tick(now_s, now_s))
        self._repair(node, node.repair.tick(now_s))
        if node.overlay is not None and node.overlay.due_s <= now_s:
            self._keep_rings(node, node.overlay.tick(now_s))
        self._tend(node)

    def _tend(self, node: Node) -> None:
        """Do what else is due at a node."""

    def _other_due_s(self, node: Node) -> float:
        """Return the second at which something else is due at a node."""
        return inf

    # -- what nodes do ------------------------------------------------------------------------------------------------

    def _forward(self, node: Node, deeds: Iterable[f.Deed]) -> None:
        for deed in deeds:
            match deed:
                case f.SendCopy():
                    if not (self.faults.lost and self.engine.chance.random() < self.faults.lost):
                        self.say(node, self._numbers[deed.to], Arrive(node.number, deed.id))
                case f.Announce():
                    self.say(node, self._numbers[deed.to.router], Announced(node.number, deed.id))
                case f.Silent():
                    node.known.silent(deed.router)
                case f.FetchBytes():
                    now_s = self.engine.now_s
                    self._forward(node, node.forwarding.fetched(deed.id, self._wires[deed.id], now_s))
                case f.GaveUp():
                    self.gave_up += 1

    def _repair(self, node: Node, deeds: Iterable[r.Deed]) -> None:
        for deed in deeds:
            if isinstance(deed, r.AskForMessage):
                self.say(node, self._numbers[deed.router], MessageAsked(node.number, deed.id))

    def _keep_rings(self, node: Node, deeds: Iterable[o.Deed]) -> None:
        for deed in deeds:
            match deed:
                case o.ExchangeRings():
                    self._connect(node, deed.to, RingsAsked(node.number, deed.rings))
                case o.MeetWith():
                    self._connect(node, deed.candidate, Meet(node.number))

    def _connect(self, node: Node, to: Neighbour, event: object) -> None:
        number = self._numbers[to.router]
        if number in self.dead:
            self.engine.after(CONNECT_FAILS_S, node.number, Unreachable(number))
        else:
            self.say(node, number, event)

    def _heard(self, node: Node, by: int) -> None:
        if node.overlay is not None:
            node.overlay.heard(self.nodes[by].key)

    def _wake(self, node: Node) -> None:
        due_s = min(node.forwarding.due_s, node.repair.due_s)
        if node.overlay is not None:
            due_s = max(self.engine.now_s, min(due_s, node.overlay.due_s, self._other_due_s(node)))
        if due_s < node.wake_s:
            node.wake_s = due_s
            self.engine.at(due_s, node.number, Due(due_s))
