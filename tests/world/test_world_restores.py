"""Nodes lose their disks and are restored from older snapshots, again and again, among crashes and cuts."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from router.core.log.events import Accepted, Logged, span
from world import ledger
from world.app import Habits
from world.node import Node, Saved
from world.test_world import ALL, readers_of, seeds
from world.world import Cable, World

QUICK, LONG = 2, 60


class Restores:
    """Saves and restores `node` by chance. `excused`: the ids that it accepted after a snapshot that it was restored
    from, which nobody but the lost disk may have had."""

    def __init__(self, world: World, node: Node) -> None:
        self._world, self.node = world, node
        self._saved: Saved | None = None
        self.excused: set[bytes] = set()
        self.done = 0

    def by_chance(self) -> None:
        chance, node = self._world.time.chance, self.node
        if self._saved is None or chance(0.3):
            self._saved = node.save()
        elif node.alive and chance(0.4):
            node.crash()
            lost = len(node.log_lost)
            node.restore(self._saved)
            self.excused |= ledger.accepted(node.log_lost[lost:])
            self._world.time.after(self._world.time.random.random() * 2, node.start)
            self.done += 1


def trouble(world: World, cables: Iterable[Cable], nodes: Iterable[Node]) -> None:
    random, chance = world.time.random, world.time.chance
    for cable in cables:
        if chance(0.2):
            world.cut(cable)
    for node in nodes:
        if node.alive and chance(0.15):
            world.crash(node, random.random() * 2)


def numbers(log: Iterable[Logged]) -> tuple[list[int], list[int]]:
    """Return all event numbers and all arrival numbers of a log, in its order."""
    events, arrivals = list[int](), list[int]()
    for first, _, batch in log:
        events += range(first, first + sum(map(span, batch)))
        arrivals += [one for event in batch if isinstance(event, Accepted) for one in _arrivals(event)]
    return events, arrivals


def _arrivals(event: Accepted) -> Iterable[int]:
    return range(event.first, event.first + span(event))


@pytest.mark.parametrize("name", ["core", "west"])
@pytest.mark.parametrize("seed", seeds(QUICK, LONG))
def test_a_restored_node_loses_only_what_it_accepted_since_its_snapshot_and_doubles_nothing(
    seed: int, name: str
) -> None:
    """The core passes on all that the edge west reads."""
    with World(seed) as world:
        core, *edges = nodes = [world.node(name) for name in ("core", "east", "west")]
        cables = [world.link(edge, core, uplink=True, grants=ALL) for edge in edges]
        readers = readers_of(world, edges, Habits(die=0.02, settle_s=0.3))
        writer, reader = world.app(edges[0], "writer"), readers[-1]
        restores = Restores(world, next(node for node in nodes if node.name == name))
        ids, letters = list[bytes](), list[bytes]()
        for _ in range(12):
            ids += writer.publish(world.group("news"), 30)
            letters += writer.send(reader.key.public, 3)
            trouble(world, cables, nodes)
            restores.by_chance()
            world.run(world.time.random.random() * 1.5)
        world.run_until_quiet()
        assert set(writer.diary.settled) == {*ids, *letters} and not writer.diary.refused
        for sent in (ids, letters):
            owed = [id for id in sent if id not in restores.excused]
            assert [id for id in reader.first_deliveries() if id in set(owed)] == owed
        for used in zip(numbers(restores.node.log), numbers(restores.node.log_lost), strict=True):
            assert len({*used[0], *used[1]}) == len(used[0]) + len(used[1]), "a number was used in two lives"
