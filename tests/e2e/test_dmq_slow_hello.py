"""Peers that say their hello to a DMQ node byte by byte, or what follows it, beside an honest pair of nodes, as
processes."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
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
from services.dmq.core.protocols import message_submission as ms
from services.dmq.core.protocols.handshake import MAGICS
from services.dmq.core.protocols.mux import sdu
from services.dmq.core.protocols.node_handshake import NodeData
from services.dmq.core.protocols.peer_session import PeerSession

pytestmark = pytest.mark.long
POOLS = [Pool(number) for number in range(6)]


@asynccontextmanager
async def pair(path: Path) -> AsyncIterator[tuple[Node, Node]]:
    """Run two nodes that dial each other."""
    assert (await dmq("keygen", path / "keys")).exit_code == 0
    (path / "keys" / "stake.json").write_bytes(stake_file(*[pool.id for pool in POOLS]))
    ports = free_port(), free_port()
    nodes = Node(path, "one", *ports), Node(path, "other", *reversed(ports))
    async with AsyncExitStack() as stack:
        for node in nodes:
            await node.process.start()
            stack.push_async_callback(node.process.stop)
        yield nodes


async def pass_on(one: Node, other: Node, pool: Pool, text: bytes = b"") -> None:
    """Hand a message in at one node, and read it at the other."""
    wire = Dmq05().write(pool.draft(pool.id[:4] + text + BODY, expires_at=int(time.time()) + 900))
    assert await one.taken(wire) == "MsgAcceptMessage"
    await other.until(wire)


async def causes_at(node: Node) -> str:
    """Return why connections with other nodes have ended, as the node's status says."""
    return str((await node.process.run("dmq", "status", "--json")).json["nodes"]["causes"])


async def test_a_hello_that_comes_byte_by_byte_is_cut_off_and_keeps_no_message_of_others_waiting(
    tmp_path: Path,
) -> None:
    hello = PeerSession(Agency.INITIATOR, NodeData(MAGICS[NETWORK]), 0.0).take(0)
    with trio.fail_after(4 * HANG_S):
        async with pair(tmp_path) as (one, other), await trio.open_tcp_stream("127.0.0.1", one.port) as slow:
            for pool, byte in zip(POOLS, hello, strict=False):
                await slow.send_all(bytes((byte,)))
                await pass_on(one, other, pool)
            assert await slow.receive_some() == b"", "it is closed without an answer"
            await pass_on(other, one, POOLS[0], b"behind it")


@pytest.mark.parametrize(("only_dials", "each_in_an_sdu"), ((False, True), (True, False)))
async def test_a_peer_that_sends_a_byte_a_second_after_its_hello_is_cut_off_and_named(
    tmp_path: Path, only_dials: bool, each_in_an_sdu: bool
) -> None:
    """One owes ids, which have 20 s; one that only dials has 30 s for an SDU. Meanwhile others' messages pass."""
    session = PeerSession(Agency.INITIATOR, NodeData(MAGICS[NETWORK], only_dials), 0.0)
    channel = ms.NUMBER, Agency.INITIATOR if only_dials else Agency.RESPONDER
    payload = ms.VERSIONS[2].encode(ms.MsgRequestSigs((bytes(32),) * 3))
    pieces = [bytes((one,)) for one in (payload if each_in_an_sdu else sdu(channel, payload, 0))]
    with trio.fail_after(4 * HANG_S):
        async with pair(tmp_path) as (one, other), await trio.open_tcp_stream("127.0.0.1", one.port) as slow:
            await slow.send_all(session.take(0))
            while session.agreement is None:
                session.hear(await slow.receive_some(), 0.0)
            await slow.send_all(session.take(0))  # its first keep-alive

            async def send() -> None:
                for number, piece in enumerate(pieces):
                    await slow.send_all(sdu(channel, piece, 0) if each_in_an_sdu else piece)
                    if number < len(POOLS):
                        await pass_on(one, other, POOLS[number])
                    await trio.sleep(1)  # what is tested is that it sends so slowly

            async with trio.open_nursery() as nursery:
                nursery.start_soon(send)
                with suppress(trio.BrokenResourceError):
                    while await slow.receive_some():
                        continue
                nursery.cancel_scope.cancel()
            await pass_on(other, one, POOLS[0], b"behind it")
            said = "StSigIdsBlocking of protocol 11 took 20 s" if each_in_an_sdu else "a part of an SDU came"
            while said not in await causes_at(one):
                continue
