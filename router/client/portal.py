"""Run functions from other threads in the thread where a connection lives."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TypeVar

import trio

from router.client.errors import NodeUnavailable

T = TypeVar("T")

LEFT = "this connection to the node has been left; connect again"


class Portal:
    """Run functions in the connection's thread."""

    def __init__(self, token: trio.lowlevel.TrioToken) -> None:
        self._token = token

    def run(self, act: Callable[[], Awaitable[T]], timeout_s: float | None = None) -> T:
        """Run `act` there and wait for its result; raise `TimeoutError` after `timeout_s`."""

        async def timed() -> T:
            if timeout_s is None:
                return await act()
            with trio.fail_after(timeout_s):
                return await act()

        try:
            return trio.from_thread.run(timed, trio_token=self._token)
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
    """A `for` loop over the items of an `async for` loop."""

    def __init__(self, portal: Portal, source: AsyncIterator[T]) -> None:
        self._portal = portal
        self._source = source

    def __next__(self) -> T:
        found = self.next()
        if found is None:
            raise StopIteration
        return found

    def next(self, timeout_s: float | None = None) -> T | None:
        """Return the next item; None if there are no more, or none came within `timeout_s`."""
        try:
            return self._portal.run(self._next, timeout_s)
        except TimeoutError:
            return None

    async def _next(self) -> T | None:
        try:
            return await anext(self._source)
        except StopAsyncIteration:
            return None
