"""Run functions from other threads in the thread where a connection lives."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from math import inf
from typing import TypeVar

import trio

from router.client.errors import NodeUnavailable

T = TypeVar("T")

LEFT = "this connection to the node has been left; connect again"


def nothing() -> None:
    """Do nothing more after Ctrl-C."""


class Portal:
    """Run functions in the connection's thread."""

    def __init__(self, token: trio.lowlevel.TrioToken) -> None:
        self._token = token

    def run(
        self,
        act: Callable[[], Awaitable[T]],
        timeout_s: float | None = None,
        on_interrupt: Callable[[], object] = nothing,
    ) -> T:
        """Run `act` there and wait for its result; raise `TimeoutError` after `timeout_s`. Ctrl-C cancels it, and
        `on_interrupt` is called there then, also if it was over already."""
        scope = trio.CancelScope()

        async def timed() -> T:
            with scope, trio.fail_after(inf if timeout_s is None else timeout_s):
                return await act()
            raise trio.RunFinishedError  # by Ctrl-C: the result is waited for no more

        def interrupt() -> None:
            on_interrupt()
            scope.cancel()

        try:
            return trio.from_thread.run(timed, trio_token=self._token)
        except KeyboardInterrupt:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(interrupt)
            raise
        except trio.RunFinishedError:
            raise NodeUnavailable(LEFT) from None
        except trio.TooSlowError:
            raise TimeoutError(f"not done within {timeout_s:g} s") from None

    def do(self, act: Callable[[], T]) -> T:
        """Run a function there that does not wait, and return its result."""
        try:
            return trio.from_thread.run_sync(act, trio_token=self._token)
        except trio.RunFinishedError:
            raise NodeUnavailable(LEFT) from None


class BlockingLoop(Iterator[T]):
    """A `for` loop over the items of an `async for` loop. What came as Ctrl-C ended a call is the next item."""

    def __init__(self, portal: Portal, source: AsyncIterator[T]) -> None:
        self._portal = portal
        self._source = source
        self._left: list[T] = []
        self._turn = trio.Lock()  # an interrupted call ends before the next one begins

    def __next__(self) -> T:
        found = self.next()
        if found is None:
            raise StopIteration
        return found

    def next(self, timeout_s: float | None = None) -> T | None:
        """Return the next item; None if there are no more, or none came within `timeout_s`."""
        found = list[T]()
        is_wanted = True

        async def take() -> T | None:
            async with self._turn:
                try:
                    item = self._left.pop() if self._left else await anext(self._source)
                except StopAsyncIteration:
                    return None
                (found if is_wanted else self._left).append(item)
                return item

        def give_back() -> None:
            nonlocal is_wanted
            is_wanted = False
            self._left += found

        try:
            return self._portal.run(take, timeout_s, give_back)
        except TimeoutError:
            return None
