"""A CAPD pool at a real TCP port, in this process, whose packets may be tampered with on their way in and out."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from itertools import count

import trio
from samples.capd_host import Host
from samples.capd_net import REGTEST

from router.service import contract as c
from services.capd.core.nexa.envelope import Packet, Unpacker
from services.capd.core.nexa.neighbours import DOOR
from services.capd.settings import Settings

Change = Callable[[Packet], Iterable[Packet]]
READ_BYTES = 1 << 16


def unchanged(packet: Packet) -> Iterable[Packet]:
    return (packet,)


class NexaNode(Host):
    """A node with the rules of a pool; `reads` and `writes` replace each packet that comes and goes."""

    def __init__(self, profile: str = "strict", reads: Change = unchanged, writes: Change = unchanged) -> None:
        self.reads, self.writes = reads, writes
        self._streams: dict[str, trio.SocketStream] = {}
        self._unpackers: dict[str, Unpacker] = {}
        self._names = count(1)
        self._waiting: deque[bytes] = deque()
        super().__init__(Settings(network="regtest", profile=profile))  # type: ignore[arg-type]

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        """Listen; yield HOST:PORT."""
        async with trio.open_nursery() as nursery:
            [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
            nursery.start_soon(trio.serve_listeners, self._serve, [listener])
            yield f"127.0.0.1:{listener.socket.getsockname()[1]}"
            nursery.cancel_scope.cancel()

    async def _serve(self, stream: trio.SocketStream) -> None:
        name = str(next(self._names))
        self._streams[name], self._unpackers[name] = stream, Unpacker(REGTEST)
        try:
            async with stream:
                await self._hear(c.Opened(DOOR, name, "127.0.0.1:1"))
                while name in self._streams and (data := await stream.receive_some(READ_BYTES)):
                    await self._came(name, bytes(data))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            self._streams.pop(name, None)
            self.hear(c.Came(DOOR, name, b""))

    async def _came(self, name: str, data: bytes) -> None:
        if self.reads is not unchanged:
            packets = [other for one in self._unpackers[name].feed(data) for other in self.reads(one)]
            data = b"".join(one.encoded(REGTEST) for one in packets)
        if data:
            await self._hear(c.Came(DOOR, name, data))

    async def _hear(self, heard: c.Heard) -> None:
        self.now = c.Now(time.time(), trio.current_time())
        for deed in self.hear(heard):
            if isinstance(deed, c.Write) and (stream := self._streams.get(deed.peer)) is not None:
                await self._write(stream, deed)

    async def _write(self, stream: trio.SocketStream, deed: c.Write) -> None:
        if not deed.data:
            del self._streams[deed.peer]
            await stream.aclose()
            return
        packets = [other for one in Unpacker(REGTEST).feed(deed.data) for other in self.writes(one)]
        await stream.send_all(b"".join(one.encoded(REGTEST) for one in packets))
