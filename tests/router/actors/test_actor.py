"""Actors as trio tasks: messages, the order in which they end, and who is notified of a failure."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pykka
import pytest
import trio
from rigs.recorder import Recorder, Sleeper, ask, tell_all
from trio.testing import MockClock, wait_all_tasks_blocked

from router.actors.actor import ActorFailed, actor_system, as_failure
from router.core.wire.crypto import SigningKey


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    yield
    assert pykka.ActorRegistry.get_all() == []


class Fatal(Recorder):
    fatal = True


class Parent(Recorder):
    """Starts the actor that a given function starts; keeps a task of its own."""

    async def _work(self) -> None:
        try:
            await trio.sleep_forever()
        finally:
            self.diary.append(f"{self.name}'s task ends")

    def on_start(self) -> None:
        super().on_start()
        self.nursery.start_soon(self._work)

    def on_receive(self, message: Any) -> Any:
        return message() if callable(message) else super().on_receive(message)


async def test_what_is_told_is_handled_in_order_and_before_the_end() -> None:
    diary: list[Any] = []
    async with actor_system():
        ref = Recorder.start(diary)
        tell_all(ref, range(1000))
    assert diary == ["recorder starts", *range(1000), "recorder stops"]
    with pytest.raises(pykka.ActorDeadError):
        ref.tell("too late")
    with pytest.raises(pykka.ActorDeadError):
        await ask(ref, "too late")


async def test_an_exception_in_an_ask_goes_to_the_asker() -> None:
    diary: list[Any] = []
    async with actor_system():
        ref = Recorder.start(diary)
        with pytest.raises(ValueError, match="bad question"):
            await ask(ref, ValueError("bad question"))
        assert await ask(ref, "still here") == "still here"
    assert diary == ["recorder starts", "still here", "recorder stops"]


async def test_an_exception_in_a_tell_ends_the_actor_and_no_other(caplog: pytest.LogCaptureFixture) -> None:
    diary: list[Any] = []
    async with actor_system():
        parent = Parent.start(diary, "parent")
        child = await ask(parent, lambda: Recorder.start(diary, "child"))
        child.tell(ValueError("bad order"))
        with pytest.raises(pykka.ActorDeadError):
            await ask(child, "never read")
        assert await ask(parent, "still here") == "still here"
    assert diary == [
        "parent starts",
        "child starts",
        "child fails: ValueError('bad order')",
        "parent lost Recorder: ValueError('bad order')",
        "still here",
        "parent's task ends",
        "parent stops",
    ]
    assert [record.getMessage().split()[::2] for record in caplog.records] == [["Recorder", "failed"]]


class BadStart(Recorder):
    def on_start(self) -> None:
        raise OSError("no room")


class BadTask(Recorder):
    async def _work(self) -> None:
        raise OSError("wire cut")

    def on_start(self) -> None:
        self.nursery.start_soon(self._work)


class BadEnd(Recorder):
    def on_stop(self) -> None:
        raise OSError("lost the pen")


@pytest.mark.parametrize(("kind", "text"), [(BadStart, "no room"), (BadTask, "wire cut")])
async def test_a_failing_hook_or_task_ends_the_actor(
    kind: type[Recorder], text: str, caplog: pytest.LogCaptureFixture
) -> None:
    diary: list[Any] = []
    async with actor_system():
        ref = kind.start(diary)
        await wait_all_tasks_blocked()
        with pytest.raises(pykka.ActorDeadError):
            await ask(ref, "never read")
    assert diary == [f"recorder fails: OSError('{text}')"]
    assert len(caplog.records) == 1


def test_of_several_failures_the_first_is_reported_with_those_that_followed() -> None:
    first, second = ValueError("first"), KeyError("second")
    assert as_failure(ExceptionGroup("tasks", [ExceptionGroup("inner", [first]), second])) is first
    assert first.__notes__ == ["after it: KeyError('second')"]


async def test_a_failing_last_hook_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with actor_system():
        BadEnd.start([])
    assert "failed while it ended" in caplog.text


@pytest.mark.parametrize("crash", [False, True])
async def test_they_end_in_reverse_order_children_first(crash: bool) -> None:
    diary: list[Any] = []
    try:
        async with actor_system():
            parent = Parent.start(diary, "parent")
            await ask(parent, lambda: Recorder.start(diary, "elder"))
            await ask(parent, lambda: Recorder.start(diary, "younger"))
            await ask(Recorder.start(diary, "last"), "ready")
            diary.clear()
            if crash:
                raise KeyError("out of the block")
    except* KeyError:
        pass
    diary.remove("parent's task ends")
    assert diary == ["last stops", "younger stops", "elder stops", "parent stops"]


async def test_stopping_one_actor_is_awaitable_and_ends_its_children() -> None:
    diary: list[Any] = []
    async with actor_system():
        parent = Parent.start(diary, "parent")
        child = await ask(parent, lambda: Recorder.start(diary, "child"))
        child.tell("last order")
        assert await parent.stop(block=False) is True
        assert diary[-4:] == ["last order", "child stops", "parent's task ends", "parent stops"]
        assert not child.is_alive()


async def test_a_fatal_actor_brings_the_system_down_in_order() -> None:
    diary: list[Any] = []
    with pytest.raises(ExceptionGroup) as raised:
        async with actor_system():
            Recorder.start(diary, "elder")
            fatal = Fatal.start(diary, "store")
            Recorder.start(diary, "younger")
            await wait_all_tasks_blocked()
            fatal.tell(OSError("disk gone"))
            await trio.sleep_forever()
    [failure] = raised.value.exceptions
    assert isinstance(failure, ActorFailed) and "OSError: disk gone" in str(failure)
    assert isinstance(failure.__cause__, OSError)
    assert diary[3:] == ["store fails: OSError('disk gone')", "younger stops", "elder stops"]


async def test_a_fatal_child_takes_its_parent_along() -> None:
    diary: list[Any] = []
    async with actor_system():
        parent = Parent.start(diary, "parent")
        child = await ask(parent, lambda: Fatal.start(diary, "child"))
        child.tell(OSError("disk gone"))
        await wait_all_tasks_blocked()
        assert not parent.is_alive()
    assert diary[-1].startswith("parent fails: ActorFailed('Fatal ")


async def test_an_actor_that_does_not_stop_in_time_is_cancelled(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    diary: list[Any] = []
    async with actor_system(stop_s=3):
        slow = Sleeper.start(diary, "slow")
        running, queued = slow.ask(1000, block=False), slow.ask(1, block=False)
    assert trio.current_time() == 3
    for future, text in ((running, "while it handled"), (queued, "before it handled")):
        with pytest.raises(pykka.ActorDeadError, match=text):
            await future
    assert diary == ["slow starts", "slow stops"]
    assert "did not stop within 3 s" in caplog.text


async def test_cancelling_the_system_ends_at_once(autojump_clock: MockClock) -> None:
    diary: list[Any] = []
    with trio.move_on_after(1):
        async with actor_system():
            Sleeper.start(diary, "elder").tell(1000)
            Sleeper.start(diary, "younger").tell(1000)
    assert trio.current_time() == 1
    assert diary[2:] == ["younger stops", "elder stops"]


async def test_an_actor_starts_only_where_somebody_ends_it() -> None:
    with pytest.raises(RuntimeError, match=r"Recorder must be started in trio, inside .*actor_system"):
        Recorder.start([])
    async with actor_system():
        with pytest.raises(RuntimeError, match="must be started in trio"):
            await trio.to_thread.run_sync(lambda: Recorder.start([]))


class Heir(Recorder):
    async def _work(self) -> None:
        try:
            await trio.sleep_forever()
        finally:
            try:
                Recorder.start(self.diary)
            except RuntimeError as error:
                self.diary.append(str(error))

    def on_start(self) -> None:
        self.nursery.start_soon(self._work)


async def test_nobody_is_born_into_an_ending_family() -> None:
    diary: list[Any] = []
    async with actor_system():
        await ask(Heir.start(diary), "ready")
    assert diary[1].startswith("Recorder cannot be started: Heir ") and diary[1].endswith("is ending")


async def test_it_reads_like_a_sentence() -> None:
    address = SigningKey(bytes(32)).public

    class Addressed(Recorder):
        def __init__(self) -> None:
            super().__init__([])
            self.address = address
            seen.append(self)

    seen: list[Addressed] = []
    async with actor_system():
        ref = Addressed.start()
        ref.tell("hello")
        name = f"Addressed {address.hex()[:12]}"
        assert repr(seen[0]) == f"<{name}: running, 1 messages wait>"
    assert repr(seen[0]) == f"<{name}: ended, 0 messages wait>"


@pytest.fixture
async def system() -> AsyncIterator[Callable[[str], Awaitable[Any]]]:
    async with actor_system():
        ref = Recorder.start([])
        yield lambda message: ask(ref, message)


async def test_a_fixture_may_hold_the_system(system: Callable[[str], Awaitable[Any]]) -> None:
    assert await system("hello") == "hello"


async def test_a_burst_lets_other_tasks_in() -> None:
    turns: list[int] = []

    async def other() -> None:
        while len(turns) < 3:
            turns.append(len(diary))
            await trio.lowlevel.checkpoint()

    diary: list[Any] = []
    async with actor_system() as nursery:
        ref = Recorder.start(diary)
        tell_all(ref, range(10_000))
        nursery.start_soon(other)
    assert len(turns) == 3 and max(turns) < 10_000
