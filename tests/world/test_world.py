"""Properties over seeds: a message in custody arrives, once and in order, whatever breaks on the way."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs
from rigs.plain_store import Disk

from router.core.routing.limits import CoreLimits
from router.core.wire.crypto import SigningKey
from router.disk.limits import StoreLimits
from router.disk.store.store import Store
from world.app import App, Habits
from world.node import Node, Settings
from world.world import Cable, World

QUICK, LONG = 3, 300
ALL = "join store relay"


def two_tiers(world: World, uplinks: int = 1) -> tuple[list[Node], list[Node], list[Cable]]:
    """Make cores, and two edges that have each of them as uplink."""
    cores = [world.node(f"core{n}") for n in range(uplinks)]
    edges = [world.node("east"), world.node("west")]
    cables = [world.link(edge, core, uplink=True, grants=ALL) for edge in edges for core in cores]
    return cores, edges, cables


def readers_of(world: World, nodes: list[Node], habits: Habits | None = None) -> list[App]:
    """Make one durable app on every node, all members of the group "news"."""
    apps = [world.app(node, f"reader at {node.name}", habits=replace(habits or Habits())) for node in nodes]
    for app in apps:
        app.join(world.group("news"))
    world.run_until_quiet()
    assert all(world.group("news").public in app.joined for app in apps)
    return apps


def seeds(count: int, long: int) -> list[object]:
    return [*range(count), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(count, long))]


@pytest.mark.parametrize("seed", seeds(QUICK, LONG))
def test_what_is_settled_arrives_once_and_in_order(seed: int) -> None:
    """Messages arrive over the one path between any two apps, despite cuts, crashes, and apps that die before
    settling."""
    with World(seed) as world:
        cores, edges, cables = two_tiers(world)
        readers = readers_of(world, [*cores, *edges], Habits(die=0.03))
        writer = world.app(edges[0], "writer")
        ids = []
        for _ in range(8):
            ids += writer.publish(world.group("news"), 15, size=world.time.random.choice((10, 200, 3000)))
            disturb(world, cables, [writer, *readers])
            world.run(world.time.random.random())
        world.run_until_quiet()
        assert list(writer.diary.settled) == ids and not writer.diary.refused
        for reader in readers:
            assert reader.first_deliveries() == ids, f"{reader!r} of {len(ids)}"


def disturb(world: World, cables: list[Cable], apps: list[App]) -> None:
    chance = world.time.chance
    for cable in cables:
        if chance(0.2):
            world.cut(cable)
        elif chance(0.1):
            world.part(cable)
            world.time.after(2, lambda cable=cable: world.heal(cable))  # type: ignore[misc]
    for node in world.nodes:
        if node.alive and chance(0.15):
            world.crash(node, world.time.random.random() * 2)
    for app in apps:
        if chance(0.1):
            app.crash()


@pytest.mark.parametrize("seed", seeds(3, 100))
def test_two_paths_double_nothing(seed: int) -> None:
    """Each edge has two uplinks; the cores do not know each other, so every message takes both paths."""
    with World(seed) as world:
        cores, edges, cables = two_tiers(world, uplinks=2)
        readers = readers_of(world, [*cores, *edges])
        writer = world.app(edges[0], "writer")
        ids = []
        for _ in range(5):
            ids += writer.publish(world.group("news"), 15)
            disturb(world, cables, [writer])
            world.run(world.time.random.random())
        world.run_until_quiet()
        assert list(writer.diary.settled) == ids
        for reader in readers:
            assert sorted(reader.first_deliveries()) == sorted(ids)
        edge = edges[1]
        turned = [*world.ledger(edge).turned, *edge.router.rejections.waiting(world.time.now())]
        assert sum(one.count for one in turned if one.event == "duplicate") > 0


@pytest.mark.parametrize("seed", seeds(6, 300))
def test_anything_goes(seed: int) -> None:
    """The books balance over random apps, groups, unicasts, lifetimes, stalls, leaves, crashes and tight queues."""
    with World(seed) as world:
        random = world.time.random
        limits = CoreLimits()
        if seed % 2:
            queues = structs.replace(limits.queues, recipient_messages_max=60, node_messages_max=300, share_percent=50)
            limits = structs.replace(limits, queues=queues)
        window = random.choice((4, 16)), random.choice((1000, 9000))
        settings = Settings(limits=limits, window_messages=window[0], window_bytes=window[1])
        cores = [world.node(f"core{n}", settings) for n in range(random.choice((1, 2)))]
        edges = [world.node(f"edge{n}", settings) for n in range(2)]
        cables = [world.link(edge, core, uplink=True, grants=ALL) for edge in edges for core in cores]
        if len(cores) == 2:
            cables.append(world.link(*cores, both=world.time.chance(0.5)))
        groups = [world.group(name) for name in ("news", "cats", "dogs")]
        apps = []
        for node in [cores[0], *edges] * 2:
            habits = Habits(
                settle_s=random.choice((0.001, 0.2, 0.5, None)), die=random.choice((0, 0, 0.05)),
                features=random.choice(((), ("outcome",))),
            )  # fmt: skip
            apps.append(world.app(node, durable=world.time.chance(0.7), habits=habits))
        for _ in range(40):
            act(world, random.choice(apps), groups, apps)
            if world.time.chance(0.3):
                disturb(world, cables, apps)
            world.run(random.random())
        for app in apps:
            app.habits = replace(app.habits, die=0, settle_s=0.01)
            app.settle_all()
        world.run_until_quiet()
        for app in apps:
            assert not set(app.diary.settled) & set(app.diary.refused) - app.replayed
        assert_nothing_is_left_over(world)


def act(world: World, app: App, groups: list[SigningKey], apps: list[App]) -> None:
    random = world.time.random
    group = random.choice(groups)
    match random.randrange(7):
        case 0 | 1:
            app.join(group, local=world.time.chance(0.2))
        case 2:
            app.leave(group)
        case 3 | 4:
            ttl_s = random.choice((0, 1, 5, 3600))
            app.publish(group, random.randrange(1, 20), size=random.choice((0, 100, 2000)), ttl_s=ttl_s)
        case 5:
            other = random.choice(apps)
            app.send(other.key.public, random.randrange(1, 8), ttl_s=random.choice((0, 2, 3600)))
        case 6:
            node = random.choice(world.nodes)
            old = random.choice(sorted(app.diary.sent.values()) or [b""])
            if node.alive and world.time.chance(0.3):
                node.clear_queue(random.choice(apps).key.public)
            elif old:
                app.replay(old)


def assert_nothing_is_left_over(world: World) -> None:
    """Check that ended messages are forgotten: memory grows with the messages owed, not with past ones."""
    for node in world.nodes:
        router = node.router
        for link in router.links:
            assert not link.flights and not link.refused, f"{link!r} at {node.name}"
        assert not router.seen._in_flight and not router.seen._verdicts, node.name
        for queue in router.queues.by_recipient.values():
            assert bool(queue.total.messages) == bool(queue.shares) and queue.total.bytes >= 0, queue
        owed = any(queue.total.messages for queue in router.queues.by_recipient.values())
        assert owed or not (router.queues._groups or router.queues._neighbours or router.queues.node.messages)
        connected = {link.key for link in router.links}
        assert all(one.total.messages or key in connected for key, one in router.queues.by_recipient.items()), node.name


@pytest.mark.parametrize("seed", seeds(2, 30))
def test_on_the_store_of_the_real_router(seed: int, tmp_path: Path) -> None:
    """The same properties hold on LMDB: a crash there loses the uncommitted transaction."""

    def open_store(disk: Disk, limits: StoreLimits, boot: bytes) -> Store:
        path = tmp_path / str(paths.setdefault(id(disk), len(paths)))
        return Store(path, structs.replace(limits, synced=False, map_bytes_initial=1 << 20), boot)

    paths: dict[int, int] = {}
    with World(seed, open_store) as world:
        cores, edges, cables = two_tiers(world)
        readers = readers_of(world, [*cores, *edges])
        writer = world.app(edges[0], "writer")
        ids = []
        for _ in range(5):
            ids += writer.publish(world.group("news"), 15, size=world.time.random.choice((10, 3000)))
            disturb(world, cables, [writer, *readers])
            world.run(world.time.random.random())
        world.run_until_quiet()
        for reader in readers:
            assert reader.first_deliveries() == ids
    for node in world.nodes:
        node.store.close()


SHOW = """
from world.world import World
from world.test_world import two_tiers, readers_of, disturb
with World(5) as world:
    cores, edges, cables = two_tiers(world, uplinks=2)
    readers = readers_of(world, [*cores, *edges])
    for _ in range(3):
        readers[0].publish(world.group("news"), 10)
        disturb(world, cables, readers)
        world.run(1)
    world.run_until_quiet()
    print([(node.name, node.log) for node in world.nodes])
"""


def test_a_seed_is_one_world() -> None:
    """Nothing depends on the order of a set: the same seed makes the same events to the nanosecond."""

    def run(hash_seed: str) -> bytes:
        paths = os.pathsep.join(("tests", "."))
        env = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": paths}
        root = Path(__file__).parents[2]
        return subprocess.run([sys.executable, "-c", SHOW], env=env, cwd=root, capture_output=True, check=True).stdout

    first = run("1")
    assert len(first) > 1000
    assert first == run("2") == run("3")
