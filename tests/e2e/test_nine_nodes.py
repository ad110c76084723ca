"""Nine nodes on nine machines: three cores that find each other from one known address, two edges each; three groups,
every app publishing throughout. Nodes are killed, cables are pulled, and the network is split in two. Afterwards each
app has the messages of the others in its groups, once and in causal order, and the nine logs account for everything."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest
import trio
from disk import read_lines
from overlay_nodes import ask_pubsub, core, edge, link_of
from rig import ROUTER, NodeProcess, new_key, rig
from rigs.machines import bridged
from rigs.patience import HANG_S
from talkers import Talker, check, lacking

from router.core.wire.grouplink import GroupLink
from router.rig.machines import Bridge, NamespaceMachine
from router.rig.process import run_command, until

FAMILIES = 3
PAUSE_S = 0.8  # at most, between two messages of an app
AWAY_S = 3.0  # at most, without its process or its cable; a split takes as long


def new_group(name: str) -> GroupLink:
    key = new_key()
    return GroupLink(key.public, new_key().seed, key.seed, name)


ALL, FIRST_TWO, LAST_TWO = (new_group(name) for name in ("all", "first-two", "last-two"))
GROUPS = {  # by node; a core's own app is not in every group of its edges
    "core-1": [ALL], "edge-1a": [ALL, FIRST_TWO], "edge-1b": [ALL],
    "core-2": [ALL, FIRST_TWO], "edge-2a": [ALL, FIRST_TWO], "edge-2b": [ALL, LAST_TWO],
    "core-3": [LAST_TWO], "edge-3a": [ALL], "edge-3b": [ALL, LAST_TWO],
}  # fmt: skip


@dataclass
class Family:
    """A core and its edges, with their machines."""

    core: NodeProcess
    edges: list[NodeProcess]
    machines: list[NamespaceMachine]

    @property
    def nodes(self) -> list[NodeProcess]:
        return [self.core, *self.edges]


class Fault(NamedTuple):
    """A node or machine, by its place, that is away for a while; `before_s`: the pause since the one before."""

    place: int
    before_s: float
    away_s: float


class Faults:
    """All that chance decides in one round; the same for the same seed and number."""

    def __init__(self, seed: int, number: int, kills: int, pulls: int, away_s: float = AWAY_S) -> None:
        self._name = f"{seed} {number}"
        self.away_s = away_s
        self.kills, self.pulls = self._drawn("kills", kills), self._drawn("pulls", pulls)
        self.apart = random.Random(f"{self._name} split").randrange(FAMILIES)

    def _drawn(self, what: str, count: int) -> list[Fault]:
        chance = random.Random(f"{self._name} {what}")
        return [
            Fault(chance.randrange(len(GROUPS)), chance.random() * self.away_s, chance.random() * self.away_s)
            for _ in range(count)
        ]

    def talk_of(self, app: str) -> random.Random:
        return random.Random(f"{self._name} {app}")


@dataclass
class Nine:
    """The network with its apps."""

    bridge: Bridge
    families: list[Family]
    talkers: list[Talker]

    @property
    def nodes(self) -> list[NodeProcess]:
        return [node for family in self.families for node in family.nodes]

    @property
    def machines(self) -> list[NamespaceMachine]:
        return [machine for family in self.families for machine in family.machines]

    # -- what happens ----------------------------------------------------------------------------------------

    async def round(self, faults: Faults) -> None:
        """Publish while faults happen; return when each app has everything and all queues are empty."""
        async with trio.open_nursery() as talking:
            for talker in self.talkers:
                talking.start_soon(self._talk, talker, faults.talk_of(talker.name))
            async with trio.open_nursery() as storm:
                storm.start_soon(self._kill_some, faults.kills)
                storm.start_soon(self._pull_some, faults.pulls)
            await self._split(self.families[faults.apart], faults.away_s)
            talking.cancel_scope.cancel()
        await self.until_all_have_all()

    async def _talk(self, talker: Talker, chance: random.Random) -> None:
        while True:
            talk = chance.choice(list(talker.talks.values()))
            with trio.CancelScope(shield=True):  # what is begun is published
                await talker.publish(talk)
            await trio.sleep(chance.random() * PAUSE_S)

    async def _kill_some(self, faults: Iterable[Fault]) -> None:
        for place, before_s, away_s in faults:
            await trio.sleep(before_s)
            await self.nodes[place].kill()
            await trio.sleep(away_s)
            await self.nodes[place].start()

    async def _pull_some(self, faults: Iterable[Fault]) -> None:
        for place, before_s, away_s in faults:
            await trio.sleep(before_s)
            self.machines[place].pull()
            await trio.sleep(away_s)
            self.machines[place].plug()

    async def _split(self, family: Family, away_s: float) -> None:
        """Part one family, a core with its edges, from the other two."""
        self.bridge.split(family.machines)
        await trio.sleep(away_s)
        self.bridge.heal(family.machines)

    # -- what is waited for -----------------------------------------------------------------------------------

    async def until_joined(self) -> None:
        """Wait until each core knows its edges' groups, and is on whole rings with the cores that share them."""
        for family in self.families:
            for one in family.edges:
                for group in GROUPS[one.name]:
                    await family.core.until_joined(group.group, one.address)

            async def are_found(at: NodeProcess = family.core) -> bool:
                rows = (await ask_pubsub(at, "topics"))["topics"]
                return {group: row["neighbours"] for group, row in rows.items()} == {
                    group.group.hex(): len(self.readers(group)) - 1
                    for group in (ALL, FIRST_TWO, LAST_TWO) if at.name in self.readers(group)
                }  # fmt: skip

            await until(f"{family.core.name} finds the others", are_found)

    def readers(self, group: GroupLink) -> set[str]:
        """Return the cores on which the group is wanted, by their own apps or by an edge."""
        return {
            family.core.name for family in self.families
            if any(group in GROUPS[node.name] for node in family.nodes)
        }  # fmt: skip

    async def until_all_have_all(self) -> None:
        async def have() -> bool:
            return not lacking(self.talkers)

        try:
            await until("each app has what was published in its groups", have)
        except Exception as error:
            error.add_note(f"lacking: {lacking(self.talkers)}")
            raise
        for node in self.nodes:
            await node.until_drained()

    # -- what must hold --------------------------------------------------------------------------------------

    async def stop(self) -> None:
        async with trio.open_nursery() as nursery:
            for node in self.nodes:
                nursery.start_soon(node.stop)

    def check_recipients(self) -> None:
        """Check that no router owed a message to a router on which nobody reads its group."""
        allowed = {
            group.group.hex(): {
                node.address.hex() for family in self.families for node in family.nodes
                if group in GROUPS[node.name] or (node is family.core and node.name in self.readers(group))
            }
            for group in (ALL, FIRST_TWO, LAST_TWO)
        }  # fmt: skip
        routers = {node.address.hex(): node.name for node in self.nodes}
        sent = 0
        for node in self.nodes:
            for line in read_lines(node.home, node.address):
                if line.event == "accepted" and line.group in allowed:
                    others = routers.keys() & set(line.recipients or ())
                    strange = [routers[one] for one in others - allowed[line.group]]
                    assert not strange, f"{node.name} owed a message to {strange}, where nobody reads its group"
                    sent += len(others)
        assert sent, "nothing was sent from router to router, so this shows nothing"

    async def check_audit(self) -> None:
        homes = [str(node.home.path) for node in self.nodes]
        audit = (await run_command((*ROUTER, "audit", *homes, "--json"))).json
        found = {name: audit[name] for name in ("residual", "unaccounted", "accepted_again", "duplicates", "unknown")}
        assert set(found.values()) == {0}, found
        assert audit["copies"] > 0 and sum(row["broken"] for row in audit["custody"]) == 0


