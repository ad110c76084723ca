"""Three DMQ nodes as processes beside one that lies and one that stalls: durable consumers get each message once."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import trio
from rigs.patience import HANG_S
from rigs.plain_peer_node import PlainPeer
from rigs.ports import free_port
from samples.dmq import BODY, Pool
from test_dmq_nodes_joined import NETWORK, Node

from services.dmq.client.connection import connect
from services.dmq.core.messages.pool_keys import stake_file
from services.dmq.core.messages.signed_message import Dmq05, SignedMessage
from services.dmq.core.protocols import message_submission as ms
from services.dmq.core.protocols.handshake import MAGICS
from services.dmq.core.protocols.node_handshake import NodeData
from services.dmq.core.protocols.peer_session import PeerEvent, PeerSaid, PeerSession

pytestmark = pytest.mark.long
POOLS = [Pool(number) for number in range(12)]


class Liar(PlainPeer):
    """A node that announces all messages before anybody has them, and brings others under their ids, as expired."""

    def __init__(self, right: list[SignedMessage]) -> None:
        expired = [Dmq05().write(pool.draft(BODY, expires_at=1)) for pool in POOLS]
        claimed = zip(right, expired, strict=True)
        super().__init__(Dmq05().read(b"\x85\x58\x20" + one.id + wire[35:]) for one, wire in claimed)
        self.data = NodeData(MAGICS[NETWORK], peer_sharing=True)


class Staller(PlainPeer):
    """A node that announces all messages, and never answers when it is asked for them."""

    def __init__(self, right: list[SignedMessage]) -> None:
        super().__init__(right)
        self.data = NodeData(MAGICS[NETWORK], peer_sharing=True)

    def _handle(self, session: PeerSession, window: Any, event: PeerEvent) -> list[PeerEvent]:
        is_asked = isinstance(event, PeerSaid) and isinstance(event.message, ms.MsgRequestSigs)
        return [] if is_asked else super()._handle(session, window, event)


async def read(socket: Path, count: int) -> list[bytes]:
    """Read as a durable consumer until so many have come, and what comes behind them."""
    found: list[bytes] = []
    async with connect(socket, MAGICS[NETWORK]) as client:
        while len(found) < count:
            found += (await client.request(blocking=True)).messages
        return found + list((await client.request(blocking=False)).messages)


async def test_consumers_of_three_nodes_get_each_message_once_beside_one_that_lies_and_one_that_stalls(
    tmp_path: Path,
) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "stake.json").write_bytes(stake_file(*[pool.id for pool in POOLS]))
    wires = [Dmq05().write(pool.draft(pool.id[:4] + BODY, expires_at=int(time.time()) + 900)) for pool in POOLS]
    right = [Dmq05().read(wire) for wire in wires]
    ports = [free_port() for _ in range(3)]
    async with AsyncExitStack() as stack:
        bad = [await stack.enter_async_context(one.listening()) for one in (Liar(right), Staller(right))]
        nodes = [Node(tmp_path, f"node{at}", port, ports[at - 1], *bad) for at, port in enumerate(ports)]
        sockets = [tmp_path / f"consumer{at}.socket" for at in range(3)]
        with trio.fail_after(10 * HANG_S):
            for node, socket in zip(nodes, sockets, strict=True):
                node.process.flags = (*node.process.flags, "--consumer", f"durable={socket}")
                await node.process.start()
                stack.push_async_callback(node.process.stop)
            for number, wire in enumerate(wires):
                if number == 4:
                    await nodes[2].process.kill()
                if number == 8:
                    await nodes[2].process.start()
                assert await nodes[number % 2].taken(wire) == "MsgAcceptMessage"
            await nodes[1].process.kill()  # what it has answered, and perhaps not announced, is not lost
            await nodes[1].process.start()
            for socket in sockets:
                assert sorted(await read(socket, len(wires))) == sorted(wires)
