"""A node that stood still for longer than a client has for its hello: what the client sent meanwhile counts."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
from raw_link import RawLink
from rig import NodeProcess, new_key, rig
from rigs.patience import HANG_S

from router.core.link.session import Session
from router.transport import contract as transport

HELLO_S, STOPPED_S = 5.0, 6.0


@asynccontextmanager
async def stopped(node: NodeProcess) -> AsyncIterator[None]:
    """Stop the process once it has seen all connections; let it go on, `STOPPED_S` after the block."""
    await node.ask("status")
    os.kill(node.pid, signal.SIGSTOP)
    try:
        yield
        await trio.sleep(STOPPED_S)
    finally:
        os.kill(node.pid, signal.SIGCONT)


@asynccontextmanager
async def running(path: Path) -> AsyncIterator[tuple[NodeProcess, RawLink]]:
    """Run a node, and give its client's link, which is not yet made."""
    async with rig(path) as found:
        core, link = found.node("core", "core", {"limits.hello_s": HELLO_S}), RawLink(new_key())
        core.knows(link.key.public, "client", grants=("join",))
        await core.start()
        try:
            yield core, link
        finally:
            await link.close()


@pytest.mark.parametrize("over", ["tls", "unix"])
async def test_a_hello_that_came_while_the_node_was_stopped_is_read(over: str, tmp_path: Path) -> None:
    async with running(tmp_path) as (core, link):
        url = core.url if over == "tls" else f"unix://{core.home.socket_path}"
        link.stream = await transport.dial(url, link.key, core.address, timeout_s=HANG_S)
        peer = link.stream.peer
        async with stopped(core):
            link.end.begin(Session(link._offer, link.key, dialler=True, peer=peer, expect=core.address))
            await link.flush()
        await link.until("the link is up", lambda: link.end.is_up)
        assert await link.join(new_key().public)


async def test_a_tls_handshake_that_came_while_the_node_was_stopped_goes_on(tmp_path: Path) -> None:
    """A relay has connected to the node before, and passes the client's bytes on once it is stopped."""
    async with running(tmp_path) as (core, link), trio.open_nursery() as nursery:
        has_connected, goes_on = trio.Event(), trio.Event()

        async def relay(client: trio.SocketStream) -> None:
            node = await trio.open_tcp_stream("127.0.0.1", int(core.url.rpartition(":")[2]))
            has_connected.set()
            await goes_on.wait()
            async with node, trio.open_nursery() as both:
                both.start_soon(pump, client, node)
                await pump(node, client)
                both.cancel_scope.cancel()  # the client hears that the node has ended it, instead of nothing

        [listener] = await nursery.start(partial(trio.serve_tcp, host="127.0.0.1"), relay, 0)
        url = f"tls://127.0.0.1:{listener.socket.getsockname()[1]}"
        async with trio.open_nursery() as dialling:
            dialling.start_soon(link.connect, url, core.address)
            await has_connected.wait()
            async with stopped(core):
                goes_on.set()
        assert await link.join(new_key().public)
        nursery.cancel_scope.cancel()


async def pump(source: trio.SocketStream, target: trio.SocketStream) -> None:
    async for data in source:
        await target.send_all(data)
