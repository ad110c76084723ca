"""The supervisor under a mock clock: growing pauses, their reset after a calm life, and an end on purpose."""

from __future__ import annotations

from typing import Any

import pykka
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from router.actors.actor import TrioActor, actor_system
from router.actors.supervisor import Supervisor
from router.core.service.back_off import BackOff
from router.core.wire.errors import RouterError


class Service(TrioActor):
    """Fails when told to, and notes when it starts."""

    def __init__(self, starts: list[float]) -> None:
        super().__init__()
        self.starts = starts

    def on_start(self) -> None:
        self.starts.append(trio.current_time())

    def on_receive(self, message: Any) -> None:
        raise OSError(message)


class Busy(Service):
    """Fails with a sentence for its operator."""

    def on_start(self) -> None:
        raise RouterError("the socket is in use")


async def child_of(supervisor: pykka.ActorRef[Supervisor]) -> pykka.ActorRef[Any]:
    child: pykka.ActorRef[Any] | None = await supervisor.proxy().child
    assert child is not None
    return child


async def test_what_fails_is_started_again(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    starts: list[float] = []
    async with actor_system():
        back_off = BackOff(pause_s_min=1, pause_s_max=4, calm_s=60)
        supervisor = Supervisor.start(lambda: Service.start(starts), lambda: 1.0, back_off)
        for pause_s in (1, 2, 4, 4, 4):
            (await child_of(supervisor)).tell("broken")
            await trio.sleep(pause_s + 0.5)
        assert await supervisor.proxy().failures_in_a_row == 5
        await trio.sleep(60)
        (await child_of(supervisor)).tell("broken after a calm life")
        await trio.sleep(1.5)
        assert await supervisor.proxy().failures_in_a_row == 1
        assert supervisor.is_alive()
    assert starts == [0, 1, 3.5, 8, 12.5, 17, 78.5]
    assert "Service failed (5 in a row): OSError('broken'); starting again in 4.0 s" in caplog.text


async def test_one_that_cannot_even_be_made_is_tried_again(autojump_clock: MockClock) -> None:
    starts: list[float] = []

    def start() -> pykka.ActorRef[Any]:
        if trio.current_time() < 100:
            raise FileNotFoundError("no key yet")
        return Service.start(starts)

    async with actor_system():
        Supervisor.start(start, lambda: 1.0, BackOff(pause_s_min=1, pause_s_max=8))
        await trio.sleep(200)
    assert len(starts) == 1 and 100 <= starts[0] <= 108


async def test_one_that_was_stopped_stays_stopped(autojump_clock: MockClock) -> None:
    starts: list[float] = []
    async with actor_system():
        supervisor = Supervisor.start(lambda: Service.start(starts), lambda: 1.0, BackOff(1, 10))
        (await child_of(supervisor)).tell(pykka.messages._ActorStop())
        await trio.sleep(1000)
        assert not supervisor.is_alive()
    assert starts == [0]


async def test_what_fails_for_a_known_cause_is_logged_once(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    starts: list[float] = []
    async with actor_system():
        Supervisor.start(lambda: Busy.start(starts), lambda: 1.0, BackOff(1, 10), name="the service busy")
        await trio.sleep(0.5)
    assert caplog.messages == ["the service busy failed (1 in a row): the socket is in use; starting again in 1.0 s"]


async def test_one_that_is_given_up_is_not_started_again(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    starts: list[float] = []
    heard: list[str] = []

    def on_problem(text: str) -> bool:
        heard.append(text)
        return len(heard) == 2

    async with actor_system():
        supervisor = Supervisor.start(
            lambda: Busy.start(starts), lambda: 1.0, BackOff(1, 10), on_problem=on_problem, name="the service busy"
        )
        await trio.sleep(1000)
        assert not supervisor.is_alive()
    assert heard == ["the socket is in use"] * 2
    assert caplog.messages == ["the service busy failed (1 in a row): the socket is in use; starting again in 1.0 s"]


async def test_stopping_the_supervisor_stops_its_actor_and_a_waiting_start(autojump_clock: MockClock) -> None:
    starts: list[float] = []
    async with actor_system():
        running = Supervisor.start(lambda: Service.start(starts), lambda: 1.0, BackOff(1, 10))
        child = await child_of(running)
        waiting = Supervisor.start(lambda: Service.start(starts), lambda: 1.0, BackOff(pause_s_min=50, pause_s_max=50))
        (await child_of(waiting)).tell("broken")
        await wait_all_tasks_blocked()
    assert trio.current_time() == 0
    assert not child.is_alive()
    assert len(starts) == 2
