"""The passing on of a stream to the router, from which on it is a link of whoever is at the other end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import trio

from router.core.link.frame_count import FrameCount
from router.service.stream_reading import READ_BYTES_MAX
from router.transport.contract import Stream, StreamBroken
from router.transport.pace import SharedPace
from router.transport.proxy_header import header_for
from router.transport.reading_pauses import ReadingPauses
from router.transport.socket_stream import TcpStream
from router.transport.stream import DuplexStream

Dial = Callable[[], Awaitable[Stream]]
"""Connects to the router as a guest. Raises `ConnectFailed`."""


class Passed(Protocol):
    """A stream whose bytes are passed on."""

    async def receive_some(self, max_bytes: int, /) -> bytes | bytearray:
        """Return bytes that have come, none at the end."""

    async def send_all(self, data: bytes, /) -> None:
        """Send all of it."""

    async def aclose(self) -> None:
        """Close it."""


def unwrapped(stream: trio.SocketStream, through: str, address: str, first: bytes) -> tuple[Passed, bytes]:
    """Return the stream that is carried inside this one, from HOST:PORT, and the bytes of it that have come already."""
    if through != "websocket":
        return stream, first
    ip = address.rpartition(":")[0].strip("[]").partition("%")[0]
    where = f"websocket {address}".rstrip()
    return _load_websocket(TcpStream(stream.socket, where, ip), where, first), b""


def _load_websocket(stream: TcpStream, where: str, first: bytes) -> DuplexStream:
    """Return what is carried inside a WebSocket, whose modules take 0.8 MB that few services need."""
    from router.transport.websocket import WebSocketStream

    return WebSocketStream(stream, where, first)


async def pass_on(
    link: Stream,
    stream: Passed,
    address: str,
    first: bytes,
    shared: SharedPace,
    answered: Callable[[], None] = lambda: None,
) -> None:
    """Pass to the link that the stream comes from `address`, HOST:PORT or "", then `first` and what comes of the
    stream, and the link's bytes back, until one of them ends; close both. `shared`: the rate of short pieces that all
    streams share; `answered` is called whenever the router says something."""
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_pump_out, link, stream, nursery, answered)
            await link.send_all(header_for(address) + first)
            await _pump_in(link, stream, first, ReadingPauses(shared))
            nursery.cancel_scope.cancel()
    except* (StreamBroken, trio.BrokenResourceError, trio.ClosedResourceError):
        pass  # the link has ended, and its router has logged why
    finally:
        with trio.move_on_after(1, shield=True):
            await link.aclose()
            await stream.aclose()


async def _pump_in(link: Stream, stream: Passed, first: bytes, pauses: ReadingPauses) -> None:
    frames = FrameCount()
    frames.took(first)
    while data := bytes(await stream.receive_some(READ_BYTES_MAX)):
        await link.send_all(data)
        short = stream.short_pieces if isinstance(stream, DuplexStream) else 0
        pauses.took(len(data), short, frames.took(data), trio.current_time(), is_between=frames.is_between)
        await pauses.wait()


async def _pump_out(link: Stream, stream: Passed, nursery: trio.Nursery, answered: Callable[[], None]) -> None:
    while data := await link.receive_some(READ_BYTES_MAX):
        answered()
        await stream.send_all(data)
    nursery.cancel_scope.cancel()
