"""The scenario `baselines`: this protocol compared with others, and with Cyclon, whose published figures validate the
simulator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from services.pubsub.simulation.baselines.cyclon import Cyclon
from services.pubsub.simulation.baselines.gossip import Gossip
from services.pubsub.simulation.baselines.gossipsub import GossipSub
from services.pubsub.simulation.baselines.plumtree import Plumtree
from services.pubsub.simulation.broadcast import Broadcast, mean_reach
from services.pubsub.simulation.engine import Engine, Links
from services.pubsub.simulation.figures import Goal, Result, Scenario, ScenarioRun, reach_figures
from services.pubsub.simulation.network import Network
from services.pubsub.simulation.rings import make_whole

MESSAGES, AFTER_DEATH = 10, 1
"""Numbers of messages measured: while all nodes live, and after many died, when only the first one counts before any
repair."""
CYCLON_FANOUTS = (4, 5, 6)
ROUND_S = (1.0, 1.0)
"""Seconds of a round; every hop of the published figures takes one."""
VIEW = 30
"""The view size of random gossip: that of a topic's view."""
DEAD = {"all live": 0.0, "half die": 0.5, "70 % die": 0.7}


class Disseminating(Protocol):
    """A network that can spread a message."""

    def publish(self, origin: int, alive: Callable[[int], bool]) -> Broadcast:
        """Spread a message among the live nodes; return its receipts when nothing is on its way any more."""


def run(plan: ScenarioRun) -> Iterator[Result]:
    """Measure each protocol while all nodes live, and right after many died; then Cyclon, in rounds, which are not
    drawn."""
    for name, make in MAKERS.items():
        for fate, share in DEAD.items():
            yield _measured(f"{name}, {fate}", make, plan, share)
    yield from _cyclon(plan)


def _measured(
    setting: str, make: Callable[[Engine, ScenarioRun], Disseminating], plan: ScenarioRun, share: float
) -> Result:
    engine = Engine(plan.seed)
    network = make(engine, plan)
    dead = set(engine.chance.sample(range(plan.nodes), int(plan.nodes * share)))
    live = [node for node in range(plan.nodes) if node not in dead]
    found = [
        network.publish(engine.chance.choice(live), lambda node: node not in dead)
        for _ in range(AFTER_DEATH if dead else MESSAGES)
    ]
    fanout = plan.fanout if isinstance(network, Gossip | Ours) else None
    reach = mean_reach(one.reach(live) for one in found)
    return Result(setting, fanout, reach_figures(reach), found[0].curve(live))


class Ours:
    """Whole rings, with forwarding and repair as they ship."""

    def __init__(self, plan: ScenarioRun) -> None:
        self._network = Network(plan.seed, plan.nodes, plan.fanout)
        make_whole(self._network)

    def publish(self, origin: int, alive: Callable[[int], bool]) -> Broadcast:
        """Spread one message until none is on its way; return its receipts."""
        self._network.dead = {node.number for node in self._network.nodes if not alive(node.number)}
        id = self._network.publish(origin)
        self._network.run()
        return self._network.broadcasts[id]


def _gossip(engine: Engine, plan: ScenarioRun, retries: bool) -> Gossip:
    views = [engine.chance.sample(range(plan.nodes), min(VIEW, plan.nodes)) for _ in range(plan.nodes)]
    return Gossip(engine, Links(engine.chance), views.__getitem__, plan.fanout, retries)


MAKERS: dict[str, Callable[[Engine, ScenarioRun], Disseminating]] = {
    "this router": lambda engine, plan: Ours(plan),
    "random gossip": lambda engine, plan: _gossip(engine, plan, retries=False),
    "random gossip with retry": lambda engine, plan: _gossip(engine, plan, retries=True),
    "HyParView and Plumtree": lambda engine, plan: Plumtree(engine, Links(engine.chance), plan.nodes),
    "GossipSub": lambda engine, plan: GossipSub(engine, Links(engine.chance), plan.nodes),
}


def _cyclon(plan: ScenarioRun) -> Iterator[Result]:
    engine = Engine(plan.seed)
    cyclon = Cyclon(plan.nodes, engine.chance)
    cyclon.run()
    views = [list(one) for one in cyclon.views]
    everyone = range(plan.nodes)
    for fanout in CYCLON_FANOUTS:
        network = Gossip(engine, Links(engine.chance, ROUND_S), views.__getitem__, fanout)
        found = [network.publish(engine.chance.randrange(plan.nodes), lambda node: True) for _ in range(MESSAGES)]
        reach = mean_reach(one.reach(everyone) for one in found)
        yield Result(_cyclon_setting(fanout), fanout, reach_figures(reach))


def _cyclon_setting(fanout: int) -> str:
    return f"Cyclon in rounds, F = {fanout}"


def goals(nodes: int) -> Mapping[str, tuple[Goal, ...]]:
    """Return the published figures; they are of 10,000 nodes, but the share reached hardly depends on that."""
    published = {
        _cyclon_setting(5): (Goal("hit", 0.992, 0.998),),
        _cyclon_setting(6): (Goal("hit", 0.996, 1.0),),
    }
    return published | {_cyclon_setting(4): (Goal("last_hop", 10.1, 11.1),)} if nodes == 10_000 else published


BASELINES = Scenario(run, goals)
