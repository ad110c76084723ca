"""A cycle waits for as many events as the last one dealt with, for a moment; for rules that want it longer, but not
before what is urgent."""

from __future__ import annotations

import trio

from router.service import contract as c
from router.service.gathering import GATHER_S, MANY, Gathering, no_delay_s

LONG_S = 10 * GATHER_S
URGENT, PATIENT = c.Asked(1, "status"), c.Tick()
STEP_S = GATHER_S / 10


def gathering_of(events: int, delay_s: float = 0.0) -> Gathering:
    """Return one whose last cycle of so many events has just ended, of rules to which questions are urgent."""
    made = Gathering(lambda now: delay_s, lambda heard, now: heard is URGENT) if delay_s else Gathering()
    made.ended(events)
    return made


async def waited_s(gathering: Gathering, waiting: int, *later: int, heard: c.Heard = PATIENT) -> float:
    """Return how long the next cycle waits while `waiting` events wait, and soon after `later`."""
    began_s = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(gathering.until_enough, waiting)
        for number in later:
            await trio.sleep(STEP_S)
            gathering.came(heard, number)
    return trio.current_time() - began_s


def steps(found_s: float) -> int:
    return round(found_s / STEP_S)


async def test_it_waits_for_as_many_as_last_time_but_not_for_long(autojump_clock: object) -> None:
    assert await waited_s(Gathering(), 1) == 0
    gathering = gathering_of(3)
    assert await waited_s(gathering, 3) == 0
    assert steps(await waited_s(gathering, 1, 2, 3)) == 2
    gathering.ended(3)
    assert steps(await waited_s(gathering, 1, 2)) == 10
    assert await waited_s(gathering, 1) == 0  # the last cycle is long past
    gathering.ended(1)
    assert await waited_s(gathering, 1) == 0


async def test_rules_may_let_it_wait_longer_for_many(autojump_clock: object) -> None:
    assert steps(await waited_s(gathering_of(1, LONG_S), 1, 2)) == 100
    assert steps(await waited_s(gathering_of(1, LONG_S), 1, MANY)) == 1
    assert await waited_s(gathering_of(1, LONG_S), MANY) == 0


async def test_what_is_urgent_waits_as_usual(autojump_clock: object) -> None:
    gathering = gathering_of(1, LONG_S)
    gathering.came(URGENT, 1)
    assert await waited_s(gathering, 1) == 0
    gathering.ended(2)
    gathering.came(PATIENT, 1)  # the last cycle has taken the urgent one
    assert steps(await waited_s(gathering, 1)) == 100
    gathering.ended(2)
    gathering.came(URGENT, 1)
    gathering.came(PATIENT, 2)
    assert await waited_s(gathering, 2) == 0
    gathering.ended(4)
    assert steps(await waited_s(gathering, 1, 2, heard=URGENT)) == 10, "others may come at once with it, as usual"


def test_rules_without_a_delay_have_none() -> None:
    assert no_delay_s(c.Now(0, 0)) == 0
