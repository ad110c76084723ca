"""The scenarios in which rings are built and repaired: `bootstrap`, `healing`, `churn`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import fmean

from msgspec.structs import replace

from router.core.wire.crypto import MessageId
from services.pubsub.core.rings.overlay import OverlayLimits
from services.pubsub.simulation.figures import Axes, Goal, Result, Scenario, ScenarioRun
from services.pubsub.simulation.network import GROUP, Network
from services.pubsub.simulation.rings import make_whole, members, right_links

BOOTSTRAP_CYCLES_MAX, HEALING_CYCLES_MAX = 80, 40
WARM_UP_CYCLES, MEASURED_CYCLES = 12, 12
OLD_CYCLES = 10
DELIVERED_S = 30.0
"""Seconds that a message may take: more than it takes to get past a few dead neighbours."""

STEADY = replace(OverlayLimits(), fast_periods=0)
"""The limits of nodes that have been present for long: all of their periods are long."""

_ONE_KNOWN = "all know one node"
_MENDED = "after half died"
_CHURN = {0.002: (0.998, 0.9999), 0.01: (0.994, 0.9995)}
"""Shares of nodes that die and join in a cycle, and the shares of all nodes, and of older ones, that must be
reached."""


def run_bootstrap(plan: ScenarioRun) -> Iterator[Result]:
    """Let nodes that all know one of them find their places; periods are short at first."""
    limits = OverlayLimits()
    network = Network(plan.seed, plan.nodes, plan.fanout, rings=limits)
    first = network.neighbour(0)
    for node in network.nodes[1:]:
        if node.overlay is not None:
            node.overlay.offer(GROUP, first)
    order = members(network)
    curve = [(0.0, 0.0)]
    while curve[-1][1] < 1 and len(curve) <= BOOTSTRAP_CYCLES_MAX:
        network.run(limits.fast_s if len(curve) <= limits.fast_periods else limits.period_s)
        curve.append((float(len(curve)), right_links(network, order) / (2 * len(order))))
    yield Result(_ONE_KNOWN, None, {"cycles": curve[-1][0], "ring_links": curve[-1][1]}, curve)


def run_healing(plan: ScenarioRun) -> Iterator[Result]:
    """Let half of all nodes die, and publish a message in each cycle until all are reached and the ring is right."""
    network = Network(plan.seed, plan.nodes, plan.fanout, rings=STEADY)
    make_whole(network)
    network.run(STEADY.period_s)
    chance = network.engine.chance
    network.dead = set(chance.sample(range(plan.nodes), plan.nodes // 2))
    order, live = members(network), network.live
    sent: list[MessageId] = []
    curve = [(0.0, right_links(network, order) / (2 * len(order)))]
    while (len(curve) <= OLD_CYCLES or curve[-1][1] < 1) and len(curve) <= HEALING_CYCLES_MAX:
        sent.append(network.publish(chance.choice(live)))
        network.run(STEADY.period_s)
        curve.append((float(len(curve)), right_links(network, order) / (2 * len(order))))
    network.run(DELIVERED_S)
    hits = [_hit(network, id, live) for id in sent]
    cycles = next((at for at in range(len(hits)) if all(hit == 1 for hit in hits[at:])), len(hits))
    whole = next((at for at, share in curve if share == 1), float("inf"))
    measured = {"hit": hits[OLD_CYCLES - 1], "cycles": float(cycles), "ring_cycles": whole}
    yield Result(_MENDED, plan.fanout, measured, curve)


def run_churn(plan: ScenarioRun) -> Iterator[Result]:
    """Let a share of all nodes die in each cycle, as many join that know one other, and a message be published."""
    for share in _CHURN:
        network = Network(plan.seed, plan.nodes, plan.fanout, rings=STEADY)
        make_whole(network)
        network.run(STEADY.period_s)
        network.limits = replace(network.limits, overlay=OverlayLimits())
        sent = list[tuple[MessageId, list[int]]]()
        for cycle in range(WARM_UP_CYCLES + MEASURED_CYCLES):
            _replace_some(network, share)
            live = network.live
            id = network.publish(network.engine.chance.choice(live))
            if cycle >= WARM_UP_CYCLES:
                sent.append((id, live))
            network.run(STEADY.period_s)
        network.run(DELIVERED_S)
        yield from _churned(network, share, plan.fanout, sent)


def _replace_some(network: Network, share: float) -> None:
    """Let some nodes die and as many join, by chance if the share is less than one node."""
    chance, live = network.engine.chance, network.live
    count = int(share * len(live) + chance.random())
    network.dead |= set(chance.sample(live, count))
    survivors = network.live
    for _ in range(count):
        node = network.add()
        if node.overlay is not None:
            node.overlay.offer(GROUP, network.neighbour(chance.choice(survivors)))


def _churned(network: Network, share: float, fanout: int, sent: list[tuple[MessageId, list[int]]]) -> Iterator[Result]:
    old_s = OLD_CYCLES * STEADY.period_s
    all_hits, old_hits = list[float](), list[float]()
    for id, live in sent:
        began_s = network.broadcasts[id].began_s
        there = [number for number in live if number not in network.dead]
        old = [number for number in there if began_s - network.nodes[number].since_s >= old_s]
        all_hits.append(_hit(network, id, there))
        old_hits.append(_hit(network, id, old))
    for setting, hits in ((_churn_of_all(share), all_hits), (_churn_of_old(share), old_hits)):
        curve = [(float(at), 1 - hit) for at, hit in enumerate(hits, 1)]
        yield Result(setting, fanout, {"hit": fmean(hits)}, curve)


def _hit(network: Network, id: MessageId, among: list[int]) -> float:
    """Return the share that had the message in time."""
    broadcast = network.broadcasts[id]
    return broadcast.until(broadcast.began_s + DELIVERED_S).reach(among).hit


def _churn_of_all(share: float) -> str:
    return f"{100 * share:g} % a cycle, all"


def _churn_of_old(share: float) -> str:
    return f"{100 * share:g} % a cycle, older than 10 cycles"


def _bootstrap_goals(nodes: int) -> Mapping[str, tuple[Goal, ...]]:
    return {_ONE_KNOWN: (Goal("cycles", most=20 if nodes <= 1_000 else 40), Goal("ring_links", 1))}


def _healing_goals(nodes: int) -> Mapping[str, tuple[Goal, ...]]:
    return {_MENDED: (Goal("hit", 1), Goal("cycles", most=10), Goal("ring_cycles", most=25))}


def _churn_goals(nodes: int) -> Mapping[str, tuple[Goal, ...]]:
    of_all = {_churn_of_all(share): (Goal("hit", least),) for share, (least, _) in _CHURN.items()}
    return of_all | {_churn_of_old(share): (Goal("hit", least),) for share, (_, least) in _CHURN.items()}


_LINKS = Axes("cycles", "ring links that are right")
BOOTSTRAP = Scenario(run_bootstrap, _bootstrap_goals, _LINKS)
HEALING = Scenario(run_healing, _healing_goals, _LINKS)
CHURN = Scenario(run_churn, _churn_goals, Axes("messages, one in each cycle", "nodes that missed it"))
