"""News that an app may read or ignore: bounded, the oldest are dropped first."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

import trio

from router.client.interrupts import uninterrupted

log = logging.getLogger(__name__)

NEWS_MAX = 256

T = TypeVar("T")


@uninterrupted
class Feed(Generic[T]):
    """`async for` takes the news one by one, waiting for more until the feed ends.

    At most `most` are kept; beyond that the oldest is dropped and counted in `forgotten`. `total` counts all news ever
    received.
    """

    def __init__(self, most: int = NEWS_MAX) -> None:
        self._news: deque[T] = deque(maxlen=most)
        self._lot = trio.lowlevel.ParkingLot()
        self._ended = False
        self.total = 0
        self.forgotten = 0

    def __repr__(self) -> str:
        return f"<feed: {len(self._news)} unread of {self.total}>"

    def __len__(self) -> int:
        """Return the number of unread news."""
        return len(self._news)

    def unread(self) -> list[T]:
        """Return the unread news and leave them unread."""
        return list(self._news)

    def tell(self, one: T) -> None:
        self.total += 1
        self.forgotten += len(self._news) == self._news.maxlen
        self._news.append(one)
        self._lot.unpark_all()

    def end(self) -> None:
        """Let loops end once they have read the rest."""
        self._ended = True
        self._lot.unpark_all()

    def __aiter__(self) -> Feed[T]:
        return self

    async def __anext__(self) -> T:
        await trio.lowlevel.checkpoint()
        while not self._news:
            if self._ended:
                raise StopAsyncIteration
            await self._lot.park()
        return self._news.popleft()


class Problems(Feed[str]):
    """Sentences about messages that could not be given to the app. Each goes to `on_problem` as well, or else to the
    log."""

    def __init__(self, on_problem: Callable[[str], None] | None) -> None:
        super().__init__()
        self._on_problem = on_problem

    def tell(self, one: str) -> None:
        super().tell(one)
        if self._on_problem is None:
            log.warning("%s", one)
        else:
            self._on_problem(one)
