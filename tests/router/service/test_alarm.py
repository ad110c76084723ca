"""The alarm rings at the time that was set last, once."""

from __future__ import annotations

import socket
import time

import pytest
import trio
import trio.testing

from router.service.alarm import Alarm


async def test_the_alarm_rings_at_the_time_set_last_and_once(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_000 + trio.current_time())
    rung: list[float] = []
    alarm, began_s = Alarm(lambda: rung.append(trio.current_time() - began_s)), trio.current_time()
    alarm.set(time.time() + 3)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(alarm.run)
        await trio.sleep(1)
        alarm.set(time.time() + 9)
        alarm.set(time.time() + 4)
        await trio.sleep(20)
        alarm.set(time.time() - 5)
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert rung == [5, 21]


async def test_an_alarm_that_is_set_later_while_it_goes_off_rings_later(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_000 + trio.current_time())
    rung: list[float] = []
    alarm, began_s = Alarm(lambda: rung.append(trio.current_time() - began_s)), trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(alarm.run)
        await trio.testing.wait_all_tasks_blocked()
        alarm.set(time.time())  # due now; its task has not run yet
        alarm._scope.cancel()
        alarm.set(time.time() + 7)
        await trio.sleep(30)
        nursery.cancel_scope.cancel()
    assert rung == [7]


async def test_an_alarm_after_a_stall_of_the_loop_rings_behind_what_came_meanwhile(
    mock_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes pass through another task, as those of a door with TLS do."""
    monkeypatch.setattr(time, "time", lambda: 1_000 + trio.current_time())
    heard, done = list[str](), trio.Event()

    def ring() -> None:
        heard.append("alarm")
        done.set()

    far, own = socket.socketpair()
    near, outer, inner = (trio.socket.from_stdlib_socket(one) for one in (own, *socket.socketpair()))
    alarm = Alarm(ring)

    async def carry() -> None:
        await outer.send(await near.recv(10))

    async def read() -> None:
        heard.append((await inner.recv(10)).decode())

    with far, near, outer, inner:
        async with trio.open_nursery() as nursery:
            alarm.set(time.time() + 10)
            for task in (alarm.run, carry, read):
                nursery.start_soon(task)
            await trio.testing.wait_all_tasks_blocked()
            far.send(b"bytes")
            mock_clock.jump(20)
            await done.wait()
            nursery.cancel_scope.cancel()
    assert heard == ["bytes", "alarm"]
