"""Streams dialled from the port of a door, on real sockets; and how a crowded door goes on accepting."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from rigs.patience import HANG_S
from rigs.ports import free_port

from router.service.contract import Came, Connect, ConnectionFailed, Opened
from router.service.door_places import USUAL, DoorBounds
from router.service.door_sharing import SHARED, SHARED_BOUNDS
from router.service.doors import DoorError, Doors
from router.service.streams import Streams


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


def place(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@asynccontextmanager
async def side(home: Path, at: str) -> AsyncIterator[tuple[Doors, Heard]]:
    """Open doors with one that shares its port, for the block."""
    heard = Heard()
    doors = Doors(heard.came, heard.hear, _no_router, home)
    async with trio.open_nursery() as nursery:
        with trio.fail_after(HANG_S):
            await doors.open(nursery, {"nodes": f"tcp://{at}?{SHARED}"})
            yield doors, heard
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("host", ("127.0.0.1", "::1"))
async def test_a_stream_comes_from_where_its_door_listens(host: str, tmp_path: Path) -> None:
    one, other = place(host, free_port()), place(host, free_port())
    async with side(tmp_path, one) as (doors, heard), side(tmp_path, other) as (doors_there, there):
        doors.connect(Connect("nodes", f"tcp://{other}", "a tag", one))
        opened, accepted = await heard.events.receive(), await there.events.receive()
        assert opened == Opened("nodes", opened.peer, other, "a tag")
        assert accepted == Opened("nodes", accepted.peer, one), "the other end knows it by where it listens"
        doors_there.connect(Connect("nodes", f"tcp://{one}", "back", other))
        failed = await there.events.receive()
        assert isinstance(failed, ConnectionFailed), "there is one connection of two nodes"
        doors.write("nodes", opened.peer, b"")
        assert await there.events.receive() == Came("nodes", accepted.peer, b"")
        assert await heard.events.receive() == Came("nodes", opened.peer, b"")
        doors.connect(Connect("nodes", f"tcp://{other}", "again", one))
        again = await heard.events.receive()
        assert isinstance(again, Opened), "it may be dialled again at once"


async def test_a_door_is_not_connected_to_itself(tmp_path: Path) -> None:
    """The kernel would do so: a dial from a port to that port meets itself, as if both ends had dialled."""
    port = free_port()
    async with side(tmp_path, f"0.0.0.0:{port}") as (doors, heard):
        doors.connect(Connect("nodes", f"tcp://127.0.0.1:{port}", "a tag", f"0.0.0.0:{port}"))
        failed = await heard.events.receive()
        assert isinstance(failed, ConnectionFailed) and "this program itself listens there" in failed.text


async def test_a_second_one_at_a_shared_port_is_refused_while_streams_come_from_there(tmp_path: Path) -> None:
    one, other = place("127.0.0.1", free_port()), place("127.0.0.1", free_port())
    async with side(tmp_path, one) as (doors, heard), side(tmp_path, other):
        doors.connect(Connect("nodes", f"tcp://{other}", "a tag", one))
        assert isinstance(await heard.events.receive(), Opened)
        for at in (one, one.replace("127.0.0.1", "0.0.0.0")):
            second = Doors(heard.came, heard.hear, _no_router, tmp_path)
            async with trio.open_nursery() as nursery:
                with pytest.raises(DoorError, match="another program listens there: stop it, or name another place"):
                    await second.open(nursery, {"nodes": f"tcp://{at}?{SHARED}"})
                nursery.cancel_scope.cancel()


async def test_a_door_at_the_address_of_another_machine_says_which_address_serves_all(tmp_path: Path) -> None:
    there = place("192.0.2.1", free_port())
    async with side(tmp_path, place("127.0.0.1", free_port())) as (_, heard):
        second = Doors(heard.came, heard.hear, _no_router, tmp_path)
        async with trio.open_nursery() as nursery:
            with pytest.raises(DoorError, match=r"none of this machine: 0\.0\.0\.0, .* stands for all"):
                await second.open(nursery, {"nodes": f"tcp://{there}?{SHARED}"})
            nursery.cancel_scope.cancel()


async def test_a_door_listens_again_while_streams_that_came_from_there_stand(tmp_path: Path) -> None:
    one, other = place("127.0.0.1", free_port()), place("127.0.0.1", free_port())
    async with side(tmp_path, other) as (_, there):
        async with side(tmp_path, one) as (doors, heard):
            doors.connect(Connect("nodes", f"tcp://{other}", "a tag", one))
            assert isinstance(await heard.events.receive(), Opened)
        assert isinstance(await there.events.receive(), Opened)
        async with side(tmp_path, one) as (doors, heard):
            doors.connect(Connect("nodes", f"tcp://{other}", "a tag", one))
            assert isinstance(await heard.events.receive(), Opened)


@pytest.mark.parametrize(
    ("source", "cause"),
    (("nowhere", "it lacks host or port"), ("[::1]:1", "address family"), ("192.0.2.1:1", "")),
)
async def test_a_source_from_which_nothing_is_dialled_says_so(source: str, cause: str, tmp_path: Path) -> None:
    at = place("127.0.0.1", free_port())
    async with side(tmp_path, at) as (doors, heard):
        doors.connect(Connect("nodes", "tcp://127.0.0.1:1", "a tag", source))
        failed = await heard.events.receive()
        assert failed.tag == "a tag" and cause in failed.text and failed.text


def test_the_pause_of_a_crowded_door_grows_to_the_most() -> None:
    assert [SHARED_BOUNDS.pause_after(count) for count in (0, 383, 384, 448, 512)] == [0, 0, 0, 2.5, 5]
    assert USUAL.pause_after(256) == 0


async def test_a_crowd_waits_aside_at_a_door_that_lets_others_in_at_once() -> None:
    heard = Heard()
    streams = Streams(heard.hear, _no_router, lambda text: None)
    async with trio.open_nursery() as nursery:
        streams.start(nursery)
        listening = socket.create_server(("0.0.0.0", 0))
        streams.listen("nodes", listening, bounds=DoorBounds(8, 3, 0.01))
        port = listening.getsockname()[1]

        def guest(host: str) -> socket.socket:
            return socket.create_connection((host, port), source_address=(host, 0))

        async def opened() -> str:
            found = await heard.events.receive()
            assert isinstance(found, Opened)
            return found.address.rpartition(":")[0]

        with trio.fail_after(HANG_S):
            crowd = [guest("127.0.0.1") for _ in range(6)]
            assert [await opened() for _ in range(3)] == ["127.0.0.1"] * 3
            others = [guest("127.0.1.1"), guest("127.0.2.1")]
            came = [await opened() for _ in range(5)]
            assert sorted(came) == ["127.0.0.1"] * 3 + ["127.0.1.1", "127.0.2.1"], "and in the end all are let in"
        for one in (*crowd, *others):
            one.close()
        nursery.cancel_scope.cancel()


async def test_a_door_whose_crowd_waits_forgets_it_when_it_closes() -> None:
    heard = Heard()
    streams = Streams(heard.hear, _no_router, lambda text: None)
    async with trio.open_nursery() as nursery:
        streams.start(nursery)
        listening = socket.create_server(("127.0.0.1", 0))
        streams.listen("nodes", listening, bounds=DoorBounds(8, 1, 1e6))
        guests = [socket.create_connection(listening.getsockname()[:2]) for _ in range(3)]
        with trio.fail_after(HANG_S):
            assert isinstance(await heard.events.receive(), Opened)
            await trio.testing.wait_all_tasks_blocked(0.01)
        nursery.cancel_scope.cancel()
    for one in guests:
        one.settimeout(HANG_S)
        assert one.recv(1) == b"", "nobody is left waiting"
        one.close()
