"""LAN neighbours in seeded worlds: each message arrives once and in order, across cut cables and killed nodes; messages
from one are not passed to another, and one that lies achieves nothing (R-C25)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import pytest

from router.core.log.events import Accepted
from router.core.neighbours.directory import Neighbour, Standing
from router.core.wire.address import parse_address
from router.core.wire.advert import Advertisement, make_advertisement
from router.core.wire.lifetime import expiry_min
from router.core.wire.reasons import NOT_SHARED
from router.service import contract as c
from router.service.parts import Parts
from router.service.roles import overlay as o
from services.discovery.core.messages import Named, decode_message
from services.discovery.rules import Discovery
from services.discovery.settings import Settings as DiscoverySettings
from world.app import App, Habits
from world.node import Node
from world.resident import Resident
from world.world import Cable, World

STEPS = 15
DAY_S = 86_400


def seeds(count: int, long: int) -> list[object]:
    return [*range(count), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(count, long))]


class Neighbourhood:
    """Nodes that all see each other; `near[router]`: the advertisements that a node there hears."""

    def __init__(self, world: World, *names: str, hidden: str = "") -> None:
        self.world = world
        self.hidden = world.group(hidden).public if hidden else None
        self.nodes = [world.node(name) for name in names]
        self.keys = {node: world.key() for node in self.nodes}
        for node in self.nodes:
            node.services[bytes(self.keys[node].public)] = "discovery"
            node.public.add(bytes(self.keys[node].public))
            node.crash()
            node.start()
        self.near = {
            bytes(one.address): {other.address: self.advert(other) for other in self.nodes if other is not one}
            for one in self.nodes
        }
        self.cables = {frozenset(pair): world.lan(*pair) for pair in combinations(self.nodes, 2)}
        self.services = [self.serve(node) for node in self.nodes]

    def advert(self, node: Node) -> Advertisement:
        services, expiry = {"discovery": self.keys[node].public}, expiry_min(self.world.time.now().wall_s + DAY_S)
        return make_advertisement(
            node.key, [parse_address("tls://192.168.0.9:4100")], services=services, rev=1, expiry_min=expiry
        )

    def serve(self, node: Node) -> Resident:
        name, habits = f"discovery of {node.name}", Habits(die=0.02)
        rules: Callable[[c.Setup], c.Rules] = lambda setup: Nearby(setup, self)  # noqa: E731
        return Resident(self.world, node, name, rules, DiscoverySettings(), habits, key=self.keys[node])


class Names:
    """Takes what neighbours call themselves."""

    def hear(self, heard: c.Heard, now: c.Now) -> list[c.Deed]:
        return []

    def read(self, message: c.Message, said: object, now: c.Now) -> list[c.Deed]:
        assert isinstance(said, Named)
        return []


class Nearby(Discovery):
    """The rules that ship, with a given set of routers nearby; they tell nobody of the group `hidden`."""

    def __init__(self, setup: c.Setup, lan: Neighbourhood) -> None:
        super().__init__(setup)
        self._lan = lan
        self._hidden = lan.hidden
        self.known.on_lan = True
        names = Names()  # in the place of the part that hears datagrams, of which there are none here
        parts = tuple(names if part is self.lan else part for part in self.parts)
        self._hear = Parts("discovery", parts, {**self.readers, Named: names}, decode_message).hear

    def hear(self, heard: c.Heard, now: c.Now) -> list[c.Deed]:
        if isinstance(heard, o.Wanted) and heard.group == self._hidden:
            return [o.AckWanted(heard.group, heard.wanted)]
        if not isinstance(heard, c.Started):
            return super().hear(heard, now)
        self.known.nearby = dict(self._lan.near[bytes(heard.router)])
        learned = [
            c.AddNeighbour(key, ("tls://192.168.0.9:4100",), int(now.wall_s) + DAY_S) for key in self.known.nearby
        ]
        return [*learned, *super().hear(heard, now)]


def brought_on(node: Node, others: set[bytes]) -> set[bytes]:
    """Return the LAN neighbours that were owed a message that did not come from this node's own apps."""
    found: set[bytes] = set()
    for logged in node.log:
        for event in logged.events:
            if isinstance(event, Accepted) and event.kind == 1 and event.neighbour in others:
                found |= set(event.recipients) & others
    return found


def test_two_who_share_a_group_hear_each_other_and_nobody_else_does() -> None:
    with World(1) as world:
        lan = Neighbourhood(world, "one", "two", "three")
        apps = [world.app(node) for node in lan.nodes]
        news, cats = world.group("news"), world.group("cats")
        for app, group in zip(apps, (news, news, cats), strict=True):
            app.join(group)
        world.run(8)
        sent = apps[0].publish(news, 3)
        world.run_until_quiet()
        assert apps[1].first_deliveries() == sent and not apps[2].first_deliveries()
        one = lan.nodes[0].router
        assert [one.links.standing_of(node.address) for node in lan.nodes[1:]] == [Standing.MET, Standing.MET]
        assert one.groups.members(news.public) == (apps[0].key.public, lan.nodes[1].address)


