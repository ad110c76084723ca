"""One connection of a probe: how it is dialled within a time, and what is written over it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

import trio
from msgspec import Struct

from services.dmq.client.connection import Unreachable

from .listener import Listener

SILENT = "nothing more"


class ProbeLimits(Struct, frozen=True):
    """Seconds that a node has to answer or to close, and for which its silence is observed."""

    answer_s: float = 10.0
    silence_s: float = 2.0


class Place(NamedTuple):
    """Where a node is dialled. `silent`: what an error says if nobody answers there in time; `unreached`: returns what
    one says of another failure."""

    dial: Callable[[], Awaitable[trio.SocketStream]]
    silent: str
    unreached: Callable[[OSError], str]


@asynccontextmanager
async def dialled(place: Place, within_s: float) -> AsyncIterator[trio.SocketStream]:
    """Connect for the length of the block; raise `Unreachable`."""
    try:
        with trio.fail_after(within_s):
            stream = await place.dial()
    except trio.TooSlowError:
        raise Unreachable(place.silent) from None
    except OSError as error:
        raise Unreachable(place.unreached(error)) from None
    async with stream:
        yield stream


async def write(node: Listener, data: bytes, within_s: float) -> None:
    """Write; if the node has gone, reading its answer will show it."""
    try:
        with trio.move_on_after(within_s):
            await node.stream.send_all(data)
    except trio.BrokenResourceError:
        return
