"""A dialler's connection to a Nexa node, for the demo, the bench and tests; it uses nothing but the wire's protocol.

async with nexa_client("127.0.0.1:18444", "regtest") as node:
    await node.say(GetInfo(), cookie=0x50000)
    info = await node.next(Info)
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from secrets import randbits
from typing import Any

import trio

from router.core.link.machine import Agency, RemoteProtocolError
from router.service.unreached import why_unreached
from services.capd.core.nexa.envelope import MAGICS
from services.capd.core.nexa.greeting import Version
from services.capd.core.nexa.packets import Message, Ping, Pong
from services.capd.core.nexa.session import Heard, Session

READ_BYTES = 1 << 16
AGENT = b"/capd-client:1.0/"
CONNECT_S = 10.0
REMEDY = "start the node, or name its address"


class NexaClientError(Exception):
    """Raised if a node cannot be asked; the text says which node, and what happened."""


class NotReached(NexaClientError):
    """Raised if nobody listens at the address."""


class Parted(NexaClientError):
    """Raised if the node has closed the connection, or has broken the protocol."""


class Quiet(NexaClientError):
    """Raised if none of the expected messages came in time."""


class NexaClient:
    """The dialler's end of a connection. `heard`: messages of the node that were not taken yet."""

    def __init__(self, stream: trio.abc.Stream, place: str, network: str) -> None:
        self._stream = stream
        self._place = place
        own = Version(int(time.time()), randbits(64), AGENT)
        self.session = Session(Agency.INITIATOR, MAGICS[network], own, trio.current_time())
        self.heard: deque[Heard] = deque()

    def __repr__(self) -> str:
        return f"<NexaClient of {self._place}: {self.session!r}>"

    async def greet(self, within_s: float) -> None:
        """Greet the node, and return when both sides have greeted. Raise `Parted` or `Quiet`."""
        await self._flush()
        with trio.move_on_after(within_s):
            while not self.session.is_open:
                await self._read()
            return
        raise Quiet(f"{self._place} has not greeted within {within_s:g} s")

    async def say(self, message: Message, cookie: int = 0) -> None:
        """Send a message."""
        self.session.say(message, cookie)
        await self._flush()

    async def send(self, data: bytes) -> None:
        """Send these bytes, whatever they are. If the node has gone, reading shows it."""
        try:
            await self._stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return

    async def next(self, *kinds: type[Any], within_s: float = CONNECT_S) -> Any:
        """Return the node's next message of these kinds, and drop those before it. Raise `Parted` or `Quiet`."""
        return (await self.next_heard(*kinds, within_s=within_s)).message

    async def next_heard(self, *kinds: type[Any], within_s: float = CONNECT_S) -> Heard:
        """Return the node's next message of these kinds with its packet's cookie, and drop those before it. Raise
        `Parted` or `Quiet`."""
        with trio.move_on_after(within_s):
            while True:
                while self.heard:
                    one = self.heard.popleft()
                    if not kinds or isinstance(one.message, kinds):
                        return one
                await self._read()
        names = " or ".join(kind.__name__ for kind in kinds) or "anything"
        raise Quiet(f"{self._place} has not said {names} within {within_s:g} s")

    async def _read(self) -> None:
        try:
            data = await self._stream.receive_some(READ_BYTES)
        except trio.BrokenResourceError:
            data = b""
        if not data:
            raise Parted(f"{self._place} has closed the connection")
        try:
            heard = self.session.hear(bytes(data), trio.current_time())
        except RemoteProtocolError as error:
            raise Parted(f"{self._place} has said what it may not: {error.text}") from None
        for one in heard:
            if isinstance(one.message, Ping):
                self.session.say(Pong(one.message.nonce))
            else:
                self.heard.append(one)
        await self._flush()

    async def _flush(self) -> None:
        if data := self.session.take():
            await self.send(data)


@asynccontextmanager
async def dialled(place: str, within_s: float = CONNECT_S) -> AsyncIterator[trio.SocketStream]:
    """Open a stream to HOST:PORT. Raise `NotReached`, with the remedy."""
    host, _, port = place.rpartition(":")
    try:
        with trio.fail_after(within_s):
            stream = await trio.open_tcp_stream(host.strip("[]"), int(port))
    except OSError as error:
        raise NotReached(why_unreached(error, place, REMEDY)) from None
    except trio.TooSlowError:
        raise NotReached(f"nobody answers at {place}; {REMEDY}") from None
    async with stream:
        yield stream


@asynccontextmanager
async def connected(place: str, network: str, within_s: float = CONNECT_S) -> AsyncIterator[NexaClient]:
    """Connect to HOST:PORT without a greeting. Raise `NotReached`."""
    async with dialled(place, within_s) as stream:
        yield NexaClient(stream, place, network)


@asynccontextmanager
async def nexa_client(place: str, network: str, within_s: float = CONNECT_S) -> AsyncIterator[NexaClient]:
    """Connect to HOST:PORT, and greet. Raise `NexaClientError`."""
    async with connected(place, network, within_s) as client:
        await client.greet(within_s)
        yield client
