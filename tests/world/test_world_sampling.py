"""Peer sampling between whole nodes in seeded worlds: cores that know one other core come to know all, whatever is
killed.

The rules are those that ship, discovery with all its parts, each on a router with its links, its book and its store.
"""

from __future__ import annotations

import pytest

from router.core.log.events import RouterChange
from router.core.neighbours.directory import Standing
from router.core.wire.address import parse_address
from router.core.wire.advert import Advertisement, make_advertisement
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import expiry_min
from services.discovery.rules import Discovery
from services.discovery.settings import Settings as DiscoverySettings
from world.app import Habits
from world.node import Node, Settings
from world.resident import Resident
from world.world import World

CORES, PERIOD_S, KILLING = 4, 2.0, 15
PERIODS_MAX = 40
DAY_S = 86_400


class Cores:
    """Cores that can all reach each other, and know only those that they are told of. `keys`, `services`: by name."""

    def __init__(self, world: World, period_s: float = PERIOD_S) -> None:
        self.world = world
        self.period_s = period_s
        self.nodes: list[Node] = []
        self.keys: dict[str, SigningKey] = {}
        self.services: dict[str, Resident] = {}

    def add(self, name: str, *seeds: Node) -> Node:
        """Add a core that knows these, on a network of its own."""
        world = self.world
        node, key = world.node(name, Settings(strangers=True)), self.keys.setdefault(name, world.key())
        self.nodes.append(node)
        node.services[bytes(key.public)] = "discovery"
        node.public.add(bytes(key.public))
        node.addresses = self.advert(node).addresses
        node.crash()
        node.start()
        told = DiscoverySettings(
            sampling=True, seeds=tuple(self.advert(one).text() for one in seeds), period_s=self.period_s
        )
        for other in self.nodes[:-1]:
            world.reach(node, other, 0.005)
        self.services[name] = Resident(world, node, f"discovery of {name}", Discovery, told, Habits(), key)
        return node

    def advert(self, node: Node) -> Advertisement:
        """Return the advertisement in a core's link, with revision 0, as `router id --link` prints it."""
        now_s, at = self.world.time.now().wall_s, parse_address(f"tls://45.0.{self.nodes.index(node)}.1:4100")
        services = {"discovery": self.keys[node.name].public}
        return make_advertisement(node.key, [at], services=services, rev=0, expiry_min=expiry_min(now_s + DAY_S))

    def known_to(self, node: Node) -> set[str]:
        """Return the names of the other cores in the address book of a core's router."""
        names = {bytes(one.address): one.name for one in self.nodes}
        return {names[key] for key in node.router.directory.neighbours if key in names}

    def know_all(self) -> bool:
        """Whether each live core knows each other live core."""
        alive = {one.name for one in self.nodes if one.alive}
        return all(self.known_to(one) >= alive - {one.name} for one in self.nodes if one.alive)

    def periods_until_all_know(self) -> int:
        for period in range(PERIODS_MAX):
            if self.know_all():
                return period
            self.world.run(PERIOD_S)
        return PERIODS_MAX


def disturb(cores: Cores) -> None:
    """Kill a node or a service, or break a connection."""
    world = cores.world
    random, chance = world.time.random, world.time.chance
    node = random.choice(cores.nodes)
    if node.alive and chance(0.15):
        world.crash(node, random.choice((0.3, 3.0)))
    elif chance(0.15):
        cores.services[node.name].crash()
    elif chance(0.3):
        world.cut(random.choice(world.cables))


def grown(world: World) -> Cores:
    """Return cores of which the first runs, and the others know it."""
    cores = Cores(world)
    first = cores.add("core 0")
    world.run(PERIOD_S)
    for number in range(1, CORES):
        cores.add(f"core {number}", first)
    return cores


def test_each_comes_to_know_all_within_thirty_periods() -> None:
    with World(1) as world:
        assert grown(world).periods_until_all_know() <= 30


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 20))])
def test_whatever_is_killed_all_know_all_and_a_newcomer_once_the_first_is_gone(seed: int) -> None:
    """The newcomer knows only the third core; without the first one, some core must know the others."""
    with World(seed) as world:
        cores = grown(world)
        for _ in range(KILLING):
            disturb(cores)
            world.run(PERIOD_S)
        world.run(5)  # the killed are back
        assert cores.periods_until_all_know() < PERIODS_MAX
        world.crash(cores.nodes[0], None)
        cores.add("newcomer", cores.nodes[2])
        assert not cores.know_all()
        assert cores.periods_until_all_know() < PERIODS_MAX


def links_made(node: Node) -> int:
    """Return how many links with other routers the node's log tells of."""
    events = (event for batch in node.log for event in batch.events if isinstance(event, RouterChange))
    ups = (dict(event.fields) for event in events if event.event == "link_up")
    return sum(one["standing"] != Standing.LOCAL.value for one in ups)


def test_a_few_quiet_cores_keep_their_links() -> None:
    """They ask each other for cores now and then, share no group, and dial each other once for each pair."""
    with World(1) as world:
        cores = Cores(world, 20.0)
        first = cores.add("core 0")
        for number in range(1, CORES):
            cores.add(f"core {number}", first)
        world.run(900)
        assert cores.know_all()
        assert [links_made(one) for one in cores.nodes] == [CORES - 1] * CORES
