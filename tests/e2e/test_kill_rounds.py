"""Rounds of `kill -9` at random moments during traffic over edge A, core and edge B: nothing acknowledged is lost,
doubled or out of order, and on every disk the store and the event log agree."""

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
from rig import NodeProcess, Tiers, new_key, three_tiers
from rigs.patience import HANG_S

from router.core.wire.crypto import PublicKey
from router.rig.process import Process, until

MESSAGES = 80
MOMENT_S = 0.15  # about the duration of a round's traffic
LITTLE_SEGMENTS = {"log.segment_bytes": 64 * 1024, "log.segment_s": 1}


class Rounds:
    """A publisher behind edge A, two apps that keep messages, at the core and behind edge B, and kills of all of
    them."""

    def __init__(self, tiers: Tiers, chance: random.Random) -> None:
        self.tiers = tiers
        self.chance = chance
        self.group = new_key()
        self.publisher, self.published_in, _ = self._app("publish", tiers.edge_a)
        self.at_core, self.kept_at_core, self.key_at_core = self._app("keep", tiers.core)
        self.at_edge, self.kept_at_edge, self.key_at_edge = self._app("keep", tiers.edge_b)
        self.published = 0

    def _app(self, role: str, node: NodeProcess) -> tuple[Process, Path, PublicKey]:
        name, key = f"{role}-at-{node.name}", new_key()
        database = self.tiers.rig.base / f"{name}.db"
        told = App(str(node.home.path), key.seed.hex(), self.group.seed.hex(), str(database))
        return self.tiers.rig.process(name, *told.command(role)), database, key.public

    @property
    def nodes(self) -> tuple[NodeProcess, ...]:
        return self.tiers[1:]

    async def begin(self) -> None:
        tiers, group = self.tiers, self.group.public
        for one in (self.publisher, self.at_core, self.at_edge):
            await one.start()
        await tiers.edge_b.until_joined(group, self.key_at_edge)
        await tiers.core.until_joined(group, tiers.edge_b.address)
        await tiers.core.until_joined(group, self.key_at_core)

    async def round(self) -> None:
        self.published += MESSAGES
        await self.publisher.tell(str(self.published))
        victims: list[Process] = [*self.nodes, self.publisher, self.at_core, self.at_edge]
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
        """Kill it at a random moment, and perhaps again while it starts; leave it dead for a moment."""
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
        """Check that the disk is whole, and holds every acknowledged message."""
        disk = self._read(node)
        if node is self.tiers.edge_a:
            assert set(apps.ids(self.published_in, "published WHERE acknowledged")) <= set(disk.accepted)

    def _read(self, node: NodeProcess) -> Disk:
        return read_disk(node.home, node.address, self.tiers.rig.base / "scratch")

    async def _drain(self) -> None:
        async def is_acknowledged() -> bool:
            return apps.count(self.published_in, "published WHERE acknowledged") == self.published

        async def has_effects() -> bool:
            kept = (apps.count(place, "effects") for place in (self.kept_at_core, self.kept_at_edge))
            return all(count >= self.published for count in kept)

        await until("everything is acknowledged", is_acknowledged)
        await until("everything has had its effect", has_effects)
        for node in self.nodes:
            await node.until_drained()

    # -- what must hold ------------------------------------------------------------------------------------

    async def _compare_disks(self) -> None:
        """Compare the three disks at one moment, with nothing in transit."""
        for node in self.nodes:
            await node.freeze()
        at_a, at_core, at_b = (self._read(node) for node in self.nodes)
        for node in self.nodes:
            node.thaw()
        ids = apps.ids(self.published_in, "published ORDER BY n")
        assert len(ids) == self.published
        for disk in (at_a, at_core, at_b):
            assert disk.accepted == ids, "not accepted once, in the order of publishing"
            assert not disk.pending
        assert at_a.ended("acked", self.tiers.core.address) == set(ids)
        assert at_core.ended("acked", self.tiers.edge_b.address) == set(ids)
        assert at_core.ended("delivered", self.key_at_core) == set(ids)
        assert at_b.ended("delivered", self.key_at_edge) == set(ids)

    def _compare_effects(self) -> None:
        """Check that each acknowledged message took effect once, in order, and that repetitions were marked."""
        assert apps.count(self.published_in, "refused") == 0
        ids = apps.ids(self.published_in, "published ORDER BY n")
        for place in (self.kept_at_core, self.kept_at_edge):
            assert apps.ids(place, "effects ORDER BY at") == ids
            assert apps.ids(place, "repeats WHERE NOT redelivered") == []


@asynccontextmanager
async def killing(base: Path, seed: int, rounds: int) -> AsyncIterator[Rounds]:
    async with three_tiers(base, LITTLE_SEGMENTS, verifiers=1, within_s=HANG_S * rounds) as tiers:
        found = Rounds(tiers, random.Random(seed))
        await found.begin()
        yield found


@pytest.mark.parametrize("count", [2, pytest.param(100, marks=pytest.mark.long)])
async def test_rounds_of_kill_9(count: int, tmp_path: Path) -> None:
    """KILL_ROUNDS_SEED repeats the choices of an earlier run; the moments depend on the machine."""
    seed = int(os.environ.get("KILL_ROUNDS_SEED") or random.SystemRandom().getrandbits(32))
    async with killing(tmp_path, seed, count) as rounds:
        for number in range(1, count + 1):
            try:
                await rounds.round()
            except BaseException as error:
                error.add_note(f"in round {number} of {count}, KILL_ROUNDS_SEED={seed}")
                raise
