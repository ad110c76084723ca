"""Cores that meet through one: a message published at each arrives once at each, in at most three copies, also a
large one; the audit and `router why` tell copies apart (R-C29, R-C33, R-C34)."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio
from rig import QUICK, ROUTER, NodeProcess, Rig, new_key, rig
from rigs.patience import HANG_S
from rigs.ports import free_port

from router import SigningKey, connect
from router.rig.process import run_command, until
from router.settings.config_services import NewHomeService
from router.settings.home import Home

MESSAGES = 6
LARGE_BYTES = 20_000
DISCOVERY = {"sampling": True, "period_s": 0.5}
PUBSUB = {"mode": "overlay", "period_s": 0.5}


@dataclass
class Core:
    """A core with an app that reads the group."""

    node: NodeProcess
    got: Counter[bytes] = field(default_factory=Counter)

    async def read(self, group: SigningKey, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with connect(home=self.node.home, key=new_key(), when_down="queue") as app:
            messages = await app.join(group.public, timeout_s=HANG_S)
            task_status.started()
            async for message in messages:
                self.got[bytes(message.id)] += 1

    async def publish(self, group: SigningKey, bodies: list[bytes]) -> list[bytes]:
        async with connect(home=self.node.home) as app:
            return [bytes(await app.group(group).publish(body)) for body in bodies]

    async def ask(self, word: str) -> Any:
        """Ask the pub/sub service."""
        async with connect(home=self.node.home) as app:
            return json.loads(await app.ask("service", f"pubsub {word}", timeout_s=HANG_S))


def core(found: Rig, number: int, *seeds: str) -> Core:
    """Return a core that is not started yet and knows the nodes behind these links."""
    residents = {"discovery": NewHomeService({**DISCOVERY, "seeds": seeds}), "pubsub": NewHomeService(PUBSUB)}
    Home(found.base / f"core{number}").create("core", (f"tls://127.0.0.1:{free_port()}",), residents)
    return Core(found.node(f"core{number}", "core", QUICK, listens=False))


async def until_all_are_neighbours(cores: list[Core]) -> None:
    async def are() -> bool:
        shown = [row for one in cores for row in (await one.ask("topics"))["topics"].values()]
        return [row["neighbours"] for row in shown] == [len(cores) - 1] * len(cores)

    await until("the meeting of all cores", are)


async def until_all_have(cores: list[Core], ids: list[bytes]) -> None:
    async def have() -> bool:
        return all(set(ids) <= set(one.got) for one in cores)

    await until(f"the arrival of {len(ids)} messages at {len(cores)} cores", have)


async def until_at_rest(cores: list[Core]) -> Counter[str]:
    """Return the sum of all figures, once no copy is in transit."""
    sums: Counter[str] = Counter()

    async def rest() -> bool:
        sums.clear()
        for one in cores:
            sums.update(await one.ask("forwarding"))
        return not sums["under_way"] and not sums["not_taken"]

    await until("the end of all copies", rest)
    return sums


@pytest.mark.parametrize("count", [3, pytest.param(5, marks=pytest.mark.long)])
async def test_what_is_published_at_each_core_arrives_once_at_each(count: int, tmp_path: Path) -> None:
    """Of three cores each sends a message to two at most: five tell whether there are more than three copies."""
    group = new_key()
    async with rig(tmp_path) as found, trio.open_nursery() as nursery:
        cores = [core(found, 0)]
        first = cores[0].node
        await first.start()
        link = (await first.run("id", "--link")).stdout.strip()
        cores += [core(found, number, link) for number in range(1, count)]
        for one in cores:
            if one.node is not first:
                await one.node.start()
            await nursery.start(one.read, group)
        await until_all_are_neighbours(cores)
        before = await until_at_rest(cores)
        sent = [id for one in cores for id in await one.publish(group, [b"%d" % n for n in range(MESSAGES)])]
        await until_all_have(cores, sent)
        after = await until_at_rest(cores)
        large = [id for one in cores for id in await one.publish(group, [bytes(LARGE_BYTES)])]
        await until_all_have(cores, large)
        with_large = await until_at_rest(cores)
        why = json.loads(
            (await run_command((*ROUTER, "--home", str(first.home.path), "why", sent[0].hex(), "--json"))).stdout
        )
        homes = [str(one.node.home.path) for one in cores]
        audit = (await run_command((*ROUTER, "audit", *homes, "--json"))).json
        await cores[1].node.kill()
        left = [one for one in cores if one is not cores[1]]
        await until_all_have(left, await cores[0].publish(group, [b"one of us is gone"]))
        nursery.cancel_scope.cancel()
    for one in cores:
        assert set(one.got.values()) == {1} and set(sent + large) <= set(one.got)
    copies = (after - before)["copies"] / len(sent) / count
    of_large = (with_large - after)["copies"] / len(large) / count
    print(f"copies sent a message and node: {copies:.2f}; of large messages: {of_large:.2f}")
    assert copies <= min(3.0, count - 1)
    assert of_large <= min(2.1, count - 1)
    check(why, audit)


async def test_what_a_core_publishes_alone_goes_to_its_first_neighbour_also_after_a_kill(tmp_path: Path) -> None:
    group = new_key()
    async with rig(tmp_path) as found, trio.open_nursery() as nursery:
        alone = core(found, 0)
        await alone.node.start()
        await nursery.start(alone.read, group)
        await until_wanted(alone)
        sent = await alone.publish(group, [b"%d" % n for n in range(3)])
        await until_waiting(alone, len(sent))
        await alone.node.kill()
        await alone.node.start()
        await until_waiting(alone, len(sent))
        other = core(found, 1, (await alone.node.run("id", "--link")).stdout.strip())
        await other.node.start()
        await nursery.start(other.read, group)
        await until_all_have([alone, other], sent)
        copies = (await until_at_rest([alone, other]))["copies"]  # one that comes before both have met is sent again
        assert copies >= len(sent) and set(other.got.values()) == {1}
        nursery.cancel_scope.cancel()


async def until_wanted(one: Core) -> None:
    async def is_so() -> bool:
        return bool((await one.ask("topics"))["topics"])

    await until("the group's becoming a topic", is_so)


async def until_waiting(one: Core, count: int) -> None:
    async def is_so() -> bool:
        return bool((await one.ask("forwarding")).get("not_taken") == count)

    await until(f"{count} messages that no neighbour has", is_so)


def check(why: dict[str, Any], audit: dict[str, Any]) -> None:
    """Check the copies of one message at its publisher, and those of all messages at all cores."""
    copies = [one for one in why["recipients"] if one.get("copy")]
    assert why["kind"] == "multicast" and copies and {one["state"] for one in copies} == {"acked"}
    assert audit["residual"] == audit["unaccounted"] == audit["duplicates"] == audit["accepted_again"] == 0
    assert audit["copies"] > 0 and sum(row["broken"] for row in audit["custody"]) == 0
