"""A host's requests to its router and its messages, in the order in which its rules have decided them."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable

import trio

from router.service.contract import Deed
from router.service.sending import ToSend

REQUESTS_MAX = 1_000
"""Number of requests to the router that wait for their turn from which on cycles wait for them, each for `PATIENCE_S`
at most: an answer may itself wait for what the next cycle settles."""
PATIENCE_S = 1.0


class RequestQueue:
    """Passes each request to `ask`, one after the other, which returns when it is sent, and messages to `send`, when
    `until_answered` returns.

    So of two requests about one key the later one holds, and a neighbour is known before messages to it; but one answer
    that is lost holds up no other request, and messages no longer than that."""

    def __init__(
        self,
        ask: Callable[[Deed], Awaitable[None]],
        send: Callable[[list[ToSend]], None],
        until_answered: Callable[[], Awaitable[None]],
    ) -> None:
        self._ask = ask
        self._send = send
        self._until_answered = until_answered
        self._waiting = deque[Deed | list[ToSend]]()
        self._came, self._gone = trio.Event(), trio.lowlevel.ParkingLot()

    def __repr__(self) -> str:
        return f"<{len(self._waiting)} requests to the router>"

    def put(self, asked: Deed | list[ToSend]) -> None:
        self._waiting.append(asked)
        self._came.set()

    async def run(self) -> None:
        while True:
            await self._came.wait()
            self._came = trio.Event()
            while self._waiting:
                asked = self._waiting.popleft()
                if isinstance(asked, list):
                    await self._until_answered()
                    self._send(asked)
                else:
                    await self._ask(asked)
                self._gone.unpark_all()

    async def until_room(self) -> None:
        """Wait while many requests wait, so that rules do not decide faster than the router hears; see
        `REQUESTS_MAX`."""
        with trio.move_on_after(PATIENCE_S):
            while len(self._waiting) >= REQUESTS_MAX:
                await self._gone.park()
