"""A simulated network whose nodes meet with the code that ships, within its limits, and dial before they speak.

The other networks let each node meet everybody at once (`Network`). Here `Meetings` decides with whom; the answers it
may give, the signatures that are verified for others, and the connections that are dialled at once are those of a node.
Left out: the rights and the limits of links, and who cannot be reached.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from math import inf
from typing import NamedTuple

from router.core.link.allowance import Allowance, Shares
from router.core.service.meetings import Cause, Common, Drop, LetGo, MeetingLimits, Meetings, Say
from router.core.service.meetings import Deed as Decided
from router.core.wire.crypto import PublicKey
from router.core.wire.meeting import Meet, Met
from services.pubsub.core.meetings.partners import LET_GO_MAX, LET_GO_S
from services.pubsub.core.others import ADVERTS_MAX
from services.pubsub.core.rings import overlay as o
from services.pubsub.core.rings.ring_messages import RingsLimits
from services.pubsub.simulation.network import GROUP, Network, Node, RingsAsked, RingsTold

DIALS_MAX = 32
"""Connections that a node dials at once to addresses that it has learned: half of `limits.dials_max`."""
DIAL_TRIPS = 4
"""Times that a line is crossed until a connection is up: of TCP, TLS, and the hellos."""


class Word(NamedTuple):
    """A word of a meeting comes from a node."""

    by: int
    word: Meet | Met


class Up(NamedTuple):
    """A connection to a node is up."""

    to: int


class Dial(NamedTuple):
    """A node is told of another one, and connects to it."""

    to: int


class Host:
    """What a node has besides: its meetings, its connections, the advertisements it has verified, and its budgets."""

    __slots__ = ("adverts", "asks", "dialled", "linked", "meetings", "signatures", "waiting")

    def __init__(self, meetings: Meetings, limits: RingsLimits) -> None:
        self.meetings = meetings
        self.linked: set[int] = set()
        self.dialled: dict[int, list[object]] = {}  # being dialled, and what is to be said then
        self.waiting: deque[int] = deque()  # to be dialled, once others are up
        self.adverts: dict[PublicKey, None] = {}
        self.asks: Shares[PublicKey] = Shares(limits.asks_per_s, limits.asks_burst, limits.routers_max)
        self.signatures = Allowance(limits.signatures_per_s, limits.signatures_burst)

    def __repr__(self) -> str:
        return f"<{self.meetings!r}, {len(self.linked)} connections>"


class MeetingNetwork(Network):
    """Nodes that meet as they do in earnest. `dropped`: the inputs that were not used, by cause; `let_go`: how many
    partners gave way to others."""

    def __init__(
        self, seed: int, nodes: int, fanout: int, limits: o.OverlayLimits, meetings: MeetingLimits | None = None
    ) -> None:
        self.hosts: list[Host] = []
        self._meeting_limits = meetings
        self.dropped = Counter[Cause | str]()
        self.let_go = 0
        self._rings_limits = RingsLimits()
        super().__init__(seed, nodes, fanout, rings=limits)
        self.on(Word, self._hear_word)
        self.on(Up, self._up)
        self.on(Dial, self._told_of)

    def add(self, groups: Iterable[PublicKey] = (GROUP,)) -> Node:
        node = super().add(tuple(groups))
        overlay = node.overlay
        assert overlay is not None
        meetings = Meetings(
            node.key,
            self.engine.chance.randbytes,
            self.engine.now_s,
            self._meeting_limits,
            may_go=lambda router: not overlay.stands_with(router),
        )
        for group in node.known.topics:
            meetings.want(group, True, self.engine.now_s)
        self.hosts.append(Host(meetings, self._rings_limits))
        return node

    # -- connections ---------------------------------------------------------------------------------------------------

    def _told_of(self, node: Node, event: Dial) -> None:
        self._speak(node, event.to, None)

    def _speak(self, node: Node, to: int, event: object) -> None:
        """Say something to a node, over a connection that is dialled if there is none."""
        host = self.hosts[node.number]
        if to in host.linked:
            if event is not None:
                self.say(node, to, event)
            return
        if to not in host.dialled:
            host.dialled[to] = []
            host.waiting.append(to)
            self._dial_more(node, host)
        host.dialled[to] += [event] if event is not None else []

    def _dial_more(self, node: Node, host: Host) -> None:
        while host.waiting and len(host.dialled) - len(host.waiting) < DIALS_MAX:
            to = host.waiting.popleft()
            self.engine.after(DIAL_TRIPS * self.links.delay_s(node.number, to), node.number, Up(to))

    def _up(self, node: Node, event: Up) -> None:
        """Both ends of a connection hear that it is up; each meets the other, if it has room."""
        host, to = self.hosts[node.number], event.to
        host.linked.add(to)
        said = host.dialled.pop(to, [])
        if node.number not in self.hosts[to].linked:
            self.engine.after(0, to, Up(node.number))
        for one in said:
            self.say(node, to, one)
        self._dial_more(node, host)
        self._begin(node, to, is_back=True)

    # -- meetings ------------------------------------------------------------------------------------------------------

    def _begin(self, node: Node, to: int, *, is_back: bool = False) -> None:
        router, now_s = self.nodes[to].key, self.engine.now_s
        if not self.hosts[node.number].meetings.meet(router, router, now_s, is_back=is_back):
            assert node.overlay is not None
            node.overlay.absent(router, now_s)
        self._go_on(node)

    def _go_on(self, node: Node) -> None:
        let_go, now_s = node.known.let_go, self.engine.now_s
        for router in [one for one, until_s in let_go.items() if until_s <= now_s]:
            del let_go[router]
            node.known.share(router, {})
        self._carry(node, self.hosts[node.number].meetings.tick(now_s))

    def _hear_word(self, node: Node, event: Word) -> None:
        meetings, router, word = self.hosts[node.number].meetings, self.nodes[event.by].key, event.word
        now_s = self.engine.now_s
        if isinstance(word, Meet):
            self._carry(node, meetings.hear_meet(router, router, word, now_s))
        else:
            self._carry(node, meetings.hear_met(router, router, word, now_s))

    def _carry(self, node: Node, decided: Iterable[Decided]) -> None:
        known, overlay = node.known, node.overlay
        assert overlay is not None
        for one in decided:
            match one:
                case Say(_, via, word):
                    self._speak(node, self.number(via), Word(node.number, word))
                case Common(router, topics):
                    known.share(router, {PublicKey(group): t for group, t in topics.items()})
                    known.let_go.pop(router, None)
                    overlay.met(self.neighbour(self.number(router)), self.engine.now_s)
                case LetGo(router):
                    self.let_go += 1
                    while len(known.let_go) >= LET_GO_MAX:
                        first = next(iter(known.let_go))
                        del known.let_go[first]
                        known.share(first, {})
                    known.let_go[router] = self.engine.now_s + LET_GO_S
                case Drop(_, cause):
                    self.dropped[cause] += 1

    # -- rings ---------------------------------------------------------------------------------------------------------

    def _ask_rings(self, node: Node, event: RingsAsked) -> None:
        by = self.nodes[event.by].key
        if not node.known.shared_with(by):
            self.dropped["meet first"] += 1
        elif not self.hosts[node.number].asks.take(by, 1, self.engine.now_s):
            self.dropped["asked too often"] += 1
        else:
            super()._ask_rings(node, event._replace(rings=self._judged(node, by, event.rings)))

    def _tell_rings(self, node: Node, event: RingsTold) -> None:
        by = self.nodes[event.by].key
        if node.known.shared_with(by):
            super()._tell_rings(node, event._replace(rings=self._judged(node, by, event.rings)))

    def _judged(self, node: Node, by: PublicKey, rings: Iterable[o.RingOf]) -> tuple[o.RingOf, ...]:
        """Return the members whose advertisements are known, or have been verified now; the sender's own is with
        them."""
        self._is_verified(node, by)
        return tuple(
            [
                one._replace(members=tuple([told for told in one.members if self._is_verified(node, told[0].router)]))
                for one in rings
            ]
        )

    def _is_verified(self, node: Node, router: PublicKey) -> bool:
        host = self.hosts[node.number]
        if router == node.key:
            return False
        if router not in host.adverts and not host.signatures.take(1, self.engine.now_s):
            self.dropped["signatures"] += 1
            return False
        host.adverts.pop(router, None)
        while len(host.adverts) >= ADVERTS_MAX:
            del host.adverts[next(iter(host.adverts))]
        host.adverts[router] = None
        return True

    def _keep_rings(self, node: Node, deeds: Iterable[o.Deed]) -> None:
        for deed in deeds:
            match deed:
                case o.ExchangeRings():
                    rings = self._sent(node, deed.rings)
                    self._speak(node, self.number(deed.to.router), RingsAsked(node.number, rings))
                case o.MeetWith():
                    self._begin(node, self.number(deed.candidate.router))

    def _sent(self, node: Node, rings: Iterable[o.RingOf]) -> tuple[o.RingOf, ...]:
        """Return the members whose advertisements this node has, to send them with."""
        adverts = self.hosts[node.number].adverts
        return tuple(
            [one._replace(members=tuple([told for told in one.members if told[0].router in adverts])) for one in rings]
        )

    # -- time ----------------------------------------------------------------------------------------------------------

    def _tend(self, node: Node) -> None:
        if self.hosts[node.number].meetings.due_s <= self.engine.now_s or node.known.let_go:
            self._go_on(node)

    def _other_due_s(self, node: Node) -> float:
        return min(self.hosts[node.number].meetings.due_s, next(iter(node.known.let_go.values()), inf))