@asynccontextmanager
async def nine(base: Path, within_s: float) -> AsyncIterator[Nine]:
    with bridged() as bridge:
        async with rig(base, within_s) as found, trio.open_nursery() as reading, AsyncExitStack() as apps:
            families: list[Family] = []
            seeds: tuple[str, ...] = ()
            for number in range(1, FAMILIES + 1):
                machines = [bridge.machine() for _ in range(3)]
                up = core(found, f"core-{number}", machines[0], seeds=seeds)
                edges = [edge(found, f"edge-{number}{name}", at) for name, at in zip("ab", machines[1:], strict=True)]
                for one in edges:
                    up.serves(one)
                families.append(Family(up, edges, machines))
                seeds = seeds or (await link_of(up),)
            nodes = [node for family in families for node in family.nodes]
            async with trio.open_nursery() as starting:
                for node in nodes:
                    starting.start_soon(node.start)
            talkers = [await apps.enter_async_context(Talker(one, GROUPS[one.name]).running(reading)) for one in nodes]
            network = Nine(bridge, families, talkers)
            await network.until_joined()
            yield network
            reading.cancel_scope.cancel()


async def storm(base: Path, *, rounds: int, kills: int, pulls: int, away_s: float = AWAY_S) -> None:
    """NINE_NODES_SEED repeats an earlier run: the same nodes and cables are away, for as long, with the same pauses.
    NINE_NODES_ROUND repeats one round of it alone, without the history of those before it."""
    seed = int(os.environ.get("NINE_NODES_SEED") or random.SystemRandom().getrandbits(32))
    only = int(os.environ.get("NINE_NODES_ROUND") or 0)
    print(f"NINE_NODES_SEED={seed}", flush=True)
    number = 0
    try:
        async with nine(base, HANG_S * (rounds + 1)) as network:
            for number in [only] if only else range(1, rounds + 1):
                await network.round(Faults(seed, number, kills, pulls, away_s))
                check(network.talkers)
                print(f"round {number} of {rounds}: each app has everything, once and in causal order", flush=True)
            await network.stop()
            network.check_recipients()
            await network.check_audit()
    except BaseException as error:
        error.add_note(f"NINE_NODES_SEED={seed} NINE_NODES_ROUND={number}")
        raise


async def test_nine_nodes_through_kills_pulled_cables_and_a_split(tmp_path: Path) -> None:
    await storm(tmp_path, rounds=1, kills=2, pulls=1, away_s=1.0)


@pytest.mark.long
async def test_twenty_rounds_of_a_minute(tmp_path: Path) -> None:
    await storm(tmp_path, rounds=20, kills=19, pulls=19)
