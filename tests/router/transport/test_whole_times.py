"""Tasks that look at something as often as others wake at the same times."""

from __future__ import annotations

import trio
import trio.testing

from router.transport.whole_times import next_whole_s


async def test_tasks_of_one_period_wake_together_whenever_they_began(autojump_clock: trio.testing.MockClock) -> None:
    woken = []

    async def look(begins_s: float, period_s: float) -> None:
        await trio.sleep(begins_s)
        await trio.sleep_until(next_whole_s(period_s))
        woken.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        for begins_s in (0.0, 0.25, 0.75):
            nursery.start_soon(look, begins_s, 1.0)
        nursery.start_soon(look, 1.0, 5.0)
    assert woken == [1.0, 1.0, 1.0, 5.0]
    assert next_whole_s(5.0) == 10.0, "at such a time it is the one after it"
