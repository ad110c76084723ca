"""The scenarios in which rings are whole when the message comes: `static`, `catastrophe`, `loss`, `droppers`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from router.core.wire.crypto import MessageId
from services.pubsub.core.forwarding import ForwardingLimits
from services.pubsub.simulation.broadcast import Broadcast, mean_reach
from services.pubsub.simulation.figures import Goal, Plan, Result, Scenario, reach_figures
from services.pubsub.simulation.network import SMALL_BYTES, Faults, Network
from services.pubsub.simulation.rings import make_whole

MESSAGES = 10
TRIALS_OF = 2_000
"""Nodes of all trials after a catastrophe together: of each network there is only one first message."""
PAUSE_S = 30.0
"""Between messages that name each other: longer than it takes to ask three routers for one that is missing."""
LATER = (0, 2, 8)

_SMALL, _LARGE = "bodies below 16 KiB", "bodies of 16 KiB and more"
_HALF, _MOST = "half die", "70 % die"
_DEAD = {_HALF: 0.5, _MOST: 0.7}


def _whole(plan: Plan, seed: int, fanout: int, faults: Faults | None = None) -> Network:
    network = Network(seed, plan.nodes, fanout, faults)
    make_whole(network)
    return network


def run_static(plan: Plan) -> Iterator[Result]:
    """Measure messages one after the other while nothing fails."""
    for setting, size in ((_SMALL, SMALL_BYTES), (_LARGE, ForwardingLimits().large_bytes)):
        network = _whole(plan, plan.seed, plan.fanout)
        found = list[Broadcast]()
        for _ in range(MESSAGES):
            id = network.publish(network.engine.chance.randrange(plan.nodes), b"\0" * size)
            network.run()
            found.append(network.broadcasts[id])
        yield _result(setting, plan.fanout, found, range(plan.nodes))


def run_catastrophe(plan: Plan) -> Iterator[Result]:
    """Measure the first message after many died, of which nobody knows yet."""
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


def run_loss(plan: Plan) -> Iterator[Result]:
    """Measure messages of which 5 % of the copies are lost, though they were acknowledged."""
    for kind, faults in _LOSSES.items():
        yield from _later(plan, kind, plan.fanout, faults)


def run_droppers(plan: Plan) -> Iterator[Result]:
    """Measure messages in networks where some take every copy and forward none, at the fan-outs of the goals."""
    for share, more in _DROPPERS.items():
        faults = Faults(droppers=frozenset(range(int(share * plan.nodes))))  # keys are random, so their places are
        yield from _later(plan, _drop(share), plan.fanout + more, faults)


def _later(plan: Plan, kind: str, fanout: int, faults: Faults) -> Iterator[Result]:
    """Publish messages, each naming those before; yield how far they came at once, and some messages later."""
    network = _whole(plan, plan.seed, fanout, faults)
    honest = [number for number in network.live if number not in faults.droppers]
    sent: list[tuple[float, MessageId]] = []
    for _ in range(MESSAGES + LATER[-1]):
        sent.append((network.engine.now_s, network.publish(network.engine.chance.choice(honest))))
        network.run(PAUSE_S)
    for later in LATER:
        found = [
            network.broadcasts[id].until(sent[at + later][0] + PAUSE_S) for at, (_, id) in enumerate(sent[:MESSAGES])
        ]
        yield _result(_when(kind, later), fanout, found, honest)


def _result(setting: str, fanout: int, found: Sequence[Broadcast], among: Sequence[int]) -> Result:
    reach = mean_reach(one.reach(among) for one in found)
    return Result(setting, fanout, reach_figures(reach), found[0].curve(among))


def _drop(share: float) -> str:
    return f"{100 * share:.0f} % drop"


def _when(kind: str, later: int) -> str:
    return f"{kind}, {later} messages later" if later else f"{kind}, at once"


_LOST = 0.05
_UNNOTICED = "5 % lost"
_LOSSES = {_UNNOTICED: Faults(lost_unnoticed=_LOST)}
_DROPPERS = {0.1: 0, 0.2: 1}
"""The shares of droppers, and by how much the fan-out is greater than the one that is asked for."""


def _static_goals(nodes: int) -> Mapping[str, tuple[Goal, ...]]:
    last_hop = Goal("last_hop", most=10 if nodes <= 1_000 else 13)
    return {
        _SMALL: (Goal("hit", 1), Goal("copies", most=3.05), last_hop),
        _LARGE: (Goal("hit", 1), Goal("copies", most=2.1)),
    }


def _catastrophe_goals(nodes: int) -> Mapping[str, tuple[Goal, ...]]:
    return {
        _HALF: (Goal("hit", 0.9999), Goal("p99_s", most=12)),
        _MOST: (Goal("hit", 0.999), Goal("p99_s", most=40)),
    }


def _loss_goals(nodes: int) -> Mapping[str, tuple[Goal, ...]]:
    return {
        _when(kind, later): (Goal("hit", least),)
        for kind in _LOSSES
        for later, least in ((2, 0.9999), (8, 1.0))
    }  # fmt: skip


def _droppers_goals(nodes: int) -> Mapping[str, tuple[Goal, ...]]:
    return {
        _when(_drop(0.1), 0): (Goal("hit", 0.995),),
        _when(_drop(0.1), 2): (Goal("hit", 0.9995),),
        _when(_drop(0.2), 0): (Goal("hit", 0.992),),
        _when(_drop(0.2), 2): (Goal("hit", 0.9998),),
    }


STATIC = Scenario(run_static, _static_goals)
CATASTROPHE = Scenario(run_catastrophe, _catastrophe_goals)
LOSS = Scenario(run_loss, _loss_goals)
DROPPERS = Scenario(run_droppers, _droppers_goals)
