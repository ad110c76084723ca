"""The figures of peer sampling: how even and how connected the views are, how they heal, and the gain of attackers."""

from __future__ import annotations

from collections import Counter
from random import Random
from statistics import pstdev

from msgspec import Struct
from msgspec.structs import replace

from router.core.wire.crypto import PublicKey
from services.discovery.core.sampling import SamplingLimits
from services.discovery.simulation.network import Flooder, SimulatedNetwork, advert_of

HEALING_CYCLES = 30
FLOODERS = 50
FLOODERS_SHARE = 0.8
VANISHING_SHARE = 0.8
ASKS_OF_ONE = 4
"""Number of times that an identity which asks without end asks each node in a period."""


class Figures(Struct, frozen=True):
    """The figures of one seed.

    `gain_…`: the attackers' share of what the honest nodes announce, as a multiple of the fair one: of one identity
    that asks without end, and of 50 in one public network that send 80 % of the questions, where both begin together
    with the network; and of 50 in as many networks that attack it once it runs.
    """

    seed: int
    in_degree_deviation: float
    components: int
    dead_share: float
    gain_of_one: float
    gain_of_50: float
    gain_of_50_apart: float


GOALS = {
    "in_degree_deviation": 2.6,
    "components": 1,
    "dead_share": 0.001,
    "gain_of_one": 3.0,
    "gain_of_50": 3.0,
    "gain_of_50_apart": 3.0,
}
"""The most that each figure may be."""


def measure(nodes: int, cycles: int, seed: int, limits: SamplingLimits | None = None) -> Figures:
    """Run the networks of one seed."""
    limits = limits or SamplingLimits()
    asks = round(nodes * FLOODERS_SHARE / (1 - FLOODERS_SHARE) / FLOODERS)
    return Figures(
        seed,
        *measure_views(nodes, cycles, seed, limits),
        gain(nodes, cycles, seed, limits, Flood(1, 1, ASKS_OF_ONE * nodes)),
        gain(nodes, cycles, seed, limits, Flood(FLOODERS, 1, asks)),
        gain(nodes, cycles // 2, seed, limits, Flood(FLOODERS, FLOODERS, asks), runs_for=cycles),
    )


def grown(nodes: int, seed: int, limits: SamplingLimits) -> SimulatedNetwork:
    """Return a network in which every node knows one node that was there before."""
    network = SimulatedNetwork(seed, limits)
    for number in range(nodes):
        seeds = [advert_of(network.chance.randrange(number)).key] if number else []
        network.join(advert_of(number), seeds)
    return network


def measure_views(nodes: int, cycles: int, seed: int, limits: SamplingLimits) -> tuple[float, int, float]:
    """Return the in-degree's deviation, the components if most nodes vanished, and the dead share after half did."""
    network = grown(nodes, seed, limits)
    network.run(cycles)
    deviation = in_degree_deviation(network)
    order = network.chance.sample(list(network.honest), nodes)
    components = count_components(network, set(order[int(nodes * VANISHING_SHARE) :]))
    network.vanish(order[: nodes // 2])
    network.run(HEALING_CYCLES)
    return deviation, components, dead_share(network)


def in_degree_deviation(network: SimulatedNetwork) -> float:
    """Return the standard deviation of the number of views that contain a node."""
    degrees = Counter(entry.advert.key for node in network.honest.values() for entry in node.view)
    return pstdev(degrees[key] for key in network.honest)


def dead_share(network: SimulatedNetwork) -> float:
    """Return the share of entries whose node has vanished."""
    entries = [entry.advert.key for node in network.honest.values() for entry in node.view]
    return sum(key not in network.honest for key in entries) / len(entries)


def count_components(network: SimulatedNetwork, among: set[PublicKey]) -> int:
    """Return the number of parts into which the views of these nodes fall, where an entry joins both ways."""
    joined = {key: key for key in among}

    def root(key: PublicKey) -> PublicKey:
        while joined[key] != key:
            joined[key] = key = joined[joined[key]]
        return key

    for key in among:
        for entry in network.honest[key].view:
            if entry.advert.key in among:
                joined[root(key)] = root(entry.advert.key)
    return sum(joined[key] == key for key in among)


class Flood(Struct, frozen=True):
    """An attack: a number of identities in a number of public networks, each asking that often in a period."""

    identities: int
    networks: int
    asks: int


def gain(
    nodes: int, cycles: int, seed: int, limits: SamplingLimits, flood: Flood, *, runs_for: int = 0, over: int = 0
) -> float:
    """Return the attackers' share of the nodes that honest nodes announce, as a multiple of the fair share.

    They begin when the network has run for `runs_for` cycles. It is measured over `over` cycles (0: half as many as
    `cycles`), after the first `cycles` of the attack.
    """
    network = grown(nodes, seed, limits)
    network.run(runs_for)
    side = tuple(
        replace(advert_of(nodes + number), prefix=b"flood %d" % (number % flood.networks))
        for number in range(flood.identities)
    )
    targets = tuple(network.honest)
    for own in side:
        chance = Random(network.chance.randbytes(16))
        network.admit(own.key, Flooder(own, side, targets, flood.asks, chance, limits))
    theirs = {one.key for one in side}
    counts = Counter[bool]()
    network.run(cycles)
    network.announced = lambda adverts: counts.update(one.key in theirs for one in adverts)
    network.run(over or max(1, cycles // 2))
    return counts[True] / counts.total() * (nodes + flood.identities) / flood.identities
