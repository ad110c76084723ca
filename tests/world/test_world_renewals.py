"""Nodes get other keys again and again, among crashes and cuts, while their neighbours and apps go on."""

from __future__ import annotations

import pytest

from world.app import Habits
from world.node import Node, Settings
from world.test_world import ALL, readers_of, seeds
from world.world import Cable, World

QUICK, LONG = 3, 60
KEYS_MAX = 4
"""How often a node is renewed: whoever sleeps through more than five is told by hand."""


def trouble(world: World, cables: list[Cable], nodes: list[Node]) -> None:
    """Cut, crash, and give a node that is dead another key."""
    random, chance = world.time.random, world.time.chance
    for cable in cables:
        if chance(0.2):
            world.cut(cable)
        elif chance(0.1):
            world.part(cable)
            world.time.after(2, lambda cable=cable: world.heal(cable))  # type: ignore[misc]
    for node in nodes:
        if not node.alive or not chance(0.3):
            continue
        back_s = random.random() * 2
        world.crash(node, back_s)
        if len(node.chain) < KEYS_MAX and chance(0.7):
            world.time.after(back_s / 2, lambda node=node: node.renew(world.key()))  # type: ignore[misc]


@pytest.mark.parametrize("seed", seeds(QUICK, LONG))
def test_what_is_settled_arrives_once_and_in_order_whoever_gets_another_key(seed: int) -> None:
    with World(seed) as world:
        settings = Settings(claims=True)
        nodes = [world.node(name, settings) for name in ("core", "east", "west")]
        core, *edges = nodes
        cables = [world.link(edge, core, uplink=True, grants=ALL) for edge in edges]
        readers = readers_of(world, nodes, Habits(die=0.02))
        writer, reader = world.app(edges[0], "writer"), readers[-1]
        ids, letters = [], []
        for _ in range(10):
            ids += writer.publish(world.group("news"), 8)
            letters += writer.send(reader.key.public, 3)
            trouble(world, cables, nodes)
            world.run(world.time.random.random() * 1.5)
        world.run_until_quiet()
        assert set(writer.diary.settled) == {*ids, *letters} and not writer.diary.refused
        assert sum(len(node.chain) for node in nodes) > 0
        for one in readers:
            assert [id for id in one.first_deliveries() if id in set(ids)] == ids, f"{one!r} of {len(ids)}"
        assert [id for id in reader.first_deliveries() if id in set(letters)] == letters
