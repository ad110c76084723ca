"""Nodes that catch up with each other: the service's own decisions, with dictionaries as routers."""

from __future__ import annotations

from hashlib import sha256
from random import Random
from typing import Any

from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.lifetime import EPOCH_S
from router.service import contract as c
from router.service.roles import overlay as o
from router.service.verbs.pull_from import PullState
from services.pubsub.core.comparison.comparing import Comparing
from services.pubsub.core.comparison.held import minute_at
from services.pubsub.core.comparison.id_set import key_of
from services.pubsub.core.comparison.plan import CompareLimits
from services.pubsub.core.known import Known, Neighbour, Topic
from services.pubsub.core.messages import Compare, decode_message

GROUP, OTHER = (PublicKey(bytes((one,)) * 32) for one in (7, 8))
T = b"t" * 16
BEGIN_S = EPOCH_S + 3_626_000 * 60
MONO_S, UP_S = 1000.0, 86_400.0


def message(number: int, minutes: int = 600) -> tuple[MessageId, int]:
    """Return the id of a message, and the minute in which it expires."""
    return MessageId(sha256(b"%d" % number).digest()), minute_at(BEGIN_S) + minutes


class Node:
    """A node: the comparing part of the service, which has run for `UP_S`, and a router that holds messages and knows
    more ids."""

    def __init__(self, number: int, *, ahead_s: float = 0, limits: CompareLimits | None = None) -> None:
        self.me = Neighbour(PublicKey(bytes((number, 1)) * 16), PublicKey(bytes((number, 2)) * 16))
        self.ahead_s = ahead_s
        self.kept: dict[bytes, bytes] = {}
        self.known = Known(self.me.service)
        self.known.router = self.me.router
        self.part = Comparing(c.Setup("pubsub", self.me.service, None, self.kept, Random(number)), self.known, limits)
        self.held: dict[MessageId, int] = {}
        self.came_s: dict[MessageId, float] = {}
        self.given: list[MessageId] = []
        self.knows: set[MessageId] = set()
        self.gone = 0
        self.others: dict[PublicKey, Node] = {}
        self.away = self.on_ring = False
        self.told: list[o.CaughtUp] = []
        self.refused: list[c.Refuse] = []
        self.asked = self.forwarded = self.frames = 0
        self.wake_s = self.slept_s = 0.0
        self.part.hear(c.Tick(), c.Now(BEGIN_S - UP_S + ahead_s, MONO_S - UP_S))

    def hold(self, *messages: tuple[MessageId, int], at_s: float = BEGIN_S) -> None:
        self.held |= dict(messages)
        self.came_s |= {id: at_s for id, _ in messages}
        self.knows |= {id for id, _ in messages}

    def forget(self, count: int) -> None:
        """Let the oldest messages go before their time, as a full history does."""
        for id in list(self.held)[:count]:
            del self.held[id]
        self.gone += 1

    def want(self) -> None:
        topic = self.known.topics[GROUP] = Topic(GROUP, self.known.back)
        for one in self.others.values():
            self.known.share(one.me.router, {GROUP: T})
        if self.on_ring:
            topic.show((), (), tuple([one.me for one in self.others.values()]))

    def page(self, after: int) -> o.HeldPage:
        rows = list(self.held.items())[after : after + 100]
        keys = b"".join(key_of(minute, id) for id, minute in rows)
        times = tuple((int(self.came_s[id]), 1) for id, _ in rows)
        return o.HeldPage(GROUP, keys, after + len(rows), after + 100 < len(self.held), self.gone, times, after=after)


class World:
    """Nodes whose deeds are carried out one after the other, with one steady clock."""

    def __init__(self, *nodes: Node) -> None:
        self.nodes, self.now_s, self._todo = nodes, 0.0, list[tuple[Node, Any]]()
        for node in nodes:
            node.others = {one.me.router: one for one in nodes if one is not node}
            node.want()
        for node in nodes:
            self.hear(node, c.Started(node.me.router))
            self.hear(node, o.Wanted(GROUP, True))
            for one in node.others.values():
                self.link(node, one)
        self.run()

    def link(self, node: Node, other: Node, is_up: bool = True) -> None:
        self.hear(node, o.Linked(other.me.router, other.me.service if is_up else None))

    def now(self, node: Node) -> c.Now:
        return c.Now(BEGIN_S + self.now_s + node.ahead_s, MONO_S + self.now_s, node.slept_s)

    def hear(self, node: Node, heard: c.Heard) -> None:
        self._todo += ((node, deed) for deed in node.part.hear(heard, self.now(node)))

    def run(self) -> None:
        while self._todo:
            node, deed = self._todo.pop(0)
            self._carry_out(node, deed)

    def pass_s(self, seconds: float) -> None:
        """Let time pass; each node gets a tick when it asked for one."""
        end_s = self.now_s + seconds
        while True:
            at_s, node = min(((one.wake_s, at) for at, one in enumerate(self.nodes) if one.wake_s), default=(end_s, 0))
            if at_s >= end_s:
                break
            self.now_s = max(self.now_s, at_s)
            self.nodes[node].wake_s = 0
            self.hear(self.nodes[node], c.Tick())
            self.run()
        self.now_s = end_s

    def _carry_out(self, node: Node, deed: c.Deed) -> None:
        match deed:
            case o.ListHeld(group, after):
                assert group == GROUP
                self.hear(node, node.page(after))
            case c.Send(to, body, via=via):
                node.frames += isinstance(decode_message(body), Compare)
                assert via is not None
                other = node.others[via]
                if not other.away:
                    assert to == other.me.service
                    self.read(other, node, decode_message(body))
            case c.Put(key, value):
                node.kept.pop(key, None)
                node.kept |= {} if value is None else {key: value}
            case o.PullFrom(router, group, id, is_history=is_history):
                node.asked += 1
                other = node.others[router]
                state: PullState = "known" if id in node.knows else "away" if other.away else "asked"
                self.hear(node, o.PulledFrom(router, group, id, state))
                if state == "asked" and id in other.held:
                    self.arrive(node, id, other.held[id], is_history=is_history)
            case c.Pull(group, id):
                self.hear(node, c.Pulled(group, id, bytes(id) if id in node.held else None))
            case c.Forward(wire, via, tag):
                node.forwarded += 1
                id = MessageId(wire)
                self.hear(node, c.HopOutcome(tag, id, via, "acked"))
                self.arrive(node.others[via], id, node.held[id])
            case o.CaughtUp():
                node.told.append(deed)
            case c.Refuse():
                node.refused.append(deed)
            case c.Wake(at_s):
                node.wake_s = at_s - BEGIN_S - node.ahead_s
            case c.LogEvent():
                assert deed.event == "pubsub_caught_up"
            case _:
                raise AssertionError(deed)

    def read(self, node: Node, source: Node, said: Any) -> None:
        came = c.Message(MessageId(bytes(32)), b"", source.me.service, via=source.me.router)
        self._todo += ((node, deed) for deed in node.part.read(came, said, self.now(node)))

    def arrive(self, node: Node, id: MessageId, minute: int, *, is_history: bool = False) -> None:
        if id not in node.knows and minute > minute_at(self.now(node).wall_s):
            node.hold((id, minute), at_s=self.now(node).wall_s)
            if not is_history:
                node.given.append(id)
            self.hear(node, c.Message(id, b"", group=GROUP, wire=bytes(id)))


def pair(mine: range, theirs: range, **how: Any) -> tuple[World, Node, Node]:
    left, right = Node(1, **how), Node(2)
    left.hold(*map(message, mine))
    right.hold(*map(message, theirs))
    return World(left, right), left, right
