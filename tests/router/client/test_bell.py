"""A ring wakes the task that waits, or is kept for the next that does; several count as one."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from router.client.bell import Bell


async def test_a_ring_is_kept_until_it_is_waited_for() -> None:
    bell = Bell()
    assert repr(bell) == "<bell, silent>"
    bell.ring()
    bell.ring()
    assert repr(bell) == "<bell, rung>"
    await bell.wait()
    assert repr(bell) == "<bell, silent>"


async def test_a_ring_wakes_the_task_that_waits_once(autojump_clock: MockClock) -> None:
    bell, woken = Bell(), list[float]()

    async def wait() -> None:
        while True:
            await bell.wait()
            woken.append(trio.current_time())

    began_s = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.sleep(1)
        bell.ring()
        bell.ring()
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert woken == [began_s + 1]


async def test_waiting_may_be_given_up(autojump_clock: MockClock) -> None:
    bell = Bell()
    with trio.move_on_after(1):
        await bell.wait()
    bell.ring()
    await bell.wait()
