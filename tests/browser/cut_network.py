"""A network that can be cut between a browser and its node: what goes through it ends, and nothing new begins. Or it
swallows all: connections begin, and nothing comes through them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import trio


class Network:
    """Passes connections on to a port of this machine while it `is_whole`."""

    def __init__(self, to: int) -> None:
        self._to = to
        self._is_whole = trio.Event()
        self._is_whole.set()
        self._open: set[trio.SocketStream] = set()
        self._swallows = False
        self.swallowed = 0
        """How many connections have begun that heard nothing."""

    async def cut(self) -> None:
        """End all connections, and let no new ones through."""
        self._is_whole = trio.Event()
        for stream in list(self._open):
            await trio.aclose_forcefully(stream)

    async def swallow(self) -> None:
        """End all connections; new ones are taken, and hear nothing until the network is cut or mended."""
        self._swallows = True
        await self.cut()

    def mend(self) -> None:
        self._swallows = False
        self._is_whole.set()

    async def pass_on(self, near: trio.SocketStream) -> None:
        async with near:
            if self._swallows:
                self.swallowed += 1
                await self._is_whole.wait()
                return
            if not self._is_whole.is_set():
                return
            with suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
                async with await trio.open_tcp_stream("127.0.0.1", self._to) as far:
                    self._open |= {near, far}
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(_carry, near, far, nursery.cancel_scope)
                        nursery.start_soon(_carry, far, near, nursery.cancel_scope)
                    self._open -= {near, far}


async def _carry(one: trio.SocketStream, other: trio.SocketStream, scope: trio.CancelScope) -> None:
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        async for data in one:
            await other.send_all(data)
    scope.cancel()


@asynccontextmanager
async def network_at(port: int, to: int) -> AsyncIterator[Network]:
    """Yield the network that answers at `port` for what listens at `to`."""
    network = Network(to)
    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(port, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, network.pass_on, [listener])
        yield network
        nursery.cancel_scope.cancel()
