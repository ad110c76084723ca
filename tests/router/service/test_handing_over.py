"""Streams that the rules hand over to the router, on real sockets: the router gets every byte, in order."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from rigs.patience import HANG_S
from trio.testing import wait_all_tasks_blocked

from router.service.contract import Came, HandOver
from router.service.door_places import STREAMS_MAX
from router.service.doors import Doors
from router.service.rules_host import RulesHost
from router.transport.proxy_header import header_for
from transports.memory import MemoryStream, stream_pair

Done = Callable[[], None]


def nothing() -> None:
    """Do nothing: nobody waits for it."""


async def test_what_was_read_ahead_of_the_decision_goes_to_the_router_too(tmp_path: Path) -> None:
    """The rules hear the second part of the stream before what follows from the first is carried out."""
    put, told = trio.open_memory_channel[tuple[Any, Done]](10)
    ours, router = stream_pair("memory")

    async def dial() -> MemoryStream:
        return ours

    async def came(heard: Came) -> None:
        put.send_nowait((heard, nothing))

    def hear(heard: Any, done: Done = nothing) -> None:
        put.send_nowait((heard, done))

    doors = Doors(came, hear, dial, tmp_path)
    async with trio.open_nursery() as nursery:
        with trio.fail_after(HANG_S):
            await doors.open(nursery, {"desk": "unix:desk.sock"})
            async with await trio.open_unix_socket(tmp_path / "desk.sock") as guest:
                opened, _ = await told.receive()
                await guest.send_all(b"LINK\none ")
                first, first_done = await told.receive()
                assert first.data == b"LINK\none " and not doors.is_handed(first)
                await guest.send_all(b"two ")
                second, second_done = await told.receive()
                doors.decide(HandOver("desk", opened.peer, b"one "))
                assert second.data == b"two " and doors.is_handed(second)
                doors.hand("desk", opened.peer)
                first_done()
                await guest.send_all(b"three")
                await wait_all_tasks_blocked()
                second_done()
                expected, received = header_for("") + b"one two three", b""
                while len(received) < len(expected):
                    received += await router.receive_some(100)
                assert received == expected and told.statistics().current_buffer_used == 0
                await router.send_all(b"from the router")
                assert await guest.receive_some(100) == b"from the router"
        nursery.cancel_scope.cancel()


async def test_of_very_many_streams_that_were_handed_over_the_oldest_gives_way(tmp_path: Path) -> None:
    """Known ones do not; the places of the door are free for others."""
    put, told = trio.open_memory_channel[tuple[Any, Done]](10)
    routers: list[MemoryStream] = []

    async def dial() -> MemoryStream:
        ours, router = stream_pair("memory")
        routers.append(router)
        return ours

    def hear(heard: Any, done: Done = nothing) -> None:
        put.send_nowait((heard, done))
        done()

    async def came(heard: Came) -> None:
        hear(heard)

    doors = Doors(came, hear, dial, tmp_path)
    async with trio.open_nursery() as nursery, AsyncExitStack() as guests:
        with trio.fail_after(HANG_S):
            await doors.open(nursery, {"desk": "unix:desk.sock"})
            streams = []
            for number in range(STREAMS_MAX + 1):
                streams.append(await guests.enter_async_context(await trio.open_unix_socket(tmp_path / "desk.sock")))
                opened, _ = await told.receive()
                if number == 0:
                    doors.mark_known("desk", opened.peer)
                doors.decide(HandOver("desk", opened.peer, b"%d" % number))
                doors.hand("desk", opened.peer)
                await wait_all_tasks_blocked()
            assert await streams[1].receive_some(1) == b""
            await routers[0].send_all(b"still here")
            assert await streams[0].receive_some(100) == b"still here"
            assert [await one.receive_some(100) for one in routers[-2:]] == [
                header_for("") + b"%d" % (STREAMS_MAX - 1),
                header_for("") + b"%d" % STREAMS_MAX,
            ]
        nursery.cancel_scope.cancel()


async def test_router_that_has_hung_up_ends_the_one_stream_that_is_handed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a node does that stops, or has no place for a guest; all else at the doors goes on."""
    put, told = trio.open_memory_channel[Any](10)

    async def dial(*_: Any, **__: Any) -> MemoryStream:
        ours, router = stream_pair("memory")
        await router.aclose()
        return ours

    def hear(heard: Any, done: Done = nothing) -> None:
        put.send_nowait(heard)
        done()

    async def came(heard: Came) -> None:
        hear(heard)

    monkeypatch.setattr("router.service.rules_host.transport.dial", dial)
    host = SimpleNamespace(place=SimpleNamespace(guests="", key=None))
    doors = Doors(came, hear, partial(RulesHost._dial_as_guest, host), tmp_path)  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        with trio.fail_after(HANG_S):
            await doors.open(nursery, {"desk": "unix:desk.sock"})
            streams = [await trio.open_unix_socket(tmp_path / "desk.sock") for _ in range(2)]
            first, second = [await told.receive() for _ in range(2)]
            doors.decide(HandOver("desk", first.peer))
            doors.hand("desk", first.peer)
            assert await streams[0].receive_some(1) == b""
            doors.write("desk", second.peer, b"still here")
            assert await streams[1].receive_some(100) == b"still here"
            for one in streams:
                await one.aclose()
        nursery.cancel_scope.cancel()


async def test_stream_is_passed_on_behind_what_was_written_before(tmp_path: Path) -> None:
    """A guest that reads late gets the answer whole, and then what the router says."""
    put, told = trio.open_memory_channel[tuple[Any, Done]](10)
    ours, router = stream_pair("memory")

    async def dial() -> MemoryStream:
        return ours

    def hear(heard: Any, done: Done = nothing) -> None:
        put.send_nowait((heard, done))
        done()

    async def came(heard: Came) -> None:
        hear(heard)

    doors = Doors(came, hear, dial, tmp_path)
    async with trio.open_nursery() as nursery:
        with trio.fail_after(HANG_S):
            await doors.open(nursery, {"desk": "unix:desk.sock"})
            async with await trio.open_unix_socket(tmp_path / "desk.sock") as guest:
                opened, _ = await told.receive()
                answer = bytes(1 << 20)
                doors.write("desk", opened.peer, answer)
                doors.decide(HandOver("desk", opened.peer, b"link", ip="2001:db8::7"))
                doors.hand("desk", opened.peer)
                await wait_all_tasks_blocked()
                await router.send_all(b"from the router")
                received = b""
                while len(received) < len(answer) + len(b"from the router"):
                    received += await guest.receive_some(1 << 16)
                assert received == answer + b"from the router"
                assert await router.receive_some(100) == header_for("[2001:db8::7]:0") + b"link"
        nursery.cancel_scope.cancel()
