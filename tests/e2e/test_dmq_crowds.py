"""Many peers at the port of a DMQ node that is a process: what an idle one costs, one that never reads, and a crowd
from one network, each beside an honest pair of nodes."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio
from rigs.patience import HANG_S
from rigs.ports import free_port
from samples.dmq import BODY, Pool
from test_dmq_nodes_joined import NETWORK, Node, dmq

from router.core.link.machine import Agency
from services.dmq.core.messages.pool_keys import stake_file
from services.dmq.core.messages.signed_message import Dmq05
from services.dmq.core.protocols import keep_alive as ka
from services.dmq.core.protocols.handshake import MAGICS
from services.dmq.core.protocols.mux import sdu
from services.dmq.core.protocols.node_handshake import NodeData
from services.dmq.core.protocols.peer_session import PeerAgreed, PeerEvent, PeerSession

pytestmark = pytest.mark.long
IDLE_KIB_MAX = 60
CROWD = 600


@dataclass
class Pair:
    """Two honest nodes that dial each other."""

    one: Node
    other: Node
    pools: list[Pool] = field(default_factory=lambda: [Pool(number) for number in range(8)])
    said: int = 0

    async def goes_on(self) -> None:
        """Check that what is handed in at either node comes to the consumers of the other one."""
        for here, there in ((self.one, self.other), (self.other, self.one)):
            pool = self.pools[self.said]
            self.said += 1
            wire = Dmq05().write(pool.draft(pool.id[:4] + BODY, expires_at=int(time.time()) + 900))
            assert await here.taken(wire) == "MsgAcceptMessage"
            await there.until(wire)

    def memory_kib(self) -> int:
        lines = Path(f"/proc/{self.one.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))


@asynccontextmanager
async def pair(path: Path) -> AsyncIterator[Pair]:
    assert (await dmq("keygen", path / "keys")).exit_code == 0
    ports = free_port(), free_port()
    found = Pair(Node(path, "one", *ports), Node(path, "other", *reversed(ports)))
    (path / "keys" / "stake.json").write_bytes(stake_file(*[pool.id for pool in found.pools]))
    async with AsyncExitStack() as stack:
        with trio.fail_after(4 * HANG_S):
            for node in (found.one, found.other):
                await node.process.start()
                stack.push_async_callback(node.process.stop)
            await found.goes_on()
            yield found


async def dialled(port: int, source: str) -> trio.SocketStream:
    socket = trio.socket.socket()
    await socket.bind((source, 0))
    await socket.connect(("127.0.0.1", port))
    return trio.SocketStream(socket)


def new_session() -> PeerSession:
    return PeerSession(Agency.INITIATOR, NodeData(MAGICS[NETWORK]), time.monotonic())


async def go_on(stream: trio.SocketStream, session: PeerSession) -> list[PeerEvent]:
    """Write what is queued, and return what the next bytes of the node say."""
    while data := session.take(0):
        await stream.send_all(data)
    data = await stream.receive_some()
    return session.hear(data, time.monotonic()) if data else []


async def idle(stream: trio.SocketStream, session: PeerSession, *, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
    """Be a peer that has nothing, until this is ended."""
    async with stream:
        while not any(isinstance(one, PeerAgreed) for one in await go_on(stream, session)):
            continue
        task_status.started()
        while True:
            await go_on(stream, session)


async def test_an_idle_peer_costs_little_memory(tmp_path: Path) -> None:
    async with pair(tmp_path) as found, trio.open_nursery() as nursery:
        for number in range(80):
            if number == 20:
                before = found.memory_kib()  # the first ones also fill what is kept once
            stream = await dialled(found.one.port, f"127.{number + 1}.0.1")
            await nursery.start(idle, stream, new_session())
        await found.goes_on()
        grown = (found.memory_kib() - before) / 60
        nursery.cancel_scope.cancel()
    print(f"{grown:.1f} KiB an idle peer")
    assert grown < IDLE_KIB_MAX


async def test_a_peer_that_never_reads_is_closed_and_nobody_waits_for_it(tmp_path: Path) -> None:
    async with pair(tmp_path) as found, await dialled(found.one.port, "127.9.0.1") as stream:
        session = new_session()
        while not any(isinstance(one, PeerAgreed) for one in await go_on(stream, session)):
            continue
        before, sent = found.memory_kib(), 0
        asked = sdu((ka.NUMBER, Agency.INITIATOR), ka.encode_message(ka.MsgKeepAlive(7)), 0) * 4096
        with pytest.raises(trio.BrokenResourceError):
            while True:
                await stream.send_all(asked)
                sent += len(asked)
        await found.goes_on()
        assert found.memory_kib() - before < 16 << 10, f"{sent} bytes were sent"


async def test_a_crowd_of_one_network_takes_no_honest_peers_place(tmp_path: Path) -> None:
    async with pair(tmp_path) as found:
        crowd = []
        for number in range(CROWD):
            crowd.append(await dialled(found.one.port, f"127.9.0.{number % 250 + 1}"))
            await crowd[-1].send_all(new_session().take(0))
        await found.goes_on()
        for stream in crowd:
            await trio.aclose_forcefully(stream)
        await found.goes_on()
