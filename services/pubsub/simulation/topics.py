"""The scenario `topics`: many topics of uneven size, of which each node wants a few, and about which no other node
learns.

A group link names up to two routers that serve the group (hints, R-C28): here those are random members that joined the
topic before. Without hints, nodes find each other by filters (R-C36).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from random import Random

from router.core.wire.crypto import KEY_BYTES, PublicKey
from services.pubsub.core.rings.overlay import OverlayLimits
from services.pubsub.core.rings.ring import place_of
from services.pubsub.simulation.exchanging import Exchange
from services.pubsub.simulation.figures import Axes, Goal, Result, Scenario, ScenarioRun
from services.pubsub.simulation.network import Network
from services.pubsub.simulation.rings import members, right_links

TOPICS_A_NODE, MORE_TOPICS = 10, 100
HINTS = 2
SMALL = 5
SMALL_CYCLES, CYCLES, UNHINTED_CYCLES = 20, 40, 60
MESSAGES = 30
DELIVERED_S = 30.0

_HINTS_SMALL, _HINTS = f"hints, after {SMALL_CYCLES} cycles", f"hints, after {CYCLES} cycles"
_UNHINTED = f"no hints, after {UNHINTED_CYCLES} cycles"
_FEW, _MANY = f"{TOPICS_A_NODE} topics a node", f"{MORE_TOPICS} topics a node"


def run(plan: ScenarioRun) -> Iterator[Result]:
    """Let nodes find their rings, with hints and without, publish, and count neighbours."""
    yield from _with_hints(plan)
    yield _without_hints(plan)
    yield from _neighbours(plan)


def wanted(nodes: int, topics: int, each: int, chance: Random) -> list[list[int]]:
    """Return the topics that each node wants: the n-th topic is chosen in proportion to 1/n (Zipf with exponent 1)."""
    sums = list(accumulate(1 / rank for rank in range(1, topics + 1)))
    found: list[list[int]] = []
    for _ in range(nodes):
        chosen: dict[int, None] = {}
        while len(chosen) < min(each, topics):
            chosen[bisect_left(sums, chance.random() * sums[-1])] = None
        found.append(list(chosen))
    return found


def _with_hints(plan: ScenarioRun) -> Iterator[Result]:
    network, groups = _network(plan, HINTS)
    rings = _rings(network, groups)
    small = [group for group, order in rings.items() if len(order) <= SMALL]
    curve = [(0.0, 0.0)]
    for cycle, share in _cycles(network, rings, CYCLES):
        curve.append((float(cycle), share))
        if cycle == SMALL_CYCLES:
            whole = sum(right_links(network, rings[group], group) == 2 * len(rings[group]) for group in small)
            measured = {"ring_links": share, "small_whole": whole / max(1, len(small))}
            yield Result(_HINTS_SMALL, plan.fanout, measured)
    measured = {
        "ring_links": curve[-1][1],
        "hit": _published(network, rings),
        "misdirected": float(network.misdirected),
    }
    yield Result(_HINTS, plan.fanout, measured, curve, "with hints")


def _without_hints(plan: ScenarioRun) -> Result:
    network, groups = _network(plan, 0)
    Exchange(network)
    rings = _rings(network, groups)
    curve = [(0.0, 0.0), *((float(cycle), share) for cycle, share in _cycles(network, rings, UNHINTED_CYCLES))]
    return Result(_UNHINTED, plan.fanout, {"ring_links": curve[-1][1]}, curve, "without")


def _rings(network: Network, groups: Sequence[PublicKey]) -> dict[PublicKey, list[int]]:
    """Return the members of each topic that more than one node wants, in the order of its ring."""
    return {group: order for group in groups if len(order := members(network, group)) > 1}


def _cycles(network: Network, rings: Mapping[PublicKey, Sequence[int]], cycles: int) -> Iterator[tuple[int, float]]:
    """Let cycles pass; yield the number of each and the share of ring links that are right at its end."""
    limits = OverlayLimits()
    for cycle in range(1, cycles + 1):
        network.run(limits.fast_s if cycle <= limits.fast_periods else limits.period_s)
        yield cycle, _right_share(network, rings)


def _network(plan: ScenarioRun, hints: int) -> tuple[Network, list[PublicKey]]:
    network = Network(plan.seed, 0, plan.fanout, rings=OverlayLimits())
    chance = network.engine.chance
    groups = [PublicKey(chance.randbytes(KEY_BYTES)) for _ in range(plan.nodes)]
    joined: dict[PublicKey, list[int]] = {group: [] for group in groups}
    for chosen in wanted(plan.nodes, len(groups), TOPICS_A_NODE, chance):
        node = network.add([groups[topic] for topic in chosen])
        assert node.overlay is not None
        for group in node.known.topics:
            for hint in chance.sample(joined[group], min(hints, len(joined[group]))):
                node.overlay.offer(group, network.neighbour(hint))
            joined[group].append(node.number)
    return network, groups


def _right_share(network: Network, rings: Mapping[PublicKey, Sequence[int]]) -> float:
    right = sum(right_links(network, order, group) for group, order in rings.items())
    return right / sum(2 * len(order) for order in rings.values())


def _published(network: Network, rings: Mapping[PublicKey, Sequence[int]]) -> float:
    """Publish in some topics, and return the share of their subscribers that was reached."""
    chance = network.engine.chance
    sent = {}
    for group in chance.sample(list(rings), min(MESSAGES, len(rings))):
        sent[group] = network.publish(chance.choice(rings[group]), group=group)
    network.run(DELIVERED_S)
    reached = sum(network.broadcasts[id].reach(rings[group]).hit * len(rings[group]) for group, id in sent.items())
    return reached / sum(len(rings[group]) for group in sent)


def _neighbours(plan: ScenarioRun) -> Iterator[Result]:
    """Count the distinct neighbours of each node on the rings of all its topics, once these are right."""
    found: list[float] = []
    for setting, each in ((_FEW, TOPICS_A_NODE), (_MANY, MORE_TOPICS)):
        found.append(_distinct(plan, each, Random(plan.seed)))
        measured = {"neighbours": found[-1]}
        yield Result(setting, None, measured if len(found) == 1 else measured | {"growth": found[-1] / found[0]})


def _distinct(plan: ScenarioRun, each: int, chance: Random) -> float:
    keys = [chance.randbytes(KEY_BYTES) for _ in range(plan.nodes)]
    rings: list[list[int]] = [[] for _ in range(plan.nodes)]
    for node, chosen in enumerate(wanted(plan.nodes, len(rings), each, chance)):
        for topic in chosen:
            rings[topic].append(node)
    beside: list[set[int]] = [set() for _ in keys]
    for ring in rings:
        order = sorted(ring, key=lambda node: place_of(keys[node], keys[node]))
        for at, node in enumerate(order):
            beside[node] |= {order[at - 1], order[(at + 1) % len(order)]} - {node}
    return sum(map(len, beside)) / plan.nodes


def goals(nodes: int) -> Mapping[str, tuple[Goal, ...]]:
    """Return the goals, which are of as many topics as there are nodes."""
    return {
        _HINTS_SMALL: (Goal("small_whole", 0.97),),
        _HINTS: (Goal("ring_links", 0.995), Goal("misdirected", most=0)),
        _UNHINTED: (Goal("ring_links", 0.87),),
        _MANY: (Goal("neighbours", most=75), Goal("growth", most=4)),
    }


TOPICS = Scenario(run, goals, Axes("cycles", "ring links that are right"))
