"""Ten DMQ nodes as processes, each of which dials three: what one is given reaches all, also those that were killed."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trio
from rigs.patience import HANG_S
from rigs.ports import free_port
from test_dmq_nodes_joined import Node, dmq

pytestmark = pytest.mark.long
NODES, KILLED = 10, 3


async def signed(path: Path, text: str) -> bytes:
    found = await dmq("sign", "--keys", path / "keys", f"{text}: a body of some length " * 4)
    return bytes.fromhex(found.stdout.strip())


async def all_have(nodes: list[Node], *wires: bytes) -> None:
    async with trio.open_nursery() as nursery:
        for node in nodes:
            for wire in wires:
                nursery.start_soon(node.until, wire)


async def test_what_one_of_ten_is_given_reaches_all_also_those_that_were_killed(tmp_path: Path) -> None:
    assert (await dmq("keygen", tmp_path / "keys")).exit_code == 0
    ports = [free_port() for _ in range(NODES)]
    nodes = [
        Node(tmp_path, f"node{at}", ports[at], *[ports[(at + step) % NODES] for step in (1, 2, 4)])
        for at in range(NODES)
    ]
    with trio.fail_after(20 * HANG_S):
        async with AsyncExitStack() as stack:
            for node in nodes:
                await node.process.start()
                stack.push_async_callback(node.process.stop)
            first = await signed(tmp_path, "first")
            assert await nodes[0].taken(first) == "MsgAcceptMessage"
            await all_have(nodes, first)
            for node in nodes[:KILLED]:
                await node.process.kill()
            second = await signed(tmp_path, "second")
            assert await nodes[5].taken(second) == "MsgAcceptMessage"
            await all_have(nodes[KILLED:], second)
            for node in nodes[:KILLED]:
                await node.process.start()
            await all_have(nodes, first, second)
