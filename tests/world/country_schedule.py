"""One schedule of a country: cores, edges and subscribers, and every possible fault, from one seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from router.core.wire.crypto import SigningKey
from world.app import Habits
from world.country import Country, Place
from world.node import Settings
from world.world import World

STEPS = 12
CLOCK_STEPS_S = (-5000, -700, 700, 5000)
WHOLE_S = 3600.0
"""Seconds in which a country becomes whole: a comparison, every five minutes with a random neighbour, finds messages
that forwarding and repair have missed."""


def play(seed: int, done: Callable[[World], None] = lambda world: None) -> float:
    """Play the schedule to its end and check the books; return the seconds from the last fault until the country was
    whole.

    `done` is called with the world at its end."""
    with World(seed) as world:
        groups = [world.group("news"), world.group("cats")]
        country = _cast(world, groups)
        world.run(world.time.random.choice((2, 8)))
        for _ in range(STEPS):
            _speak(country, groups, world.time.random)
            _disturb(world, country)
            world.run(world.time.random.choice((0.3, 2, 12)))
        _mend(world, country)
        passed = country.run_until_whole(WHOLE_S)
        country.check()
        done(world)
    return passed


def _cast(world: World, groups: list[SigningKey]) -> Country:
    """Make two to four cores and up to two edges; all readers read "news", and some of them "cats"."""
    random, chance = world.time.random, world.time.chance
    settings = Settings(
        strangers=True, window_messages=random.choice((4, 16)), window_bytes=random.choice((4000, 16000))
    )
    cores = random.randrange(2, 5)
    edges = [random.randrange(cores) for _ in range(random.randrange(3))]
    country = Country(world, cores, edges, settings, Habits(die=random.choice((0, 0.01))))
    for place in country.places:
        if place.behind is not None or chance(0.8):
            habits = Habits(settle_s=random.choice((0.001, 0.2)), die=random.choice((0, 0.03)))
            country.reader(place, groups if chance(0.4) else groups[:1], habits)
    country.reader(random.choice(country.places), (), stays=False)
    return country


def _speak(country: Country, groups: list[SigningKey], random: Random) -> None:
    app = random.choice([*country.readers])
    if app in country.stayers:
        group = random.choice(groups[: len(app.diary.wanted)])
        country.publish(app, group, random.randrange(1, 6), random.choice((10, 10, 2000)))
    elif app.diary.wanted:
        app.leave(random.choice([*app.diary.wanted]))
    else:
        country.join(app, random.choice(groups))


def _disturb(world: World, country: Country) -> None:
    """Cut and part cables, split the cores in two, kill apps, and harm one node."""
    chance, random = world.time.chance, world.time.random
    for cable in (*country.between, *country.up):
        if chance(0.1):
            world.cut(cable)
        elif chance(0.08):
            world.part(cable)
            world.time.after(random.choice((2, 40)), lambda cable=cable: world.heal(cable))  # type: ignore[misc]
    if chance(0.1):
        _split(world, country, random.choice((5, 60)))
    for app in country.readers:
        if chance(0.05):
            app.crash()
    _harm(world, random.choice(country.places))


def _split(world: World, country: Country, seconds: float) -> None:
    """Part some cores from the others for a while."""
    side = {place.node for place in country.cores if world.time.chance(0.5)}
    for cable in country.between:
        if (cable.one in side) != (cable.other in side):
            world.part(cable)
            world.time.after(seconds, lambda cable=cable: world.heal(cable))  # type: ignore[misc]


def _harm(world: World, place: Place) -> None:
    node, random = place.node, world.time.random
    if not node.alive:
        return
    match random.randrange(10):
        case 0 | 1:  # with the service that runs in its process, or without the one that runs apart
            back_s = random.choice((0.3, 5, 45))
            world.crash(node, back_s)
            if world.time.chance(0.7):
                place.pubsub.crash(back_s)
        case 2:
            place.pubsub.crash(random.choice((0.5, 20)))
        case 3:
            node.disk_full = not node.disk_full
        case 4:
            node.step_clock(random.choice(CLOCK_STEPS_S))
        case 5:
            node.confirm_clock()
        case 6 if place.behind is not None and place.behind.node.alive:
            place.behind.node.clear_queue(node.address)


def _mend(world: World, country: Country) -> None:
    """End all faults: clocks are right, disks have room, cables are whole, nothing dies."""
    world.run(60)
    for place in country.places:
        place.node.disk_full = False
        place.node.clocks.ahead_ns = 0
        place.node.confirm_clock()
        place.pubsub.habits = replace(place.pubsub.habits, die=0)
    for app in country.readers:
        app.habits = replace(app.habits, die=0, settle_s=0.01)
