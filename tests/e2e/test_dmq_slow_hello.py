"""A peer that says its hello to a DMQ node byte by byte, beside an honest pair of nodes, as processes."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trio
from rigs.patience import HANG_S
from rigs.ports import free_port
from samples.dmq import BODY, Pool
from test_dmq_nodes_joined import NETWORK, Node, dmq

from router.core.link.machine import Agency
from services.dmq.core.messages.pool_keys import stake_file
from services.dmq.core.messages.signed_message import Dmq05
from services.dmq.core.protocols.handshake import MAGICS
from services.dmq.core.protocols.node_handshake import NodeData
from services.dmq.core.protocols.peer_session import PeerSession

pytestmark = pytest.mark.long
POOLS = [Pool(number) for number in range(6)]


async def test_a_hello_that_comes_byte_by_byte_is_cut_off_and_keeps_no_message_of_others_waiting(
    tmp_path: Path,
) -> None:
    assert (await dmq("keygen", tmp_path / "keys")).exit_code == 0
    (tmp_path / "keys" / "stake.json").write_bytes(stake_file(*[pool.id for pool in POOLS]))
    hello = PeerSession(Agency.INITIATOR, NodeData(MAGICS[NETWORK]), 0.0).take(0)
    ports = free_port(), free_port()
    one, other = Node(tmp_path, "one", *ports), Node(tmp_path, "other", *reversed(ports))
    async with AsyncExitStack() as stack:
        with trio.fail_after(4 * HANG_S):
            for node in (one, other):
                await node.process.start()
                stack.push_async_callback(node.process.stop)
            slow = await stack.enter_async_context(await trio.open_tcp_stream("127.0.0.1", one.port))
            for pool, byte in zip(POOLS, hello, strict=False):
                await slow.send_all(bytes((byte,)))
                wire = Dmq05().write(pool.draft(pool.id[:4] + BODY, expires_at=int(time.time()) + 900))
                assert await one.taken(wire) == "MsgAcceptMessage"
                await other.until(wire)
            assert await slow.receive_some() == b"", "it is closed without an answer"
            last = Dmq05().write(POOLS[0].draft(b"behind it" + BODY, expires_at=int(time.time()) + 900))
            assert await other.taken(last) == "MsgAcceptMessage"
            await one.until(last)
