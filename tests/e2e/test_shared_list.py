"""The example of a shared list: two laptops edit it while they cannot reach each other, and then agree."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import trio
from rig import NodeProcess, Rig, rig

from router.core.wire.crypto import PublicKey
from router.rig.process import Process

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "shared_list.py")
GROUP = "shopping"


async def command(node: NodeProcess, *args: str) -> str:
    return (await node.run(*args)).stdout.strip()


def a_list(found: Rig, node: NodeProcess, name: str) -> Process:
    return found.process(f"list-{name}", "env", f"ROUTER_HOME={node.home.path}", sys.executable, EXAMPLE, GROUP, name)


async def edit(one: Process, line: str, answer: str) -> None:
    await one.tell(line)
    assert await one.line() == f"here {answer}"


async def until(one: Process, line: str) -> None:
    while (said := await one.line()) != line:
        assert said, one.said()


async def test_two_laptops_edit_a_list_offline_and_merge(tmp_path: Path) -> None:
    async with rig(tmp_path) as found:
        core, left, right = found.node("core", "core"), found.node("left"), found.node("right")
        for edge in (left, right):
            core.serves(edge)
        await command(left, "group", "new", GROUP)
        link = await command(left, "group", "share", GROUP)
        await command(right, "group", "add", link)
        async with trio.open_nursery() as nursery:
            for node in (core, left, right):
                nursery.start_soon(node.start)
        ann, bob = a_list(found, left, "Ann"), a_list(found, right, "Bob")
        assert (await ann.start(), await bob.start()) == ("Ann has (empty)", "Bob has (empty)")
        group = (await left.ask("groups"))[0]["group"]
        for node in (left, right):
            await core.until_joined(PublicKey(bytes.fromhex(group)), node.address)
        await edit(ann, "+ milk", "milk")
        await until(bob, "now milk")
        await edit(bob, "+ bread", "bread, milk")
        await until(ann, "now bread, milk")

        await core.kill()
        for node in (left, right):
            await node.until_connected(core.address, up=False)
        await edit(ann, "- milk", "bread")
        await edit(ann, "+ eggs", "bread, eggs")
        await edit(bob, "+ milk", "bread, milk")  # once more: Ann has not seen this one
        await edit(bob, "- bread", "milk")
        await bob.kill()
        assert await bob.start() == "Bob has milk"
        await edit(bob, "+ tea", "milk, tea")

        await core.start()
        async with trio.open_nursery() as nursery:
            for one in (ann, bob):
                nursery.start_soon(partial(until, one, "now eggs, milk, tea"))
