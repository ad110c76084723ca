"""Feeds: bounded, read by loops or not at all."""

from __future__ import annotations

import trio
from trio.testing import wait_all_tasks_blocked

from router.client.feed import Feed


async def test_the_oldest_give_way() -> None:
    feed: Feed[int] = Feed(most=3)
    for number in range(5):
        feed.tell(number)
    assert (feed.unread(), feed.total, feed.forgotten, len(feed)) == ([2, 3, 4], 5, 2, 3)
    assert repr(feed) == "<feed: 3 unread of 5>"
    assert await anext(feed) == 2
    feed.end()
    assert [one async for one in feed] == [3, 4]


async def test_loops_wait() -> None:
    feed: Feed[str] = Feed()
    heard: list[str] = []

    async def read() -> None:
        async for one in feed:
            heard.append(one)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        nursery.start_soon(read)
        await wait_all_tasks_blocked()
        feed.tell("a")
        feed.tell("b")
        await wait_all_tasks_blocked()
        assert sorted(heard) == ["a", "b"]
        feed.end()
