"""A cycle waits for as many events as the last one dealt with, for a moment."""

from __future__ import annotations

import trio

from router.service.gathering import GATHER_S, MANY, Gathering


async def waited_s(gathering: Gathering, waiting: int, *later: int, delay_s: float = 0.0) -> float:
    """Return how long the next cycle waits while `waiting` events wait, and soon after `later`."""
    began_s = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(gathering.until_enough, waiting, delay_s)
        for number in later:
            await trio.sleep(GATHER_S / 10)
            gathering.came(number)
    return trio.current_time() - began_s


async def test_it_waits_for_as_many_as_last_time_but_not_for_long(autojump_clock: object) -> None:
    gathering = Gathering()
    assert await waited_s(gathering, 1) == 0
    gathering.ended(3)
    assert await waited_s(gathering, 3) == 0
    assert abs(await waited_s(gathering, 1, 2, 3) - GATHER_S * 0.2) < 1e-9
    gathering.ended(3)
    assert abs(await waited_s(gathering, 1, 2) - GATHER_S) < 1e-9
    assert await waited_s(gathering, 1) == 0  # the last cycle is long past
    gathering.ended(1)
    assert await waited_s(gathering, 1) == 0


async def test_rules_may_let_it_wait_longer_for_many(autojump_clock: object) -> None:
    gathering = Gathering()
    gathering.ended(1)
    assert abs(await waited_s(gathering, 1, 2, delay_s=0.01) - 0.01) < 1e-9
    gathering.ended(1)
    assert abs(await waited_s(gathering, 1, MANY, delay_s=0.01) - GATHER_S * 0.1) < 1e-9
    gathering.ended(1)
    assert await waited_s(gathering, MANY, delay_s=0.01) == 0
