"""Inbox and answers: threads, limits, and calls that must not block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pykka
import pytest
import trio
from rigs.patience import HANG_S
from rigs.recorder import Recorder, Sleeper, ask, tell_all
from trio.testing import MockClock

from router.actors.actor import actor_system
from router.actors.inbox import InboxFull, WouldBlock


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    yield
    assert pykka.ActorRegistry.get_all() == []


async def test_tell_from_another_thread() -> None:
    diary: list[Any] = []
    async with actor_system():
        ref = Recorder.start(diary)
        await trio.to_thread.run_sync(tell_all, ref, range(1000))
        assert await trio.to_thread.run_sync(lambda: ref.ask("blocking ask", timeout=HANG_S)) == "blocking ask"
    assert diary[1:-1] == [*range(1000), "blocking ask"]


async def test_asks_async_handlers_and_proxies(autojump_clock: MockClock) -> None:
    async with actor_system():
        ref = Sleeper.start([], "dormouse")
        assert await ask(ref, 5) == "slept 5 s"
        assert trio.current_time() == 5
        proxy = ref.proxy()
        assert await proxy.double(21) == 42
        assert await proxy.name == "dormouse"
        future = ref.ask(0, block=False)
        assert await future == await future == future.get()


async def test_blocking_inside_trio_raises_instead_of_standing_still() -> None:
    async with actor_system():
        ref = Recorder.start([])
        with pytest.raises(WouldBlock, match=r"await ref\.ask"):
            ref.ask("what?")
        with pytest.raises(WouldBlock):
            ref.stop()
    assert await ref.stop(block=False) is False


class Small(Recorder):
    inbox_messages_max = 2


async def test_a_full_inbox_refuses_what_is_told_and_still_takes_questions() -> None:
    diary: list[Any] = []
    async with actor_system():
        ref = Small.start(diary)
        ref.tell(1)
        ref.tell(2)
        with pytest.raises(InboxFull, match="2 messages wait"):
            ref.tell(3)
        assert await ask(ref, "question") == "question"
        ref.tell(4)
    assert diary == ["recorder starts", 1, 2, "question", 4, "recorder stops"]


class Blocking(pykka.ThreadingActor):
    """A service that must block: it asks a trio actor from its own thread."""

    def on_receive(self, message: Any) -> Any:
        return message.ask("from the thread", timeout=HANG_S)


async def test_beside_a_threading_actor() -> None:
    diary: list[Any] = []
    async with actor_system():
        trio_ref, thread_ref = Recorder.start(diary), Blocking.start()
        try:
            answer = thread_ref.ask(trio_ref, block=False)
            assert await trio.to_thread.run_sync(answer.get) == "from the thread"
            assert await trio_ref.ask("from trio", block=False) == "from trio"
        finally:
            assert await trio.to_thread.run_sync(thread_ref.stop(block=False).get) is True
    assert diary[1:-1] == ["from the thread", "from trio"]


async def test_a_thread_may_tell_after_the_end_of_trio() -> None:
    refs: list[pykka.ActorRef[Any]] = []

    async def main() -> None:
        async with actor_system():
            refs.append(Recorder.start([]))

    await trio.to_thread.run_sync(trio.run, main)
    with pytest.raises(pykka.ActorDeadError):
        refs[0].ask("anybody there?", block=False).get()
