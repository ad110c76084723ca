"""The fleet of the sample: its nodes and apps, who is linked with whom, and the groups' members; all of it from the
seed."""

from __future__ import annotations

from collections import Counter
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
    """A node of a tree: the first core, the other cores below it, and below each core its edges."""

    name: str
    key: SigningKey
    clock_ns: int
    above: Place | None = None
    is_edge: bool = False
    below: list[Place] = field(default_factory=list)
    apps: list[App] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.address = bytes(self.key.public)
        if self.above is not None:
            self.above.below.append(self)

    def __repr__(self) -> str:
        return f"<{self.name}: {len(self.apps)} apps>"


@dataclass(eq=False)
class App:
    """An app on a node. `settle_ns` is how long it usually takes to settle a message."""

    address: bytes
    place: Place
    settle_ns: int


@dataclass(eq=False)
class Topic:
    """A group and its members. Group 0 is the big one. `under` counts the members at a place and below it."""

    address: bytes
    members: set[App]
    ways: dict[tuple[Place, App | Place], list[App | Place]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._count()

    def _count(self) -> None:
        self.ways.clear()
        self.under: Counter[Place] = Counter()
        for app in self.members:
            place: Place | None = app.place
            while place is not None:
                self.under[place] += 1
                place = place.above

    def toggle(self, app: App) -> None:
        """Join or leave."""
        self.members ^= {app}
        self._count()

    def recipients(self, place: Place, source: App | Place) -> list[App | Place]:
        """Return the recipients this place owes a message of the group that `source` brought. An edge's uplink gets
        everything."""
        found = self.ways.get((place, source))
        if found is None:
            found = self.ways[place, source] = [app for app in place.apps if app in self.members and app is not source]
            found += [one for one in place.below if one is not source and self.under[one]]
            above = place.above
            if above not in (None, source) and (place.is_edge or self.under[place] < len(self.members)):
                found.append(above)
        return found


class Fleet:
    """Cores with edges spread over them; keys and habits from the seed."""

    def __init__(self, seed: int, nodes: int) -> None:
        chance = Random(f"fleet {seed}")
        self.seed = seed
        count = max(1, (nodes + EDGES_PER_CORE - 1) // (EDGES_PER_CORE + 1))
        self.cores: list[Place] = []
        for n in range(count):
            self.cores.append(self._place(f"core-{n:03d}", chance, self.cores[0] if n else None))
        edges = [self._place(f"edge-{n:03d}", chance, self.cores[n % count], True) for n in range(nodes - count)]
        self.places = self.cores + edges
        self.apps: list[App] = []
        for place in self.places:
            least = APPS_MIN if nodes == 1 else int(place.is_edge)
            for _ in range(chance.randrange(least, APPS_MAX + 1)):
                self._add_app(place, chance)
        while len(self.apps) < APPS_MIN:
            self._add_app(self.places[-1], chance)
        self.groups = [self._topic(n, chance) for n in range(max(2, nodes // 2))]

    def __repr__(self) -> str:
        return f"<fleet {self.seed}: {len(self.places)} places, {len(self.cores)} of them cores, {len(self.apps)} apps>"

    def _place(self, name: str, chance: Random, above: Place | None, is_edge: bool = False) -> Place:
        return Place(name, signing_key(self.seed, name), chance.randrange(-40 * MS, 40 * MS), above, is_edge)

    def _add_app(self, place: Place, chance: Random) -> None:
        address = signing_key(self.seed, f"{place.name} app {len(place.apps)}").public
        place.apps.append(App(address, place, 200_000 + chance.choice(SETTLE_MS) * MS))
        self.apps.append(place.apps[-1])

    def _topic(self, number: int, chance: Random) -> Topic:
        share = GROUP_SHARE if number else BIG_GROUP_SHARE
        members = {app for app in self.apps if not chance.randrange(share)}
        if not number:
            members.update(self.apps[:APPS_MIN])  # every group has readers
        return Topic(signing_key(self.seed, f"group-{number:03d}").public, members)


def next_hop(place: Place, goal: App) -> App | Place:
    """Return the next hop of a unicast for that app."""
    if goal.place is place:
        return goal
    below = goal.place
    while below.above not in (None, place):
        below = below.above
    return below if below.above is place or place.above is None else place.above
