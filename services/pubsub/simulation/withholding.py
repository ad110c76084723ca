"""The scenario `withholding`: nodes that take messages and pass none on lose their places; honest ones, however slow,
keep theirs.

Nodes compare what they hold, as the service does, and judge each other with the code that ships. A comparison costs a
round here, and shows all differences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from math import inf
from typing import NamedTuple

from msgspec import Struct, field

from router.core.wire.crypto import MessageId, PublicKey
from services.pubsub.core.comparison.id_set import key_of
from services.pubsub.core.comparison.plan import CompareLimits
from services.pubsub.core.conduct.withholding import WithholdingLimits
from services.pubsub.core.known import Topic
from services.pubsub.core.rings.overlay import Overlay, OverlayLimits
from services.pubsub.core.sending import forwarding as f
from services.pubsub.core.sending import repair as r
from services.pubsub.simulation.broadcast import mean_reach
from services.pubsub.simulation.figures import Axes, Goal, Result, Scenario, ScenarioRun
from services.pubsub.simulation.network import GROUP, Arrive, Meet, MessageAsked, Met, Network, Node, Taken
from services.pubsub.simulation.rings import make_whole

MINUTE_S = 60.0
APART_S = 20.0
"""Seconds between two messages."""
SPAN_MIN, TENTH_MIN, AFTER_MIN = 80, 10, 50
"""Minutes of a run; those over which completeness is measured, from the beginning and from then on."""
SOON_S = 30.0
"""Seconds after which a message counts as missed at once."""
LATE_S = 1.5
"""Seconds that every message from or to a slow node takes longer."""
HISTORY_S = 45.0
"""Seconds for which a node with little room holds a message."""
JUDGE_S = WithholdingLimits().check_s
PERIOD_S = 30.0
"""Seconds between two questions about the rings: longer than as shipped, since asking costs most of the time."""


class Kind(Enum):
    """What a node does: `TAKES` acknowledges copies and holds none; `KEEPS` holds them and passes none on; the others
    are honest, and slow, frozen, restarted, full, or without room for history from time to time."""

    TAKES = "takes"
    KEEPS = "keeps"
    HONEST = "honest"
    SLOW = "slow"
    FREEZES = "freezes"
    RESTARTS = "restarts"
    FULL = "full"
    FORGETS = "forgets"


DROPPERS = (Kind.TAKES, Kind.KEEPS)
_FAULTY = {Kind.SLOW: 0.1, Kind.FREEZES: 0.05, Kind.RESTARTS: 0.05, Kind.FULL: 0.05, Kind.FORGETS: 0.05}
"""The shares of honest nodes with a fault."""
_TROUBLE_S = {Kind.FREEZES: 120.0, Kind.RESTARTS: 45.0, Kind.FULL: 180.0}
"""Seconds that a fault lasts; it comes once in `_BETWEEN_S`."""
_BETWEEN_S = 1_200.0
_PARTED_MIN = (62, 68)
"""The minutes during which a third of all nodes are cut off from the others."""


class CompareAsked(NamedTuple):
    """A node asks what another holds."""

    by: int


class CompareTold(NamedTuple):
    """A node answers what it holds."""

    by: int
    ids: frozenset[MessageId]


class Given(NamedTuple):
    """A message that is sent on after a comparison."""

    by: int
    id: MessageId


class Refused(NamedTuple):
    """A node does not take a copy."""

    by: int
    id: MessageId


class CompareDue(NamedTuple):
    """A node compares with somebody, as it does from time to time."""


class JudgeDue(NamedTuple):
    """A node looks whom it is to judge."""


class TroubleDue(NamedTuple):
    """A node's fault begins."""


class Back(NamedTuple):
    """A node's fault is over."""


class _Peer(Struct, eq=False):
    """What the simulation knows of a node besides its decisions. `until_s`: the end of its fault; `asked`: ids asked
    for after comparisons; `given`: what each other was sent on after comparisons."""

    kind: Kind
    until_s: float = -inf
    asked: set[MessageId] = field(default_factory=set)
    given: dict[int, set[MessageId]] = field(default_factory=dict)


