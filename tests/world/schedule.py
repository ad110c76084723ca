"""One schedule of a small world: messages, and every possible fault of a node, from one seed."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from router.core.routing.limits import CoreLimits
from router.core.wire.crypto import SigningKey
from world.app import App, Habits
from world.node import Node, Settings
from world.world import Cable, World

ALL = "join store relay"
STEPS = 12
CLOCK_STEPS_S = (-90_000, -5000, -700, 700, 5000, 90_000, 10_000_000)


def play(seed: int) -> World:
    """Play the schedule to its end and check the books; an `AssertionError` names the seed."""
    with World(seed) as world:
        apps, cables = _cast(world)
        groups = [world.group("news"), world.group("cats")]
        for app in apps:
            app.join(groups[0])
        world.run(0.3)
        for _ in range(STEPS):
            _speak(world, world.time.random.choice(apps), apps, groups)
            _disturb(world, cables, apps)
            world.run(world.time.random.random() * 0.8)
        _mend(world, cables, apps)
        world.run_until_quiet()
        for app in apps:
            assert not set(app.diary.settled) & set(app.diary.refused), app
    return world


def _cast(world: World) -> tuple[list[App], list[Cable]]:
    random = world.time.random
    limits = CoreLimits()
    if world.time.chance(0.3):
        queues = structs.replace(limits.queues, recipient_messages_max=20, node_messages_max=80, share_percent=50)
        limits = structs.replace(limits, queues=queues)
    settings = Settings(
        limits=limits, window_messages=random.choice((2, 16)), window_bytes=random.choice((1000, 9000)),
        in_flight_bytes=random.choice((2000, 1 << 20)),
    )  # fmt: skip
    core, edge = world.node("core", settings), world.node("edge", settings)
    cables = [world.link(edge, core, uplink=True, grants=ALL, both=world.time.chance(0.2))]
    nodes = [core, edge]
    if world.time.chance(0.5):
        other = world.node("other", settings)
        cables.append(world.link(other, core, uplink=True, grants=ALL))
        nodes.append(other)
    habits = Habits(
        settle_s=random.choice((0.001, 0.2)), die=random.choice((0, 0.05)), features=random.choice(((), ("outcome",)))
    )
    apps = [world.app(node, durable=world.time.chance(0.8), habits=replace(habits)) for node in [*nodes, edge]]
    return apps, cables


def _speak(world: World, app: App, apps: list[App], groups: list[SigningKey]) -> None:
    random = world.time.random
    match random.randrange(6):
        case 0:
            app.join(random.choice(groups))
        case 1:
            app.leave(groups[1])
        case 2 | 3 | 4:
            size, ttl_s = random.choice((10, 2000)), random.choice((0, 2, 3600))
            app.publish(random.choice(groups), random.randrange(1, 6), size=size, ttl_s=ttl_s)
        case 5:
            app.send(random.choice(apps).key.public, random.randrange(1, 4), ttl_s=random.choice((0, 3600)))


def _disturb(world: World, cables: list[Cable], apps: list[App]) -> None:
    chance, random = world.time.chance, world.time.random
    for cable in cables:
        if chance(0.15):
            world.cut(cable)
        elif chance(0.05):
            world.part(cable)
            world.time.after(1, lambda cable=cable: world.heal(cable))  # type: ignore[misc]
    for app in apps:
        if chance(0.05):
            app.crash()
    node = random.choice(world.nodes)
    if node.alive:
        _harm(world, node)


def _harm(world: World, node: Node) -> None:
    random = world.time.random
    is_misled = bool(node.clocks.ahead_ns) and not node.cycle.wall.is_doubted
    match random.randrange(9):
        case 0 | 1 if is_misled:
            pass  # a start believes a clock that is up to `ahead_s_max` ahead: the machine may have been off
        case 0:
            world.crash(node, random.random())
        case 1:
            world.stop(node, random.random())
        case 2:
            node.disk_full = not node.disk_full
        case 3:
            node.step_clock(random.choice(CLOCK_STEPS_S))
        case 4:
            node.confirm_clock()
        case 5:
            node.clear_queue(random.choice(world.apps).key.public)


def _mend(world: World, cables: list[Cable], apps: list[App]) -> None:
    """End all faults: clocks are right, disks have room, cables are whole, apps settle."""
    world.run(3)
    for node in world.nodes:
        node.disk_full = False
        node.clocks.ahead_ns = 0
        if node.alive:
            node.confirm_clock()
    for cable in cables:
        if not cable.whole:
            world.heal(cable)
    for app in apps:
        app.habits = replace(app.habits, die=0, settle_s=0.01)
        app.settle_all()
    world.run(2)
