"""Rounds of `kill -9` at random moments during traffic over edge A, core and edge B: nothing acknowledged is lost,
nothing is doubled, nothing overtakes, and on every disk the store and the event log agree."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import apps
import pytest
import trio
from apps import App
from disk import Disk, read_disk
from rig import NodeProcess, Process, Rig, new_key, three_tiers, until

MESSAGES = 80
ROUND_S = 15.0  # at most, on a busy machine; most take one
MOMENT_S = 0.15  # a round's traffic takes about so long
LITTLE_SEGMENTS = {"log__segment_bytes": 64 * 1024, "log__segment_s": 1}


class Rounds:
    """A publisher behind edge A, subscribers behind edge B and at the core, and whoever kills them."""

    def __init__(self, rig: Rig, edge_a: NodeProcess, core: NodeProcess, edge_b: NodeProcess, chance: random.Random):
        self.chance = chance
        self.nodes = (edge_a, core, edge_b)
        self.group = new_key()
        self.keys = [new_key() for _ in range(3)]
        homes = (edge_a, core, edge_b)
        told = [
            App(str(node.home.path), key.seed.hex(), self.group.seed.hex(), str(rig.base / f"app-at-{node.name}.db"))
            for node, key in zip(homes, self.keys, strict=True)
        ]
        self.databases = [Path(one.database) for one in told]
        self.publisher = rig.process("publisher", *told[0].command("publish"))
        self.keepers = [
            rig.process("keeper-at-core", *told[1].command("keep")),
            rig.process("keeper-at-edge-b", *told[2].command("keep")),
        ]
        self.scratch = rig.base / "scratch"
        self.published = 0

    async def begin(self) -> None:
        edge_a, core, edge_b = self.nodes
        for one in (self.publisher, *self.keepers):
            await one.start()
        await edge_b.until_joined(self.group.public, self.keys[2].public)
        await core.until_joined(self.group.public, edge_b.address)
        await core.until_joined(self.group.public, self.keys[1].public)

    async def round(self) -> None:
        self.published += MESSAGES
        await self.publisher.tell(str(self.published))
        victims: list[Process] = [*self.nodes, self.publisher, *self.keepers]
        chosen = self.chance.sample(victims, self.chance.choice((1, 1, 2, 2, 3)))
        async with trio.open_nursery() as nursery:
            for victim in chosen:
                nursery.start_soon(self._kill, victim, self._moments(self.chance.choice((1, 1, 1, 2))))
        await self._drain()
        await self._compare_disks()
        self._compare_effects()

    def _moments(self, kills: int) -> list[float]:
        return [self.chance.random() * MOMENT_S for _ in range(2 * kills)]

    async def _kill(self, victim: Process, moments: list[float]) -> None:
        """At a random moment, and perhaps again while it starts; it stays away for a moment."""
        while moments:
            await trio.sleep(moments.pop())
            await victim.kill()
            if isinstance(victim, NodeProcess):
                self._check_what_is_left(victim)
            await trio.sleep(moments.pop())
            await victim.launch()
        await victim.ready()
        if victim is self.publisher:
            await victim.tell(str(self.published))

    def _check_what_is_left(self, node: NodeProcess) -> None:
        """The disk is whole, and holds whatever was acknowledged."""
        disk = self._read(node)
        if node is self.nodes[0]:
            acknowledged = apps.read(self.databases[0], "SELECT id FROM published WHERE acknowledged")
            assert {identity for (identity,) in acknowledged} <= set(disk.accepted)

    def _read(self, node: NodeProcess) -> Disk:
        return read_disk(node.home, node.address, self.scratch)

    async def _drain(self) -> None:
        async def is_acknowledged() -> bool:
            return self._count(0, "published WHERE acknowledged") == self.published

        async def has_effects() -> bool:
            return all(self._count(at, "effects") >= self.published for at in (1, 2))

        await until("everything is acknowledged", is_acknowledged)
        await until("everything has had its effect", has_effects)
        for node in self.nodes:
            await node.until_drained()

    def _count(self, at: int, what: str) -> int:
        return apps.read(self.databases[at], f"SELECT count(*) FROM {what}")[0][0]

    # -- what must hold ------------------------------------------------------------------------------------

    async def _compare_disks(self) -> None:
        """The three disks as they are at one moment, with nothing under way."""
        for node in self.nodes:
            await node.freeze()
        disk_a, disk_core, disk_b = (self._read(node) for node in self.nodes)
        for node in self.nodes:
            node.thaw()
        ids = [identity for (identity,) in apps.read(self.databases[0], "SELECT id FROM published ORDER BY n")]
        assert len(ids) == self.published
        edge_a, core, edge_b = self.nodes
        for disk in (disk_a, disk_core, disk_b):
            assert disk.accepted == ids, "not accepted once, in the order of publishing"
            assert not disk.pending
        assert disk_a.ended("acked", core.address) == set(ids)
        assert disk_core.ended("acked", edge_b.address) == set(ids)
        assert disk_core.ended("delivered", self.keys[1].public) == set(ids)
        assert disk_b.ended("delivered", self.keys[2].public) == set(ids)

    def _compare_effects(self) -> None:
        assert apps.read(self.databases[0], "SELECT * FROM refused") == []
        ids = apps.read(self.databases[0], "SELECT n, id FROM published ORDER BY n")
        for at in (1, 2):
            assert apps.read(self.databases[at], "SELECT n, id FROM effects ORDER BY at") == ids
            assert apps.read(self.databases[at], "SELECT id FROM repeats WHERE NOT redelivered") == []


@asynccontextmanager
async def killing(base: Path, seed: int, rounds: int) -> AsyncIterator[Rounds]:
    async with three_tiers(base, verifiers=1, within_s=ROUND_S * rounds, **LITTLE_SEGMENTS) as (rig, *nodes):
        found = Rounds(rig, *nodes, random.Random(seed))
        await found.begin()
        yield found


@pytest.mark.parametrize("count", [20, pytest.param(100, marks=pytest.mark.long)])
async def test_rounds_of_kill_9(count: int, tmp_path: Path) -> None:
    """KILL_ROUNDS_SEED repeats the choices of an earlier run; the moments are the machine's own."""
    seed = int(os.environ.get("KILL_ROUNDS_SEED") or random.SystemRandom().getrandbits(32))
    async with killing(tmp_path, seed, count) as rounds:
        for number in range(1, count + 1):
            try:
                await rounds.round()
            except BaseException as error:
                error.add_note(f"in round {number} of {count}, KILL_ROUNDS_SEED={seed}")
                raise
