"""Cores that share hundreds or thousands of groups, of which one drops what it takes and others are killed while
messages go through: every message reaches every honest reader, once.

`MANY_CORES` and `MANY_GROUPS` choose other numbers, `MANY_SEED` repeats the choices of an earlier run, and
`MANY_DROPPER=0` lets nobody drop, which is found out after a quarter of an hour at the earliest. What is reached is
printed (`-s`), with the seconds and the CPU seconds until then, so that also a run that was ended says something.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
from overlay_nodes import ask_pubsub, core, link_of
from rig import ROUTER, NodeProcess, new_key, rig
from rigs.patience import HANG_S
from test_silent_dropper import barred, drops

from router import SigningKey, connect
from router.rig.process import pause, run_command

CORES = int(os.environ.get("MANY_CORES") or 5)
GROUPS = int(os.environ.get("MANY_GROUPS") or 500)
DROPS = os.environ.get("MANY_DROPPER") != "0"
SEED = int(os.environ.get("MANY_SEED") or random.SystemRandom().getrandbits(32))
AT_ONCE = 64
"""JOINs of an app that wait for an answer at a moment."""
APP_GROUPS = 1000
"""The most groups that one app may join at a node, unless its operator allows more."""
ROUND_MESSAGES = 40
KILLS = 4
WITHIN_S = 5_400.0
PERIOD_S = 10.0
"""The time between two questions about rings, which is the default."""
PACE_S = 4.0
"""Seconds between two messages while the dropper is to be found: copies are judged when they are two to ten minutes
old."""


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process until now, without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Reader:
    """Apps that read all groups at one core, outside of it, over its kills. `got`: how often each message came."""

    def __init__(self, node: NodeProcess, groups: list[SigningKey]) -> None:
        self.node, self.groups = node, groups
        self.got = Counter[bytes]()

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        async with trio.open_nursery() as nursery:
            for at in range(0, len(self.groups), APP_GROUPS):
                await nursery.start(self._read, self.groups[at : at + APP_GROUPS])
            task_status.started()

    async def _read(self, groups: list[SigningKey], task_status: trio.TaskStatus[None]) -> None:
        app = connect(home=self.node.home, key=new_key(), when_down="queue")
        async with app, trio.open_nursery() as nursery:
            at_once = trio.CapacityLimiter(AT_ONCE)

            async def join(group: SigningKey) -> None:
                async with at_once:
                    await app.join(group.public, timeout_s=HANG_S)

            async def join_all() -> None:
                async with trio.open_nursery() as joining:
                    for group in groups:
                        joining.start_soon(join, group)
                task_status.started()

            nursery.start_soon(join_all)
            async for message in app.messages():
                self.got[bytes(message.id)] += 1


class Fleet:
    """The cores, the readers at each, and the ledger of what was published. `dropper`: the one that drops, if any."""

    def __init__(self, nodes: list[NodeProcess], dropper: NodeProcess | None, groups: list[SigningKey]) -> None:
        self.chance = random.Random(SEED)
        self.dropper, self.groups = dropper, groups
        self.nodes, self.honest = nodes, [one for one in nodes if one is not dropper]
        self.readers = {one.name: Reader(one, groups) for one in nodes}
        self.sent: list[bytes] = []
        self._began_s = trio.current_time()

    def print_reached(self, what: str) -> None:
        """Print what is reached, with the CPU seconds of the cores, each since its last start, and of this process."""
        cpu = " ".join(f"{cpu_s(one.pid):.1f}" for one in self.nodes)
        passed_s = trio.current_time() - self._began_s
        print(f"{passed_s:.0f} s: {what}; CPU of the cores {cpu}, here {time.process_time():.1f}", flush=True)

    async def publish(self, count: int, groups: Sequence[SigningKey]) -> None:
        """Publish messages, each in a random one of these groups at a random honest core."""
        for _ in range(count):
            node = self.chance.choice(self.honest)
            async with connect(home=node.home, when_down="queue") as app:
                said = await app.group(self.chance.choice(groups)).publish(b"%d" % len(self.sent))
                self.sent.append(bytes(said))

    async def kill_one(self) -> None:
        """Kill an honest core in the midst of a round, and start it again."""
        victim = self.chance.choice(self.honest[1:])
        await trio.sleep(self.chance.random())
        await victim.kill()
        await trio.sleep(self.chance.random())
        await victim.start()

    async def round(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.publish, ROUND_MESSAGES, self.groups)
            nursery.start_soon(self.kill_one)

    async def until_met(self) -> None:
        """Wait until each core has all others as neighbours in every group."""
        began = trio.current_time()
        while not await self._have_met():
            await pause(began)

    async def _have_met(self) -> bool:
        answers = [await ask_pubsub(one, "peers") for one in self.nodes]
        rows = [[row["neighbour"] for row in answer["peers"]] for answer in answers]
        return all(len(row) == len(self.nodes) - 1 and min(row) == len(self.groups) for row in rows)

    async def until_all_have_it(self) -> None:
        sent = set(self.sent)
        began = trio.current_time()
        while any(sent - self.readers[one.name].got.keys() for one in self.honest):
            await pause(began)

    async def until_dropper_is_barred(self) -> None:
        """Go on in one group: a router that holds nothing is judged by messages of the last half minute as well."""
        while not any(await barred(self.honest)):
            await self.publish(1, self.groups[:1])
            await trio.sleep(PACE_S)


@pytest.mark.long  # Minutes of several processes; the decisions stand in test_summing, test_overlay, test_withholding.
async def test_cores_with_many_groups_lose_nothing_by_kills_and_a_dropper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "place"
    monkeypatch.setenv("PYTHONPATH", str(place), prepend=os.pathsep)
    print(f"{CORES} cores, {GROUPS} groups, MANY_SEED={SEED}")
    async with rig(tmp_path, WITHIN_S) as found, trio.open_nursery() as nursery:
        first = core(found, "core0", period_s=PERIOD_S)
        await first.start()
        link = await link_of(first)
        others = (core(found, f"core{number}", seeds=(link,), period_s=PERIOD_S) for number in range(1, CORES))
        nodes = [first, *others]
        if DROPS:
            drops(nodes[2], place)
        fleet = Fleet(nodes, nodes[2] if DROPS else None, [new_key() for _ in range(GROUPS)])
        for one in nodes:
            if one is not first:
                await one.start()
            await nursery.start(fleet.readers[one.name].run)
        fleet.print_reached("all have joined")
        await fleet.until_met()
        fleet.print_reached("all have met in all groups")
        for number in range(1, 1 + KILLS):
            await fleet.round()
            fleet.print_reached(f"{len(fleet.sent)} messages are published, and cores were killed {number} times")
        if DROPS:
            await fleet.until_dropper_is_barred()
            fleet.print_reached("the dropper is barred")
        await fleet.until_all_have_it()
        fleet.print_reached("every honest reader has every message")
        for one in fleet.honest:
            assert set(fleet.readers[one.name].got.values()) == {1}, "each message once"
        nursery.cancel_scope.cancel()
    homes = [str(one.home.path) for one in nodes]
    audit: dict[str, Any] = (await run_command((*ROUTER, "audit", *homes, "--json"))).json
    assert audit["unaccounted"] == audit["residual"] == 0, json.dumps(audit["findings"])
    assert {row["peer"] for row in audit["barred"]} == ({fleet.dropper.address.hex()} if fleet.dropper else set())
    told = [one["text"] for one in audit["findings"] if one["level"] in ("bad", "warning")]
    assert bool(told) is DROPS and all("passes none on" in one for one in told), told
