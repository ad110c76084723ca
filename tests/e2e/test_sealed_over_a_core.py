"""Two apps behind two edges speak over a core: a recorder with all that the core has finds no byte of any body."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path

import pytest
import trio
from rig import NodeProcess, three_tiers
from rigs.patience import HANG_S

from router import Node, connect
from router.client.received import Received

MARK = b"a mark that nobody on the way may read "
ROUNDS = 3
EACH = 8


def app(node: NodeProcess, name: str) -> Node:
    return connect(home=node.home, as_name=name, journal=node.home.path / f"{name}.journal")


async def introduce(core: NodeProcess, *apps: tuple[NodeProcess, str]) -> None:
    """Let the core learn where each app is, which it does from what comes from there."""
    async with connect(home=core.home, as_name="porter") as porter:
        messages = porter.unicasts()
        for node, name in apps:
            async with app(node, name) as one:
                await one.send(porter.key, b"here I am", plain=True)
                await (await anext(messages)).settle()


def held_by(node: NodeProcess) -> list[bytes]:
    """Return what a frozen node has on its disk and, for root, in its memory, which nodes show to nobody else."""
    files = [path.read_bytes() for path in node.home.path.rglob("*") if path.is_file()]
    if os.geteuid():
        return files
    maps = Path(f"/proc/{node.pid}/maps").read_text()
    memory = []
    with Path(f"/proc/{node.pid}/mem").open("rb", 0) as read:
        for start, end, rights, path in re.findall(r"^(\w+)-(\w+) (\S+) \S+ \S+ \S+ *(.*)$", maps, re.MULTILINE):
            if rights.startswith("rw") and not path.startswith(("[v", "/dev")):
                read.seek(int(start, 16))
                memory.append(read.read(int(end, 16) - int(start, 16)))
    return files + memory


async def restart(node: NodeProcess, one_at_a_time: trio.Lock) -> None:
    async with one_at_a_time:
        await node.kill()
        await node.start()


async def read_all(node: Node, count: int, got: list[bytes]) -> None:
    async for message in node.unicasts():
        got.append(_body(message))
        if len(got) == count:
            await message.settle()
            return


def _body(message: Received) -> bytes:
    assert message.sealed and message.body.startswith(MARK)
    return message.body.removeprefix(MARK)


async def test_a_recorder_at_the_core_finds_no_byte_of_what_two_apps_say(tmp_path: Path) -> None:
    with trio.fail_after(HANG_S):
        async with three_tiers(tmp_path) as (_, edge_a, core, edge_b):
            await introduce(core, (edge_a, "alice"), (edge_b, "bob"))
            got: dict[str, list[bytes]] = {"alice": [], "bob": []}
            async with app(edge_a, "alice") as alice, app(edge_b, "bob") as bob:
                await alice.send(bob.key, MARK + b"first")
                await read_all(bob, 1, got["bob"])
                await bob.send(alice.key, MARK + b"answer")
                await read_all(alice, 1, got["alice"])
            for number in range(ROUNDS):  # away in turn
                async with app(edge_a, "alice") as alice:
                    for at in range(EACH):
                        await alice.send(bob.key, MARK + b"%d %d" % (number, at))
                if number == 0:
                    await core.freeze()
                    assert not [one for one in held_by(core) if MARK in one]
                    core.thaw()
                async with app(edge_b, "bob") as bob:
                    await read_all(bob, len(got["bob"]) + EACH, got["bob"])
                    await bob.send(alice.key, MARK + b"and back")
            async with app(edge_a, "alice") as alice:
                await read_all(alice, 1 + ROUNDS, got["alice"])
            await core.freeze()
            assert not [one for one in held_by(core) if MARK in one]
            core.thaw()
            assert got["bob"] == [b"first", *(b"%d %d" % (n, at) for n in range(ROUNDS) for at in range(EACH))]
            assert got["alice"] == [b"answer", *[b"and back"] * ROUNDS]


@pytest.mark.parametrize("kills", [3, pytest.param(100, marks=pytest.mark.long)])
async def test_killed_nodes_lose_and_double_nothing_that_is_sealed(tmp_path: Path, kills: int) -> None:
    count, chance, got = 20 * kills, random.Random(kills), list[bytes]()
    with trio.fail_after(HANG_S * (1 + kills // 10)):
        async with three_tiers(tmp_path) as (_, edge_a, core, edge_b):
            await introduce(core, (edge_a, "alice"), (edge_b, "bob"))
            journal, one_at_a_time = tmp_path / "journal", trio.Lock()
            async with (
                connect(home=edge_a.home, as_name="alice", when_down="queue") as alice,
                connect(home=edge_b.home, as_name="bob", when_down="queue", journal=journal) as bob,
                trio.open_nursery() as nursery,
            ):
                nursery.start_soon(read_all, bob, count, got)
                for number in range(count):
                    if number % 20 == 10:
                        nursery.start_soon(restart, chance.choice((edge_a, core, edge_b)), one_at_a_time)
                    await alice.send(bob.key, MARK + b"%d" % number)
    assert sorted(got, key=int) == [b"%d" % number for number in range(count)]


async def test_the_recorder_finds_what_goes_in_the_open(tmp_path: Path) -> None:
    with trio.fail_after(HANG_S):
        async with three_tiers(tmp_path) as (_, edge_a, core, edge_b):
            await introduce(core, (edge_a, "alice"), (edge_b, "bob"))
            bob = app(edge_b, "bob").key
            async with app(edge_a, "alice") as alice:
                await alice.send(bob, MARK, plain=True)
            async with app(edge_b, "bob") as node:
                message = await anext(node.unicasts())
                assert (message.body, message.sealed) == (MARK, False)
            await core.freeze()
            assert [one for one in held_by(core) if MARK in one]
            core.thaw()
