"""A deadline leaves out stalls of the loop, and ends a block in time otherwise."""

from __future__ import annotations

import time
from math import inf

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from router.transport import patience as module
from router.transport.patience import STALL_S, patient

PATIENCE_S = 2 * STALL_S


async def test_what_came_during_a_stall_is_read_and_the_rest_of_the_time_remains() -> None:
    ours, theirs = trio.socket.socketpair()
    read = list[bytes]()

    async def wait() -> None:
        with patient(PATIENCE_S):
            while data := await ours.recv(10):
                read.append(data)
                await trio.lowlevel.checkpoint()

    with ours:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await wait_all_tasks_blocked()
            with theirs:
                await theirs.send(b"before")
                time.sleep(2 * PATIENCE_S)
                await theirs.send(b"after")
    assert b"".join(read) == b"beforeafter"


async def test_a_stall_behind_others_counts_for_none_of_the_waits() -> None:
    """What is shortened after a stall is judged by the time without it."""
    with patient(10 * PATIENCE_S) as patience:
        time.sleep(2 * PATIENCE_S)
        await trio.lowlevel.checkpoint()
        patience.shorten(PATIENCE_S)
        await trio.lowlevel.checkpoint()
        assert patience.spent_s < PATIENCE_S
    assert not patience.scope.cancelled_caught


async def test_a_block_ends_when_its_time_is_over(autojump_clock: MockClock) -> None:
    began_s = trio.current_time()
    with patient(7) as patience:
        await trio.sleep_forever()
    assert patience.scope.cancelled_caught and trio.current_time() - began_s == 7
    with patient(7) as patience:
        await trio.sleep(5)
        patience.begin_anew(inf)
        await trio.sleep(100)
        patience.begin_anew(9)
        patience.shorten(3)
        await trio.sleep_forever()
    assert trio.current_time() - began_s == 7 + 5 + 100 + 3


async def test_nothing_is_measured_while_nobody_waits(autojump_clock: MockClock) -> None:
    with patient(7), patient(inf):
        found = module._stalls.get()
        assert found is not None and len(found._open) == 1
    assert not found._open
