"""Streams that a service opens itself, on real sockets."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import trio
from rigs.patience import HANG_S

from router.service.contract import Came, Connect, ConnectionFailed, Opened
from router.service.door_places import StreamPlaces
from router.service.doors import SENDERS_MAX, Doors


class Heard:
    """What the doors let the rules hear; all of it is carried out at once."""

    def __init__(self) -> None:
        self._put, self.events = trio.open_memory_channel[Any](100)

    def hear(self, event: Any, done: Callable[[], None] = lambda: None) -> None:
        self._put.send_nowait(event)
        done()

    async def came(self, came: Came) -> None:
        self.hear(came)


async def _no_router() -> Any:
    raise AssertionError


async def test_a_stream_that_was_opened_is_one_of_its_door_and_both_ends_are_told_addresses(tmp_path: Path) -> None:
    heard = Heard()
    doors = Doors(heard.came, heard.hear, _no_router, tmp_path)
    async with trio.open_nursery() as nursery:
        with trio.fail_after(HANG_S):
            await doors.open(nursery, {"desk": ""})
            [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
            place = f"127.0.0.1:{listener.socket.getsockname()[1]}"
            doors.connect(Connect("desk", f"tcp://{place}", "a tag"))
            stream = await listener.accept()
            opened = await heard.events.receive()
            assert opened == Opened("desk", opened.peer, place, "a tag")
            await stream.send_all(b"hello")
            assert await heard.events.receive() == Came("desk", opened.peer, b"hello")
            doors.write("desk", opened.peer, b"and hello")
            assert await stream.receive_some(100) == b"and hello"
            await stream.aclose()
            assert await heard.events.receive() == Came("desk", opened.peer, b"")
            await listener.aclose()
            doors.connect(Connect("desk", f"tcp://{place}", "again"))
            assert await heard.events.receive() == ConnectionFailed("desk", "again", "connection refused")
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("scheme", "host"), (("127.0.0.1", "127.0.0.1"), ("[::1]", "::1")))
async def test_who_connects_has_an_address(scheme: str, host: str, tmp_path: Path) -> None:
    heard = Heard()
    doors = Doors(heard.came, heard.hear, _no_router, tmp_path)
    async with trio.open_nursery() as nursery:
        with trio.fail_after(HANG_S):
            [listener] = await trio.open_tcp_listeners(0, host=host)
            port = listener.socket.getsockname()[1]
            await listener.aclose()
            await doors.open(nursery, {"desk": f"tcp://{scheme}:{port}"})
            async with await trio.open_tcp_stream(host, port) as stream:
                opened = await heard.events.receive()
                own = stream.socket.getsockname()
                assert opened == Opened("desk", opened.peer, f"{scheme}:{own[1]}")
        nursery.cancel_scope.cancel()


async def test_a_crowd_of_senders_at_one_door_takes_nobodys_answer_away(tmp_path: Path) -> None:
    heard = Heard()
    doors = Doors(heard.came, heard.hear, _no_router, tmp_path)
    urls = {}
    for door in ("quiet", "loud"):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
            free.bind(("127.0.0.1", 0))
            urls[door] = free.getsockname()
    async with trio.open_nursery() as nursery:
        with trio.fail_after(HANG_S), ExitStack() as crowd:
            await doors.open(nursery, {door: f"udp://{host}:{port}" for door, (host, port) in urls.items()})

            async def sent_to(door: str) -> tuple[socket.socket, Came]:
                sender = crowd.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                sender.sendto(b"hello", urls[door])
                came = await heard.events.receive()
                assert came.door == door
                return sender, came

            users = [await sent_to(door) for door in ("quiet", "loud")]
            for _ in range(SENDERS_MAX - 1):
                await sent_to("loud")
            users[1][0].sendto(b"again", urls["loud"])
            await heard.events.receive()
            await sent_to("loud")
            for sender, came in users:
                doors.write(came.door, came.peer, b"answer")
                await trio.lowlevel.wait_readable(sender)
                assert sender.recv(100) == b"answer"
        nursery.cancel_scope.cancel()


async def test_rules_open_no_more_streams_than_there_are_places_however_many_they_begin_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StreamPlaces.__init__, "__defaults__", (4,))
    heard = Heard()
    doors = Doors(heard.came, heard.hear, _no_router, tmp_path)
    async with trio.open_nursery() as nursery:
        await doors.open(nursery, {"desk": ""})
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        place = f"127.0.0.1:{listener.socket.getsockname()[1]}"
        for n in range(9):
            doors.connect(Connect("desk", f"tcp://{place}", str(n)))
        with trio.fail_after(HANG_S):
            found = [await heard.events.receive() for _ in range(9)]
        assert [type(one) for one in found].count(Opened) == 4
        assert [type(one) for one in found].count(ConnectionFailed) == 5
        await listener.aclose()
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("url", "cause"), [("tcp://nowhere", "it lacks host or port"), ("tcp://127.0.0.1:99999", "its port is above 65535")]
)
async def test_a_place_that_is_none_says_so(url: str, cause: str, tmp_path: Path) -> None:
    heard = Heard()
    doors = Doors(heard.came, heard.hear, _no_router, tmp_path)
    async with trio.open_nursery() as nursery:
        await doors.open(nursery, {})
        with trio.fail_after(HANG_S):
            doors.connect(Connect("desk", url, "a tag"))
            failed = await heard.events.receive()
        assert failed.tag == "a tag" and cause in failed.text
        nursery.cancel_scope.cancel()