@pytest.mark.parametrize("seed", seeds(6, 25))
def test_each_message_once_and_in_order_whatever_breaks(seed: int) -> None:
    with World(seed) as world:
        lan = Neighbourhood(world, *("one", "two", "three")[: 2 + seed % 2])
        random = world.time.random
        group = world.group("news")
        apps = [world.app(node, habits=Habits(die=random.choice((0, 0.05)))) for node in lan.nodes]
        for app in apps:
            app.join(group)
        world.run(30)  # a service that dies in a meeting has its groups again after the next one
        assert all(app.joined for app in apps)
        for node in lan.nodes:
            assert len(node.router.groups.members(group.public)) == len(lan.nodes), "all have met"
        sent: dict[App, list[bytes]] = {app: [] for app in apps}
        for _ in range(STEPS):
            app = random.choice(apps)
            sent[app] += app.publish(group, random.randrange(1, 6), size=random.choice((10, 2000)))
            disturb(world, [*lan.cables.values()], lan)
            world.run(random.random() * 2)
        for cable in lan.cables.values():
            world.heal(cable)
        world.run(15)
        world.run_until_quiet()
        others = {bytes(node.address) for node in lan.nodes}
        for app in apps:
            for sender in apps:
                if sender is not app:
                    assert [one for one in app.first_deliveries() if one in set(sent[sender])] == sent[sender]
        for node in lan.nodes:
            assert not brought_on(node, others), f"{node.name} passed on what a LAN neighbour brought"


def disturb(world: World, cables: list[Cable], lan: Neighbourhood) -> None:
    chance, random = world.time.chance, world.time.random
    for cable in cables:
        if chance(0.2):
            world.cut(cable)
        elif chance(0.1):
            world.part(cable)
            world.time.after(random.choice((1, 20)), lambda cable=cable: world.heal(cable))  # type: ignore[misc]
    node = random.choice(lan.nodes)
    if node.alive and chance(0.2):
        world.crash(node, random.choice((0.5, 5.0)))
    elif chance(0.1):
        random.choice(lan.services).crash()


@pytest.mark.parametrize("seed", seeds(4, 8))
def test_a_common_uplink_gives_no_copy_twice_and_hears_nothing_of_it(seed: int) -> None:
    with World(seed) as world:
        lan = Neighbourhood(world, "one", "two")
        core = world.node("core")
        for node in lan.nodes:
            world.link(node, core, uplink=True, grants="join store relay")
        apps = [world.app(node) for node in (*lan.nodes, core)]
        group = world.group("news")
        for app in apps:
            app.join(group)
        world.run(15)
        sent = {app: app.publish(group, 5) for app in apps}
        world.run_until_quiet()
        for app in apps:
            theirs = [one for one in app.first_deliveries() if one not in sent[app]]
            assert sorted(theirs) == sorted(one for other in apps if other is not app for one in sent[other])
        for node, other in (lan.nodes, reversed(lan.nodes)):
            outside = {bytes(other.address), bytes(core.address)}
            assert not brought_on(node, outside), "neither to the other nor to the core"


@pytest.mark.parametrize("seed", seeds(4, 8))
def test_who_brings_or_joins_what_was_not_agreed_gets_and_gives_nothing(seed: int) -> None:
    """The liar's router takes the other for an uplink: it joins and brings everything, though its service named fewer
    groups."""
    with World(seed) as world:
        news, secret = world.group("news"), world.group("secret")
        lan = Neighbourhood(world, "victim", "liar", hidden="secret")
        victim, liar = lan.nodes
        good, bad = world.app(victim, "good"), world.app(liar, "bad")
        for group in (news, secret):
            good.join(group)
            bad.join(group)
        world.run(10)
        liar.reconfigure([Neighbour(victim.address, "victim", uplink=True)])
        world.run(2)
        kept = good.publish(secret, 3) + good.publish(news, 3)
        brought = bad.publish(secret, 3) + bad.publish(news, 3)
        world.run(20)  # the liar keeps what was refused for now, and tries again
        assert set(bad.first_deliveries()) == set(kept[3:]), "it may not join what it did not tell"
        assert set(good.first_deliveries()) == set(brought[3:]), "and not bring it"
        assert world.ledger(victim).refusals()[NOT_SHARED] >= 3
        assert not brought_on(victim, {bytes(liar.address)})
