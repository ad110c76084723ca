"""The fleet of the sample: its nodes and apps, their links, and the groups' members; all of it from the seed."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from random import Random

from router.core.wire.crypto import SigningKey

EDGES_PER_CORE = 8
APPS_MIN, APPS_MAX = 3, 4  # in the whole fleet, on one node
BIG_GROUP_SHARE = 2  # one in this many apps has joined the group that takes most of the traffic
GROUP_SHARE = 8
MS = 1_000_000
SETTLE_MS = (0, 1, 2, 5, 20, 60)


def signing_key(seed: int, name: str) -> SigningKey:
    """Return the key of a node, app or group of the sample of this seed."""
    return SigningKey(sha256(f"audit sample {seed} {name}".encode()).digest())


@dataclass(eq=False)
class Place:
    """A node: a core, or an edge with its uplink. `cores` are a core's neighbours, `edges` those it serves."""

    name: str
    number: int
    key: SigningKey
    clock_ns: int
    uplink: Place | None = None
    cores: list[Place] = field(default_factory=list)
    edges: list[Place] = field(default_factory=list)
    apps: list[App] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.hex = self.key.public.hex()

    def __repr__(self) -> str:
        return f"<{self.name}: {len(self.apps)} apps>"


@dataclass(eq=False)
class App:
    """An app on a node. `settle_ns` is how long it usually takes to settle a message."""

    name: str
    number: int
    hex: str
    place: Place
    settle_ns: int


@dataclass(eq=False)
class Topic:
    """A group and its members. Group 0 is the big one."""

    hex: str
    members: set[App]
    ways: dict[tuple[int, int], tuple[App | Place, ...]] = field(default_factory=dict)
    beyond: dict[Place, int] = field(default_factory=dict)

    def toggle(self, app: App) -> bool:
        """Join or leave; return whether the app is a member now."""
        self.members ^= {app}
        self.ways.clear()
        self.beyond.clear()
        return app in self.members


class Fleet:
    """Cores in a line or a star, with edges spread over them; keys and habits from the seed."""

    def __init__(self, seed: int, nodes: int) -> None:
        chance = Random(f"fleet {seed}")
        self.seed = seed
        count = max(1, (nodes + EDGES_PER_CORE - 1) // (EDGES_PER_CORE + 1))
        self.cores = [self._place(f"core-{n:03d}", n, chance) for n in range(count)]
        self.is_star = bool(chance.getrandbits(1))
        self.above: dict[Place, Place] = {}
        for n in range(1, count):
            above = self.cores[0 if self.is_star else n - 1]
            above.cores.append(self.cores[n])
            self.cores[n].cores.append(above)
            self.above[self.cores[n]] = above
        self.edges = [self._place(f"edge-{n:03d}", count + n, chance) for n in range(nodes - count)]
        for n, edge in enumerate(self.edges):
            edge.uplink = self.cores[n % count]
            edge.uplink.edges.append(edge)
        self.places = self.cores + self.edges
        self.apps: list[App] = []
        for place in self.places:
            least = APPS_MIN if nodes == 1 else 0 if place.uplink is None else 1
            for n in range(chance.randrange(least, APPS_MAX + 1)):
                self._add_app(place, n, chance)
        while len(self.apps) < APPS_MIN:
            self._add_app(self.places[-1], len(self.apps), chance)
        self.groups = [self._topic(f"group-{n:03d}", n, chance) for n in range(max(2, nodes // 2))]

    def __repr__(self) -> str:
        shape = "a star" if self.is_star else "a line"
        return (
            f"<fleet {self.seed}: {len(self.cores)} cores in {shape}, {len(self.edges)} edges, {len(self.apps)} apps>"
        )

    def _place(self, name: str, number: int, chance: Random) -> Place:
        return Place(name, number, signing_key(self.seed, name), chance.randrange(-40 * MS, 40 * MS))

    def _add_app(self, place: Place, n: int, chance: Random) -> None:
        name = f"{place.name} app {n}"
        settle_ns = 200_000 + chance.choice(SETTLE_MS) * MS
        app = App(name, len(self.apps), signing_key(self.seed, name).public.hex(), place, settle_ns)
        place.apps.append(app)
        self.apps.append(app)

    def _topic(self, name: str, number: int, chance: Random) -> Topic:
        share = GROUP_SHARE if number else BIG_GROUP_SHARE
        members = {app for app in self.apps if not chance.randrange(share)}
        if not number:
            members.update(self.apps[:APPS_MIN])  # every group has readers
        return Topic(signing_key(self.seed, name).public.hex(), members)

    # -- the route of a message ----------------------------------------------------------------------------

    def recipients(self, topic: Topic, place: Place, source: App | Place) -> tuple[App | Place, ...]:
        """Return the recipients this node owes a message of the group that `source` brought. An edge's uplink gets
        everything."""
        way = (place.number, source.number if isinstance(source, Place) else -1 - source.number)
        found = topic.ways.get(way)
        if found is None:
            found = topic.ways[way] = self._recipients(topic, place, source)
        return found

    def _recipients(self, topic: Topic, place: Place, source: App | Place) -> tuple[App | Place, ...]:
        local: list[App | Place] = [app for app in place.apps if app in topic.members and app is not source]
        if place.uplink is not None:
            return (*local, place.uplink) if isinstance(source, App) else tuple(local)
        local += [edge for edge in place.edges if edge is not source and not topic.members.isdisjoint(edge.apps)]
        return *local, *(core for core in place.cores if core is not source and self._are_beyond(topic, place, core))

    def _are_beyond(self, topic: Topic, here: Place, core: Place) -> bool:
        """Whether any member is beyond that neighbouring core."""
        if not topic.beyond:
            self._count_below(topic)
        if self.above.get(core) is here:
            return topic.beyond[core] > 0
        return topic.beyond[self.cores[0]] > topic.beyond[here]

    def _count_below(self, topic: Topic) -> None:
        for core in self.cores:
            topic.beyond[core] = 0
        for app in topic.members:
            topic.beyond[app.place.uplink or app.place] += 1
        for core in reversed(self.cores):
            if core in self.above:
                topic.beyond[self.above[core]] += topic.beyond[core]

    def next_hop(self, place: Place, goal: App) -> App | Place:
        """Return the next hop of a unicast for that app."""
        home = goal.place
        if home is place:
            return goal
        if place.uplink is not None:
            return place.uplink
        if home.uplink is place:
            return home
        core = home.uplink or home
        below = core
        while below in self.above:
            if self.above[below] is place:
                return below
            below = self.above[below]
        return self.above[place]
