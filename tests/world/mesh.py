"""A mesh: cores that send each other copies by the pub/sub service, while any of them is away for minutes."""

from __future__ import annotations

from pathlib import Path

from world.app import Habits
from world.country import Country
from world.country_schedule import WHOLE_S
from world.node import Node, Settings
from world.sealed_log import write_log
from world.world import World

STEPS = 5
AWAY_S = (5, 40, 100)
"""Seconds for which a core is away: for longer than a copy waits for it, too, which is so at first."""


def play(seed: int, cores: int, logs: Path) -> int:
    """Play a schedule in which no clock is set; write the nodes' logs below `logs`, and return the time of its end."""
    with World(seed) as world:
        group = world.group("news")
        country = Country(world, cores, (), Settings(strangers=True), Habits())
        readers = [country.reader(place, [group], Habits(settle_s=0.01)) for place in country.cores]
        world.run(20)
        _part(world, country, country.cores[0].node, max(AWAY_S))
        for step in range(STEPS):
            for reader in readers:
                if step == 0 or world.time.chance(0.5):
                    country.publish(reader, group, world.time.random.randrange(1, 4))
            world.run(world.time.random.choice((2, 20, 70)) if step else 70)
            _disturb(world, country)
        for place in country.cores:
            place.node.disk_full = False
        country.run_until_whole(WHOLE_S)
        for node in world.nodes:
            write_log(node, logs / node.name)
        return world.time.now().wall_ns


def _disturb(world: World, country: Country) -> None:
    chance, random = world.time.chance, world.time.random
    away_s = random.choice(AWAY_S)
    away = random.choice(country.cores)
    match random.randrange(4):
        case 0:
            world.crash(away.node, away_s)
        case 1:
            away.pubsub.crash(away_s)
        case 2:
            away.node.disk_full = not away.node.disk_full
    if chance(0.7):
        _part(world, country, away.node, away_s)


def _part(world: World, country: Country, away: Node, seconds: float) -> None:
    for cable in country.between:
        if away in (cable.one, cable.other):
            world.part(cable)
            world.time.after(seconds, lambda cable=cable: world.heal(cable))  # type: ignore[misc]
