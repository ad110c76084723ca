"""A network of DMQ nodes that falls into two halves: when it is whole again, all consumers get all that lives."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trio
from rigs.machines import bridged
from rigs.patience import HANG_S
from test_dmq_network import all_have
from test_dmq_nodes_joined import Node, dmq

from router.rig.process import until

pytestmark = pytest.mark.long
NODES, PORT = 6, 3141
SHORT_S = 20


async def signed(path: Path, text: str, *more: object) -> bytes:
    found = await dmq("sign", "--keys", path / "keys", *more, f"{text}: a body of some length " * 4)
    return bytes.fromhex(found.stdout.strip())


async def until_joined(nodes: list[Node], others: list[Node]) -> None:
    """Wait until each of these nodes is connected with others of these, and with nobody else."""
    ips = {one.ip for one in others}
    for node in nodes:

        async def is_joined(node: Node = node) -> bool:
            peers = {one["address"].rpartition(":")[0] for one in await node.peers()}
            return bool(peers) and peers <= ips

        await until(f"{node.process.name} is connected within {ips}", is_joined)


async def test_what_was_handed_in_on_both_sides_of_a_cut_reaches_all_when_it_is_over(tmp_path: Path) -> None:
    """Each node dials the next two of a ring, so each half holds together."""
    with bridged() as bridge:
        assert (await dmq("keygen", tmp_path / "keys")).exit_code == 0
        machines = [bridge.machine() for _ in range(NODES)]
        nodes = [
            Node(tmp_path, f"node{at}", PORT, *[machines[(at + step) % NODES] for step in (1, 2)], machine=machines[at])
            for at in range(NODES)
        ]
        left, right, wires = nodes[: NODES // 2], nodes[NODES // 2 :], list[bytes]()

        async def hand_in(node: Node, text: str) -> None:
            wires.append(await signed(tmp_path, text))
            assert await node.taken(wires[-1]) == "MsgAcceptMessage"

        async def is_over() -> bool:
            return all([brief not in await node.live() for node in left])

        with trio.fail_after(4 * HANG_S):
            async with AsyncExitStack() as stack:
                for node in nodes:
                    await node.process.start()
                    stack.push_async_callback(node.process.stop)
                await until_joined(nodes, nodes)
                await hand_in(nodes[0], "before")
                await all_have(nodes, *wires)
                bridge.split(machines[NODES // 2 :])
                await hand_in(left[1], "at once on the left")
                await hand_in(right[1], "at once on the right")
                brief = await signed(tmp_path, "brief", "--ttl", SHORT_S)
                assert await left[0].taken(brief) == "MsgAcceptMessage"
                await all_have(left, wires[0], wires[1], brief)
                await all_have(right, wires[0], wires[2])
                await until_joined(left, left)
                await until_joined(right, right)
                await hand_in(left[2], "later on the left")
                await hand_in(right[2], "later on the right")
                await all_have(left, wires[-2])
                await all_have(right, wires[-1])
                await until("the end of what is brief", is_over)
                bridge.heal(machines[NODES // 2 :])
                await all_have(nodes, *wires)
                for node in nodes:
                    assert sorted(await node.live()) == sorted(wires)
