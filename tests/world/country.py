"""A country: cores with the pub/sub service and their edges in a world; who wants which group, and who has which
messages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Literal

from router.core.log.events import Accepted
from router.core.wire.address import parse_address
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.hint import TO_ROUTER, Hint, Hinted, encode_hint
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import seal_unicast
from services.pubsub.core.comparison.comparing import Comparing
from services.pubsub.core.sending.dissemination import Dissemination
from services.pubsub.events import EVENTS
from services.pubsub.rules import PubSub
from services.pubsub.settings import Settings as PubSubSettings
from world.app import App, Habits
from world.node import Node, Settings
from world.resident import Resident
from world.world import Cable, World

LIFE_S = 3 * 86_400
LARGE_BYTES = 1_024


@dataclass(eq=False)
class Place:
    """A node, its pub/sub service, and the groups ever wanted on it or behind it."""

    node: Node
    pubsub: Resident
    wanted: set[PublicKey] = field(default_factory=set)
    behind: Place | None = None
    """Return the core that is this edge's uplink."""

    @property
    def rules(self) -> PubSub:
        assert isinstance(self.pubsub.rules, PubSub)
        return self.pubsub.rules


class Country:
    """Cores that can dial each other once they know of each other, edges behind them, and subscribers anywhere.

    Each reader names the first core where its group is wanted, as group links do; through it the cores learn of others.
    """

    def __init__(self, world: World, cores: int, edges: Iterable[int], settings: Settings, habits: Habits) -> None:
        self.world = world
        self.places: list[Place] = []
        self.readers: dict[App, Place] = {}
        self.stayers: set[App] = set()
        self.published: dict[PublicKey, list[tuple[bytes, App]]] = {}
        for number in range(cores):
            self._place(f"core{number}", "overlay", settings, habits, number)
        self.cores = list(self.places)
        self.between = [world.reach(one.node, other.node) for one, other in combinations(self.cores, 2)]
        self.up: list[Cable] = []
        for number, of in enumerate(edges):
            edge, core = self._place(f"edge{number}", "leaf", settings, habits), self.cores[of]
            self.up.append(world.link(edge.node, core.node, uplink=True, grants="join store relay"))
            edge.behind = core

    def _place(
        self, name: str, mode: Literal["leaf", "overlay"], settings: Settings, habits: Habits, number: int | None = None
    ) -> Place:
        world, key = self.world, self.world.key()
        node = world.node(name, settings)
        node.services[bytes(key.public)] = "pubsub"
        if number is not None:
            node.public.add(bytes(key.public))
            node.addresses = (parse_address(f"tls://45.{number}.0.1:4100"),)
        node.crash()
        node.start()
        pubsub = Resident(
            world, node, f"pubsub of {name}", PubSub, PubSubSettings(mode=mode, large_bytes=LARGE_BYTES),
            replace(habits), key, frozenset(EVENTS),
        )  # fmt: skip
        self.places.append(Place(node, pubsub))
        return self.places[-1]

    # -- apps ------------------------------------------------------------------------------------------------------

    def reader(
        self, place: Place, groups: Iterable[SigningKey], habits: Habits | None = None, *, stays: bool = True
    ) -> App:
        """Make an app that is in these groups, and knows a core by each group's link."""
        app = self.world.app(place.node, f"reader {len(self.readers)} at {place.node.name}", habits=habits)
        self.readers[app] = place
        if stays:
            self.stayers.add(app)
        for group in groups:
            self.join(app, group)
        return app

    def join(self, app: App, group: SigningKey) -> None:
        app.join(group)
        place: Place | None = self.readers[app]
        while place is not None:
            place.wanted.add(group.public)
            place = place.behind
        self.world.time.after(1, lambda: self._hint(app, group.public))

    def _hint(self, app: App, group: PublicKey) -> None:
        first = next(place.node for place in self.cores if group in place.wanted)
        body = encode_hint(Hinted(group, (Hint(first.address, first.addresses),)), TO_ROUTER)
        expiry = expiry_min(self.world.time.now().wall_s + 7200)
        app.put(seal_unicast(app.key, app.router, body, ttl_s=0, expiry_min=expiry))

    def publish(self, app: App, group: SigningKey, count: int, size: int = 20) -> None:
        ids = app.publish(group, count, size=size, ttl_s=LIFE_S, life_s=LIFE_S)
        self.published.setdefault(group.public, []).extend((one, app) for one in ids)

    # -- what must hold --------------------------------------------------------------------------------------------

    def lacking(self) -> dict[App, set[bytes]]:
        """Return the messages taken by nodes in the groups of each reader that stays and that the reader lacks."""
        found: dict[App, set[bytes]] = {}
        for reader in self.stayers:
            for group in reader.diary.wanted:
                said = self.published.get(group, [])
                owed = {one for one, app in said if app is not reader and one in app.diary.settled}
                if lacks := owed - reader.diary.handled.keys():
                    found.setdefault(reader, set()).update(lacks)
        return found

    def run_until_whole(self, limit_s: float) -> float:
        """Run until each reader has all messages of its groups, and nothing is in progress; return the seconds."""
        for passed in range(0, int(limit_s), 5):
            if not (self.lacking() or self.under_way()):
                return passed
            self.world.run(5)
        raise AssertionError(f"not whole after {limit_s} s: {self.under_way() or self._named(self.lacking())}")

    @staticmethod
    def _named(lacking: dict[App, set[bytes]]) -> dict[str, list[str]]:
        return {app.name: [one.hex()[:8] for one in sorted(ids)[:5]] for app, ids in lacking.items()}

    def under_way(self) -> list[str]:
        """Name the readers whose messages no node has taken, and the services that still follow, ask for or fetch
        messages."""
        found = [app.name for app in self.readers if app.diary.unsettled]
        for place in self.places:
            parts = {type(one): one for one in place.rules.parts}
            dissemination, comparing = parts[Dissemination], parts[Comparing]
            assert isinstance(dissemination, Dissemination) and isinstance(comparing, Comparing)
            figures = dissemination.figures()
            busy = {name: figures[name] for name in ("under_way", "missing", "asked_for") if figures[name]}
            if busy:
                found.append(f"{place.pubsub.name}: {busy}")
        return found

    def check(self) -> None:
        """Check that no router was sent a group that nobody wants there; an edge hands all messages of its apps to its
        core."""
        wanted = {bytes(place.node.address): place.wanted for place in self.places}
        for place in self.places:
            up = None if place.behind is None else bytes(place.behind.node.address)
            for logged in place.node.log:
                for event in logged.events:
                    if isinstance(event, Accepted) and event.kind:
                        group = PublicKey(event.signer)
                        strays = [to for to in event.recipients if to != up and group not in wanted.get(to, {group})]
                        assert not strays, f"{place.node.name} sent {group!r} to {strays[0].hex()[:8]} in vain"