class JudgingNetwork(Network):
    """A network whose nodes compare and judge. `barred`: by the number of a router, the second at which it was first
    barred anywhere."""

    def __init__(self, seed: int, nodes: int, fanout: int, shares: Mapping[Kind, float]) -> None:
        rings = OverlayLimits(period_s=PERIOD_S, fast_periods=0)
        self.peers: list[_Peer] = []
        self.barred: dict[int, float] = {}
        self._copies = self._wasted = 0
        self.parted: frozenset[int] = frozenset()
        self._kinds = _kinds_of(nodes, shares)
        super().__init__(seed, nodes, fanout, rings=rings)
        self.on(CompareAsked, self._tell_held)
        self.on(CompareTold, self._compared)
        self.on(CompareDue, self._compare)
        self.on(JudgeDue, self._judge)
        self.on(Given, self._given)
        self.on(Refused, self._refused)
        self.on(TroubleDue, self._begin_trouble)
        self.on(Back, self._end_trouble)
        make_whole(self)
        for node in self.nodes:
            for topic in node.known.topics.values():
                for router in topic.t:
                    node.known.withholding.linked(router, 0.0)

    def add(self, groups: Iterable[PublicKey] = (GROUP,)) -> Node:
        node = super().add(tuple(groups))
        kind, chance = self._kinds[node.number], self.engine.chance
        self.peers.append(_Peer(kind))
        node.known.is_asked = self.peers[node.number].asked.__contains__
        self.engine.after(chance.random() * CompareLimits().period_s, node.number, CompareDue())
        self.engine.after(chance.random() * MINUTE_S, node.number, JudgeDue())
        if kind in _TROUBLE_S:
            self.engine.after(chance.random() * _BETWEEN_S, node.number, TroubleDue())
        return node

    @property
    def honest(self) -> list[int]:
        return [number for number, one in enumerate(self.peers) if one.kind not in DROPPERS]

    def seats(self) -> int:
        """Return how many places droppers have as the first neighbour of an honest node on a side of the ring."""
        found = 0
        for number in self.honest:
            topic = self.nodes[number].known.topics[GROUP]
            first = {one.router for one in (*topic.after[:1], *topic.before[:1])}
            found += sum(self.peers[self.number(one)].kind in DROPPERS for one in first)
        return found

    def take_wasted(self) -> float:
        """Return the share of the copies of honest nodes that went to droppers since the last call."""
        share = self._wasted / max(1, self._copies)
        self._wasted = self._copies = 0
        return share

    # -- faults --------------------------------------------------------------------------------------------------

    def say(self, node: Node, to: int, event: object) -> None:
        if self.parted and (node.number in self.parted) is not (to in self.parted):
            return
        late_s = LATE_S * sum(self.peers[one].kind is Kind.SLOW for one in (node.number, to))
        self.engine.after(self.links.delay_s(node.number, to) + late_s, to, event)

    def _happen(self, number: int, event: object) -> None:
        peer = self.peers[number]
        if peer.kind is Kind.FREEZES and self.engine.now_s < peer.until_s and not isinstance(event, Back):
            self.engine.at(peer.until_s, number, event)
            return
        if number in self.dead and isinstance(event, Back):
            self._end_trouble(self.nodes[number], event)
            return
        if number in self.dead and isinstance(event, CompareDue | JudgeDue):
            self.engine.after(MINUTE_S, number, event)
            return
        super()._happen(number, event)
        self._carry_out(self.nodes[number])

    def _begin_trouble(self, node: Node, event: TroubleDue) -> None:
        peer, span_s = self.peers[node.number], _TROUBLE_S[self.peers[node.number].kind]
        peer.until_s = self.engine.now_s + span_s
        self.engine.after(_BETWEEN_S, node.number, TroubleDue())
        if peer.kind is Kind.RESTARTS:
            self.engine.after(span_s, node.number, Back())
            self.dead.add(node.number)
            self._unlink([(node.number, one.number) for one in self.nodes])

    def _end_trouble(self, node: Node, event: Back) -> None:
        """Let a node be there again, with what it held and without what it had in memory."""
        self.dead.discard(node.number)
        partners = [self.number(router) for router in node.known.topics[GROUP].t]
        chance, now_s, limits = self.engine.chance, self.engine.now_s, self.limits
        new = Node(node.number, node.key, chance, limits, now_s)
        new.known.topics[GROUP] = Topic(GROUP)
        new.held, new.heads = node.held, node.heads
        new.repair.published(new.held)
        new.known.is_asked = self.peers[node.number].asked.__contains__
        self.nodes[node.number] = new
        assert isinstance(new.overlay, Overlay)
        new.overlay.begin(GROUP)
        for one in partners:
            if one not in self.dead:
                self.say(new, one, Meet(node.number))
        self._wake(new)

    def part(self, numbers: Iterable[int]) -> None:
        """Cut these nodes off from the others; none: let all be connected again."""
        before, self.parted = self.parted, frozenset(numbers)
        if self.parted:
            rest = [one.number for one in self.nodes if one.number not in self.parted]
            self._unlink([(one, other) for one in self.parted for other in rest])
            return
        for number in before:
            node = self.nodes[number]
            for router in list(node.known.topics[GROUP].t):
                if self.number(router) not in before and number not in self.dead:
                    self.say(node, self.number(router), Meet(number))

    def _unlink(self, pairs: Iterable[tuple[int, int]]) -> None:
        for one, other in pairs:
            for here, there in ((one, other), (other, one)):
                if self.nodes[there].key in self.nodes[here].known.topics[GROUP].t:
                    self.nodes[here].known.withholding.gone(self.nodes[there].key)
                    self.nodes[here].known.silent(self.nodes[there].key)

    # -- links and copies ----------------------------------------------------------------------------------------

    def _met(self, node: Node, event: Met) -> None:
        super()._met(node, event)
        node.known.withholding.linked(self.nodes[event.by].key, self.engine.now_s)

    def _forward(self, node: Node, deeds: Iterable[f.Deed]) -> None:
        deeds, now_s, withholding = list(deeds), self.engine.now_s, node.known.withholding
        for one in deeds:
            if isinstance(one, f.SendCopy):
                self._copies += 1
                self._wasted += self.peers[self.number(one.to)].kind in DROPPERS
                if withholding.wants(one.to, now_s):
                    withholding.sent(one.to, one.group, key_of(0, one.id), now_s)
        super()._forward(node, deeds)

    def _taken(self, node: Node, event: Taken) -> None:
        node.known.withholding.taken(self.nodes[event.by].key, event.id, self.engine.now_s)
        super()._taken(node, event)

    def _refused(self, node: Node, event: Refused) -> None:
        self._forward(node, node.forwarding.refused(event.id, self.nodes[event.by].key, self.engine.now_s))

    def _asked(self, node: Node, event: MessageAsked) -> None:
        if self.peers[node.number].kind is not Kind.TAKES and event.id in self._holds(node):
            self.say(node, event.by, Arrive(node.number, event.id, is_answer=True))

    def _arrive(self, node: Node, event: Arrive) -> None:
        peer, now_s = self.peers[node.number], self.engine.now_s
        if peer.kind is Kind.FULL and now_s < peer.until_s and not event.is_answer:
            self.say(node, event.by, Refused(node.number, event.id))
            return
        self.say(node, event.by, Taken(node.number, event.id))
        self._take(node, event.by, event.id)

    def _given(self, node: Node, event: Given) -> None:
        self._take(node, event.by, event.id)

    def _take(self, node: Node, by: int, id: MessageId) -> None:
        """Take a message that has come for the first time: hold it and pass it on, unless this node drops it."""
        peer, now_s, sender = self.peers[node.number], self.engine.now_s, self.nodes[by]
        broadcast = self.broadcasts[id]
        if not broadcast.received(node.number, broadcast.hops.get(by, 0) + 1, now_s) or peer.kind is Kind.TAKES:
            return
        seen = sender.held.get(id, ())
        node.hold(id, seen)
        if peer.kind is Kind.KEEPS:
            return
        self._heard(node, by)
        found = node.repair.arrived(id, sender.key, now_s)
        withholding = node.known.withholding
        if any(isinstance(one, r.Repaired) and one.id == id for one in found):
            withholding.doubt(GROUP, node.known.nearest_since(GROUP))
        elif id in peer.asked:
            withholding.came(id, sender.key, now_s)
        else:
            withholding.brought(sender.key)
        if withholding.wants_latest(GROUP, now_s):
            withholding.arrived(GROUP, key_of(0, id), now_s)
        peer.asked.discard(id)
        self._repair(node, found)
        if seen:
            node.repair.named(seen, GROUP, sender.key, r.Named.SEEN, now_s)
        origin = f.Origin(sender.key, is_member=True)
        self._forward(node, node.forwarding.received(id, GROUP, self._wires[id], origin, now_s))

    # -- comparisons ---------------------------------------------------------------------------------------------

    def _compare(self, node: Node, event: CompareDue) -> None:
        chance = self.engine.chance
        self.engine.after(CompareLimits().period_s * (0.75 + 0.5 * chance.random()), node.number, event)
        neighbours = sorted(node.known.topics[GROUP].neighbours)
        if neighbours and self.peers[node.number].kind not in DROPPERS:
            self.say(node, self.number(chance.choice(neighbours)), CompareAsked(node.number))

    def _judge(self, node: Node, event: JudgeDue) -> None:
        self.engine.after(JUDGE_S, node.number, event)
        withholding, now_s = node.known.withholding, self.engine.now_s
        withholding.tick(now_s)
        if self.peers[node.number].kind not in DROPPERS:
            for router, _ in withholding.checks(now_s, node.known.topics):
                self.say(node, self.number(router), CompareAsked(node.number))

    def _holds(self, node: Node) -> frozenset[MessageId]:
        if self.peers[node.number].kind is not Kind.FORGETS:
            return frozenset(node.held)
        since_s = self.engine.now_s - HISTORY_S
        return frozenset(id for id in node.held if self.broadcasts[id].times_s[node.number] >= since_s)

    def _tell_held(self, node: Node, event: CompareAsked) -> None:
        self.say(node, event.by, CompareTold(node.number, self._holds(node)))

    def _compared(self, node: Node, event: CompareTold) -> None:
        now_s, withholding, peer = self.engine.now_s, node.known.withholding, self.peers[node.number]
        other, mine = self.nodes[event.by].key, self._holds(node)
        watched = {key: MessageId(key[4:]) for key in withholding.watched(other, GROUP, now_s)}
        lacked = [key for key, id in watched.items() if id in mine and id not in event.ids]
        withholding.compared(other, GROUP, lacked, [key for key, id in watched.items() if id in event.ids], now_s)
        need = sorted(event.ids.difference(node.held))
        nearest = node.known.nearest_since(GROUP)
        withholding.listed(other, GROUP, need, nearest.get(other))
        if need:
            withholding.doubt(GROUP, nearest)
        for id in need:
            peer.asked.add(id)
            self.say(node, event.by, MessageAsked(node.number, id))
        withholding.even(other, GROUP, now_s)
        given = peer.given.setdefault(event.by, set())
        for id in sorted(mine - event.ids - given):
            given.add(id)
            self.say(node, event.by, Given(node.number, id))

    def _carry_out(self, node: Node) -> None:
        """Give the places of a node anew, if it has barred or released somebody."""
        if not node.known.withholding.is_changed:
            return
        for one in node.known.withholding.take_decided():
            self.barred.setdefault(self.number(one.router), self.engine.now_s)
        assert node.overlay is not None
        node.overlay.rearrange()


