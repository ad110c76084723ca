"""The scenario `hub`: many nodes of one group all know one of them, as a link's hint names it, and come at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from services.pubsub.core.rings.overlay import OverlayLimits
from services.pubsub.simulation.figures import Axes, Goal, Result, Scenario, ScenarioRun
from services.pubsub.simulation.meeting import Dial, MeetingNetwork
from services.pubsub.simulation.rings import members, right_links

CYCLES = 30
HUB_NODE = 0

_ONE_HINT = f"one hint, after {CYCLES} cycles"


def run(plan: ScenarioRun) -> Iterator[Result]:
    """Let nodes come by one hint within a second, and measure the ring for some cycles."""
    limits = OverlayLimits()
    network = MeetingNetwork(plan.seed, plan.nodes, plan.fanout, limits)
    for number in range(1, plan.nodes):
        network.engine.after(network.engine.chance.random() * limits.fast_s, number, Dial(HUB_NODE))
    order = members(network)
    curve = [(0.0, 0.0)]
    for cycle in range(1, CYCLES + 1):
        network.run(limits.fast_s if cycle <= limits.fast_periods else limits.period_s)
        curve.append((float(cycle), right_links(network, order) / (2 * len(order))))
    strangers = sum(not one.known.topics[group].neighbours for one in network.nodes for group in one.known.topics)
    whole = next((at for at, share in curve if share == 1), float("inf"))
    measured = {
        "ring_links": curve[-1][1],
        "ring_cycles": whole,
        "alone": float(strangers),
        "partners": float(len(network.hosts[HUB_NODE].meetings)),
        "connections": float(len(network.hosts[HUB_NODE].linked)),
    }
    yield Result(_ONE_HINT, None, measured, curve)


def goals(nodes: int) -> Mapping[str, tuple[Goal, ...]]:
    return {_ONE_HINT: (Goal("ring_links", 1.0), Goal("alone", most=0), Goal("partners", most=256))}


HUB = Scenario(run, goals, Axes("cycles", "ring links that are right"))
