"""DMQ nodes as processes that were away for ten minutes: what a peer without spacing tells them, and what they pass on.

The ten minutes are in the messages: of each pool ten, which expire a minute apart."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trio
from rigs.patience import HANG_S
from rigs.plain_peer_node import PlainPeer
from rigs.ports import free_port
from samples.dmq import BODY, Pool
from test_dmq_nodes_joined import NETWORK, Node, dmq

from services.dmq.client.connection import connect
from services.dmq.core.messages.pool_keys import stake_file
from services.dmq.core.messages.signed_message import Dmq05
from services.dmq.core.protocols.handshake import MAGICS
from services.dmq.core.protocols.node_handshake import NodeData

pytestmark = pytest.mark.long
POOLS = [Pool(number) for number in range(12)]
EACH = 10
"""How many messages of each pool have come in ten minutes."""


async def read(socket: Path, count: int) -> list[bytes]:
    """Read as a consumer until so many messages have come, and what comes behind them."""
    found = list[bytes]()
    async with connect(socket, MAGICS[NETWORK]) as client:
        while len(found) < count:
            found += (await client.request(blocking=True)).messages
        return found + list((await client.request(blocking=False)).messages)


async def test_a_node_has_all_of_a_peer_without_spacing_and_passes_each_pools_newest_message_on(
    tmp_path: Path,
) -> None:
    assert (await dmq("keygen", tmp_path / "keys")).exit_code == 0
    (tmp_path / "keys" / "stake.json").write_bytes(stake_file(*[pool.id for pool in POOLS]))
    now_s = int(time.time())
    by_minute = [
        [Dmq05().write(pool.draft(bytes((minute, number)) + BODY, expires_at=now_s + 900 + 60 * minute))
         for number, pool in enumerate(POOLS)]
        for minute in range(EACH)
    ]  # fmt: skip
    wires = [wire for minute in by_minute for wire in minute]
    plain = PlainPeer(map(Dmq05().read, wires))
    plain.data = NodeData(MAGICS[NETWORK])
    async with AsyncExitStack() as stack:
        plain_port, ports = await stack.enter_async_context(plain.listening()), (free_port(), free_port())
        first, second = Node(tmp_path, "first", ports[0], plain_port), Node(tmp_path, "second", ports[1], ports[0])
        with trio.fail_after(10 * HANG_S):
            for node, expected in ((first, wires), (second, by_minute[-1])):
                node.process.flags = tuple(
                    flag for flag in node.process.flags if flag not in ("--min-sig-delay", "0.01s")
                )
                await node.process.start()
                stack.push_async_callback(node.process.stop)
                found = await read(node.socket, len(expected))
                assert sorted(found) == sorted(expected)
