"""The passing on of a stream to the router, from which on it is a link of whoever is at the other end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from router.service.stream_reading import READ_BYTES_MAX
from router.transport.contract import Stream, StreamBroken
from router.transport.proxy_header import header_for

Dial = Callable[[], Awaitable[Stream]]
"""Connects to the router as a guest. Raises `ConnectFailed`."""


async def pass_on(
    link: Stream, stream: trio.SocketStream, address: str, first: bytes, answered: Callable[[], None] = lambda: None
) -> None:
    """Pass to the link that the stream comes from `address`, HOST:PORT or "", then `first` and what comes of the
    stream, and the link's bytes back, until one of them ends; close the link. `answered` is called whenever the router
    says something."""
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_pump_out, link, stream, nursery, answered)
            await link.send_all(header_for(address) + first)
            while data := await stream.receive_some(READ_BYTES_MAX):
                await link.send_all(data)
            nursery.cancel_scope.cancel()
    except* (StreamBroken, trio.BrokenResourceError, trio.ClosedResourceError):
        pass  # the link has ended, and its router has logged why
    finally:
        with trio.move_on_after(1, shield=True):
            await link.aclose()


async def _pump_out(
    link: Stream, stream: trio.SocketStream, nursery: trio.Nursery, answered: Callable[[], None]
) -> None:
    while data := await link.receive_some(READ_BYTES_MAX):
        answered()
        await stream.send_all(data)
    nursery.cancel_scope.cancel()
