"""The scenarios in which rings are whole when the message is published: `static`, `catastrophe`, `loss`, `droppers`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from router.core.wire.crypto import MessageId
from services.pubsub.core.sending.forwarding import ForwardingLimits
from services.pubsub.simulation.broadcast import Broadcast, Reach, mean_reach
from services.pubsub.simulation.engine import DELAY_S
from services.pubsub.simulation.figures import Axes, Goal, Result, Scenario, ScenarioRun, reach_figures
from services.pubsub.simulation.network import SMALL_BYTES, Faults, Network
from services.pubsub.simulation.rings import make_whole

MESSAGES = 10
TRIALS_OF = 2_000
"""Nodes of all trials after a catastrophe together, because each network has only one first message."""
PAUSE_S = 30.0
"""Seconds between messages that name each other: longer than it takes to ask three routers for a missing one."""
LATER = (0, 2, 8)
ROUND_S = 0.1
"""A link's delay if all are equal, so that the first copy to come is the one over the fewest hops."""

_SMALL, _LARGE, _EQUAL = "bodies below 16 KiB", "bodies of 16 KiB and more", "all links equally long"
_STATIC = {
    _SMALL: (SMALL_BYTES, DELAY_S),
    _EQUAL: (SMALL_BYTES, (ROUND_S, ROUND_S)),
    _LARGE: (ForwardingLimits().large_bytes, DELAY_S),
}
"""The sizes of messages in each setting, and their delays."""
_HALF, _MOST = "half die", "70 % die"
_DEAD = {_HALF: 0.5, _MOST: 0.7}


def _whole(
    plan: ScenarioRun, seed: int, fanout: int, faults: Faults | None = None, delay_s: tuple[float, float] = DELAY_S
) -> Network:
    network = Network(seed, plan.nodes, fanout, faults, delay_s=delay_s)
    make_whole(network)
    return network


def run_static(plan: ScenarioRun) -> Iterator[Result]:
    """Measure messages one after the other while nothing fails."""
    for setting, (size, delay_s) in _STATIC.items():
        network = _whole(plan, plan.seed, plan.fanout, delay_s=delay_s)
        found = list[Broadcast]()
        for _ in range(MESSAGES):
            id = network.publish(network.engine.chance.randrange(plan.nodes), b"\0" * size)
            network.run()
            found.append(network.broadcasts[id])
        reach, everyone = mean_reach(one.reach(range(plan.nodes)) for one in found), range(plan.nodes)
        yield Result(setting, plan.fanout, reach_figures(reach), found[0].curve(everyone))


def run_catastrophe(plan: ScenarioRun) -> Iterator[Result]:
    """Measure the first message after many nodes died, which nobody knows yet."""
    for setting, share in _DEAD.items():
        reaches, curve = [], None
        for trial in range(max(1, TRIALS_OF // plan.nodes)):
            network = _whole(plan, plan.seed * 1_000_003 + trial, plan.fanout)
            network.dead = set(network.engine.chance.sample(range(plan.nodes), int(plan.nodes * share)))
            live = network.live
            id = network.publish(network.engine.chance.choice(live))
            network.run()
            reaches.append(network.broadcasts[id].reach(live))
            curve = curve or network.broadcasts[id].curve(live)
        yield Result(setting, plan.fanout, reach_figures(mean_reach(reaches)), curve or ())


def run_loss(plan: ScenarioRun) -> Iterator[Result]:
    """Measure messages of which 5 % of the copies are lost although they were acknowledged."""
    for kind, faults in _LOSSES.items():
        yield from _later(plan, kind, plan.fanout, faults)


def run_droppers(plan: ScenarioRun) -> Iterator[Result]:
    """Measure messages in networks where some take every copy and forward none, at the fan-outs of the goals."""
    for share, more in _DROPPERS.items():
        faults = Faults(droppers=frozenset(range(int(share * plan.nodes))))  # keys are random, so their places are
        yield from _later(plan, _drop(share), plan.fanout + more, faults)


def _later(plan: ScenarioRun, kind: str, fanout: int, faults: Faults) -> Iterator[Result]:
    """Publish messages, each naming the earlier ones; yield how far they spread at once, and some messages later."""
    network = _whole(plan, plan.seed, fanout, faults)
    honest = [number for number in network.live if number not in faults.droppers]
    sent: list[tuple[float, MessageId]] = []
    for _ in range(MESSAGES + LATER[-1]):
        sent.append((network.engine.now_s, network.publish(network.engine.chance.choice(honest))))
        network.run(PAUSE_S)
    reaches = list[Reach]()
    for later in range(LATER[-1] + 1):
        found = [
            network.broadcasts[id].until(sent[at + later][0] + PAUSE_S) for at, (_, id) in enumerate(sent[:MESSAGES])
        ]
        reaches.append(mean_reach(one.reach(honest) for one in found))
    curve = [(float(later), 1 - one.hit) for later, one in enumerate(reaches)]
    for later in LATER:
        yield Result(_when(kind, later), fanout, reach_figures(reaches[later]), () if later else curve, kind)


def _drop(share: float) -> str:
    more = _DROPPERS[share]
    return f"{100 * share:.0f} % drop" + (f" with F + {more}" if more else "")


def _when(kind: str, later: int) -> str:
    return f"{kind}, {later} messages later" if later else f"{kind}, at once"


_LOST = 0.05
_UNNOTICED = "5 % lost"
_LOSSES = {_UNNOTICED: Faults(lost_unnoticed=_LOST)}
_DROPPERS = {0.1: 0, 0.2: 1}
"""The shares of droppers, and by how much the fan-out exceeds the required one."""


def _static_goals(nodes: int) -> Mapping[str, tuple[Goal, ...]]:
    last_hop = Goal("last_hop", most=10 if nodes <= 1_000 else 13)
    return {
        _SMALL: (Goal("hit", 1), Goal("copies", most=3.05), last_hop),
        _EQUAL: (Goal("hit", 1), Goal("copies", most=3.05), last_hop),
        _LARGE: (Goal("hit", 1), Goal("copies", most=2.1)),
    }


def _catastrophe_goals(nodes: int) -> Mapping[str, tuple[Goal, ...]]:
    return {
        _HALF: (Goal("hit", 0.9999), Goal("p99_s", most=12)),
        _MOST: (Goal("hit", 0.999), Goal("p99_s", most=40)),
    }


def _loss_goals(nodes: int) -> Mapping[str, tuple[Goal, ...]]:
    return {_when(kind, later): (Goal("hit", least),) for kind in _LOSSES for later, least in ((2, 0.9999), (8, 1.0))}


def _droppers_goals(nodes: int) -> Mapping[str, tuple[Goal, ...]]:
    return {
        _when(_drop(0.1), 0): (Goal("hit", 0.995),),
        _when(_drop(0.1), 2): (Goal("hit", 0.9995),),
        _when(_drop(0.2), 0): (Goal("hit", 0.992),),
        _when(_drop(0.2), 2): (Goal("hit", 0.9998),),
    }


STATIC = Scenario(run_static, _static_goals)
CATASTROPHE = Scenario(run_catastrophe, _catastrophe_goals)
_MISSED = Axes("messages published since, one each 30 s", "nodes that miss the message")
LOSS = Scenario(run_loss, _loss_goals, _MISSED)
DROPPERS = Scenario(run_droppers, _droppers_goals, _MISSED)