def _kinds_of(nodes: int, shares: Mapping[Kind, float]) -> list[Kind]:
    """Return the kind of each node: keys are random, so the places of those with low numbers are."""
    kinds = [kind for kind, share in shares.items() for _ in range(round(share * nodes))]
    honest = nodes - len(kinds)
    kinds += [kind for kind, share in _FAULTY.items() for _ in range(round(share * honest))]
    return kinds + [Kind.HONEST] * (nodes - len(kinds))


_SETTINGS = {
    "all honest": dict[Kind, float](),
    "10 % take and hold nothing": {Kind.TAKES: 0.1},
    "30 % take and hold nothing": {Kind.TAKES: 0.3},
    "30 % hold and pass nothing on": {Kind.KEEPS: 0.3},
}


def run(plan: ScenarioRun) -> Iterator[Result]:
    """Publish messages for some time, and measure the places that droppers have, and who is barred."""
    for setting, shares in _SETTINGS.items():
        yield from _measured(plan, setting, JudgingNetwork(plan.seed, plan.nodes, plan.fanout, shares))


def _measured(plan: ScenarioRun, setting: str, network: JudgingNetwork) -> Iterator[Result]:
    chance, sent, curve = network.engine.chance, list[tuple[float, MessageId]](), list[tuple[float, float]]()
    sources = [one for one in network.honest if network.peers[one].kind is Kind.HONEST]
    first, wasted = max(1, network.seats()), list[float]()
    for minute in range(SPAN_MIN):
        if minute == _PARTED_MIN[0]:
            network.part(chance.sample(range(plan.nodes), plan.nodes // 3))
        elif minute == _PARTED_MIN[1]:
            network.part(())
        curve.append((float(minute), network.seats() / first))
        for _ in range(round(MINUTE_S / APART_S)):
            sent.append((network.engine.now_s, network.publish(chance.choice(sources))))
            network.run(APART_S)
        if minute % TENTH_MIN == TENTH_MIN - 1:
            wasted.append(network.take_wasted())
    network.run(SOON_S)
    kinds = [network.peers[number].kind for number in network.barred]
    droppers = sum(one.kind in DROPPERS for one in network.peers)
    measured = {
        "hit_before": _hit(network, sent, 0),
        "hit": _hit(network, sent, AFTER_MIN),
        "honest_barred": float(sum(kind not in DROPPERS for kind in kinds)),
    }
    if droppers:
        measured["named"] = sum(kind in DROPPERS for kind in kinds) / droppers
        measured["seats"] = curve[AFTER_MIN][1]
        measured["wasted_before"], measured["wasted"] = wasted[0], wasted[AFTER_MIN // TENTH_MIN]
    yield Result(setting, plan.fanout, measured, curve)


def _hit(network: JudgingNetwork, sent: list[tuple[float, MessageId]], minute: int) -> float:
    """Return the share of healthy honest nodes that the messages of ten minutes reach soon."""
    among = [one for one in network.honest if network.peers[one].kind is Kind.HONEST]
    begin, each = (round(one * MINUTE_S / APART_S) for one in (minute, TENTH_MIN))
    found = sent[begin : begin + each]
    return mean_reach(network.broadcasts[id].until(at_s + SOON_S).reach(among) for at_s, id in found).hit


def goals(nodes: int) -> Mapping[str, tuple[Goal, ...]]:
    none = Goal("honest_barred", most=0)
    first, few, many, keeping = _SETTINGS
    named = none, Goal("named", 1.0), Goal("seats", most=0.25)
    return {
        first: (none, Goal("hit", 0.9999)),
        few: (*named, Goal("wasted", most=0.03), Goal("hit", 0.999)),
        many: (*named, Goal("wasted", most=0.1), Goal("hit", 0.99)),
        keeping: (none,),
    }


WITHHOLDING = Scenario(run, goals, Axes("minutes", "places of droppers on the ring, of those in the beginning"))
