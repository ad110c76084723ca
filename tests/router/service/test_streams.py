"""Streams at a service's door: what cannot be written at once follows in order, also before a close; and bounds."""

from __future__ import annotations

import gc
import os
import resource
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from rigs.patience import HANG_S

from router.service.contract import Came, Opened
from router.service.door_places import STREAMS_MAX
from router.service.streams import UNSENT_BYTES_MAX, UNSENT_MAX, Streams
from router.service.unsent_bytes import DOOR_UNSENT_BYTES_MAX
from router.transport import socket_file
from router.transport.socket_file import SocketFile

BLOCK = bytes(range(256)) * 1024


class Heard:
    """What the streams let the rules hear; all of it is carried out at once."""

    def __init__(self) -> None:
        self._put, self._told = trio.open_memory_channel[Any](2000)
        self.at_end: Callable[[Came], None] = lambda _: None

    def hear(self, event: Any, done: Callable[[], None] = lambda: None) -> None:
        self._put.send_nowait(event)
        if isinstance(event, Came) and not event.data:
            self.at_end(event)
        done()

    async def next(self) -> Any:
        return await self._told.receive()


async def _no_router() -> Any:
    raise AssertionError


@asynccontextmanager
async def open_streams(path: Path, warned: list[str] | None = None) -> AsyncIterator[tuple[Streams, Heard, Path]]:
    warned = [] if warned is None else warned
    heard, place = Heard(), path / "desk.sock"
    file = SocketFile(place, 0o600, None, STREAMS_MAX, is_private=False)
    streams = Streams(heard.hear, _no_router, warned.append)
    async with trio.open_nursery() as nursery:
        streams.start(nursery)
        streams.listen("desk", await file.open(), file)
        with trio.fail_after(HANG_S):
            yield streams, heard, place
        nursery.cancel_scope.cancel()
    assert not place.exists() and len(streams) == 0


async def test_what_waits_is_sent_in_order_and_before_the_stream_closes(tmp_path: Path) -> None:
    async with open_streams(tmp_path) as (streams, heard, place), await trio.open_unix_socket(place) as guest:
        opened = await heard.next()
        sent = b"".join(bytes([number]) + BLOCK for number in range(20))
        for number in range(20):
            streams.write("desk", opened.peer, bytes([number]) + BLOCK)
        streams.write("desk", opened.peer, b"")
        received = bytearray()
        while data := await guest.receive_some(1 << 16):
            received += data
        assert received == sent
        assert await heard.next() == Came("desk", opened.peer, b"")


async def test_the_user_at_the_other_end_of_a_unix_socket_is_named(tmp_path: Path) -> None:
    async with open_streams(tmp_path) as (_, heard, place), await trio.open_unix_socket(place):
        opened = await heard.next()
        assert opened == Opened("desk", opened.peer, user=os.geteuid())


async def test_a_stream_that_has_ended_leaves_nothing_for_the_collector(tmp_path: Path) -> None:
    async with open_streams(tmp_path) as (streams, heard, place):
        gc.collect()
        gc.disable()
        try:
            for _ in range(20):
                async with await trio.open_unix_socket(place) as guest:
                    opened = await heard.next()
                    await guest.send_all(b"?")
                    await heard.next()
                    streams.write("desk", opened.peer, BLOCK)
                    streams.write("desk", opened.peer, b"")
                    async for _ in guest:
                        pass
                assert await heard.next() == Came("desk", opened.peer, b"")
            while len(streams):
                await trio.lowlevel.checkpoint()
            await trio.testing.wait_all_tasks_blocked()
            assert sum(type(one).__name__ == "_Peer" for one in gc.get_objects()) == 0
        finally:
            gc.enable()


async def test_a_door_waits_while_the_process_is_out_of_descriptors(tmp_path: Path) -> None:
    warned: list[str] = []
    async with open_streams(tmp_path, warned) as (_, heard, place):
        guests = [socket.socket(socket.AF_UNIX) for _ in range(2)]
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
        try:
            guests[0].connect(str(place))
            while not warned:
                await trio.sleep(0.001)
            guests[1].connect(str(place))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert [(await heard.next()).door for _ in guests] == ["desk"] * 2
        for guest in guests:
            guest.close()
    [said] = warned
    assert said.startswith('its door "desk" accepts nobody for now: too many open files; raise the limit of open files')


async def test_a_door_at_which_nobody_can_be_accepted_says_so_and_the_others_go_on(tmp_path: Path) -> None:
    warned: list[str] = []
    async with open_streams(tmp_path, warned) as (streams, heard, place):
        broken = socket.create_server(("127.0.0.1", 0))
        streams.listen("porch", broken)
        broken.shutdown(socket.SHUT_RDWR)  # From then on accept(2) fails with EINVAL.
        while not warned:
            await trio.sleep(0.001)
        async with await trio.open_unix_socket(place):
            assert (await heard.next()).door == "desk"
    assert warned == ['its door "porch" accepts nobody for now: invalid argument, and goes on trying']


async def test_a_door_whose_file_was_removed_is_made_again_and_loses_no_guest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_file, "LOOK_S", 0.001)
    async with open_streams(tmp_path) as (streams, heard, place):
        with socket.socket(socket.AF_UNIX) as before, socket.socket(socket.AF_UNIX) as after:
            before.connect(str(place))
            place.unlink()
            while not place.exists():
                await trio.sleep(0.001)
            after.connect(str(place))
            for guest in (before, after):
                opened = await heard.next()
                streams.write("desk", opened.peer, b"welcome")
                assert await trio.to_thread.run_sync(guest.recv, 100) == b"welcome"


async def test_a_peer_that_does_not_read_is_cut_off(tmp_path: Path) -> None:
    async with open_streams(tmp_path) as (streams, heard, place):
        for write, times in ((b"x" * UNSENT_BYTES_MAX, 2), (BLOCK, 1 + UNSENT_MAX)):
            async with await trio.open_unix_socket(place):
                opened = await heard.next()
                peer = streams._peers["desk", opened.peer]
                for _ in range(times):
                    streams.write("desk", opened.peer, write)
                    assert peer.waiting or peer.is_closed
                assert await heard.next() == Came("desk", opened.peer, b"")
                assert peer.is_closed and not peer.waiting, "who still refers to it holds no bytes"
                streams.write("desk", opened.peer, b"nobody is there")


async def test_readers_that_never_read_hold_no_more_than_their_door_may(tmp_path: Path) -> None:
    warned: list[str] = []
    async with open_streams(tmp_path, warned) as (streams, heard, place), AsyncExitStack() as stack:
        peers = []
        for _ in range(DOOR_UNSENT_BYTES_MAX // UNSENT_BYTES_MAX + 3):
            await stack.enter_async_context(await trio.open_unix_socket(place))
            peers.append((await heard.next()).peer)
        honest = await stack.enter_async_context(await trio.open_unix_socket(place))
        reads = (await heard.next()).peer
        for peer in peers:
            streams.write("desk", peer, b"x" * UNSENT_BYTES_MAX)
        cut = [await heard.next() for _ in range(3)]
        assert all(one.peer in peers and not one.data for one in cut)
        assert len(streams) == len(peers) + 1 - len(cut), "no more than are needed"
        streams.write("desk", cut[0].peer, b"nobody is there")
        streams.write("desk", reads, b"welcome")
        assert await honest.receive_some(100) == b"welcome"
    assert warned[0].startswith(f'its door "desk" keeps more than {DOOR_UNSENT_BYTES_MAX} bytes for those who do not')


async def test_at_a_full_door_the_oldest_gives_way_unless_all_are_known(tmp_path: Path) -> None:
    warned: list[str] = []
    async with open_streams(tmp_path, warned) as (streams, heard, place):
        guests = [socket.socket(socket.AF_UNIX) for _ in range(STREAMS_MAX + 1)]
        for one in guests:
            one.connect(str(place))
        opened = [await heard.next() for _ in range(STREAMS_MAX)]
        assert all(isinstance(one, Opened) for one in opened)
        assert await heard.next() == Came("desk", opened[0].peer, b"") and isinstance(await heard.next(), Opened)
        assert len(streams) == STREAMS_MAX
        [said] = warned
        assert said.startswith(f'its door "desk" has {STREAMS_MAX} streams, the most: the oldest silent one from user ')
        for door, peer in streams._peers:
            streams.mark_known(door, peer)
        async with await trio.open_unix_socket(place) as last:
            assert await last.receive_some(1) == b"", "all are known"
        streams.write("desk", opened[1].peer, b"x" * UNSENT_BYTES_MAX)
        streams.write("desk", opened[1].peer, b"")
        async with await trio.open_unix_socket(place):
            assert await heard.next() == Came("desk", opened[1].peer, b""), "one that lingers gives way, though known"
            entered = await heard.next()
        assert await heard.next() == Came("desk", entered.peer, b"") and len(warned) == 1
        guests[7].close()
        assert await heard.next() == Came("desk", opened[7].peer, b"")
        async with await trio.open_unix_socket(place) as guest:
            again = await heard.next()
            await guest.send_all(b"hello")
            assert await heard.next() == Came("desk", again.peer, b"hello")
        for one in guests:
            one.close()


async def test_last_words_and_the_end_are_heard_in_order(tmp_path: Path) -> None:
    async with open_streams(tmp_path) as (_, heard, place):
        with socket.socket(socket.AF_UNIX) as guest:
            guest.connect(str(place))
            guest.send(b"last words")
        opened = await heard.next()
        assert [await heard.next(), await heard.next()] == [
            Came("desk", opened.peer, b"last words"), Came("desk", opened.peer, b""),
        ]  # fmt: skip


async def test_nothing_more_is_read_of_a_peer_that_does_not_read_its_answers(tmp_path: Path) -> None:
    async with open_streams(tmp_path) as (streams, heard, place), await trio.open_unix_socket(place) as guest:
        opened = await heard.next()
        for _ in range(4):
            streams.write("desk", opened.peer, BLOCK)
        await guest.send_all(b"one")
        assert await heard.next() == Came("desk", opened.peer, b"one")
        asked = 1
        with trio.move_on_after(HANG_S):
            while asked < 100:
                await guest.send_all(b"x" * 65_536)
                asked += 1
                with trio.move_on_after(0.2) as waits:
                    await heard.next()
                if waits.cancelled_caught:
                    break
        assert asked < 100, "it is read on and on"
        received = 0
        while received < 4 * len(BLOCK):
            received += len(await guest.receive_some(1 << 20))
        assert (await heard.next()).data.startswith(b"x"), "it goes on when the peer has read"


@pytest.mark.parametrize("cut", ["", "the door is full", "too much waits"])
async def test_stream_whose_other_end_says_no_more_is_written_to_as_long_as_it_is_kept_open(
    cut: str, tmp_path: Path
) -> None:
    async with open_streams(tmp_path) as (streams, heard, place), await trio.open_unix_socket(place) as guest:
        opened = await heard.next()
        heard.at_end = lambda ended: streams.keep_open("desk", ended.peer)
        await guest.send_eof()
        assert await heard.next() == Came("desk", opened.peer, b"")
        streams.write("desk", opened.peer, b"later")
        assert await guest.receive_some(100) == b"later" and len(streams) == 1
        for _ in range(4):
            streams.write("desk", opened.peer, BLOCK)
        if cut:
            if cut == "too much waits":
                streams.write("desk", opened.peer, b"x" * UNSENT_BYTES_MAX)
            else:
                streams.end("desk", opened.peer)
            assert len(streams) == 0
            return
        streams.write("desk", opened.peer, b"")
        received = 0
        while data := await guest.receive_some(1 << 20):
            received += len(data)
        assert received == 4 * len(BLOCK) and len(streams) == 0


async def test_answers_are_sent_whole_to_who_says_no_more(tmp_path: Path) -> None:
    async with open_streams(tmp_path) as (streams, heard, place), await trio.open_unix_socket(place) as guest:
        opened = await heard.next()
        for _ in range(4):
            streams.write("desk", opened.peer, BLOCK)
        await guest.send_eof()
        assert await heard.next() == Came("desk", opened.peer, b"")
        received = 0
        while data := await guest.receive_some(1 << 20):
            received += len(data)
        assert received == 4 * len(BLOCK) and len(streams) == 0


async def test_stream_that_has_gone_is_not_kept_open_for_what_waits(tmp_path: Path) -> None:
    async with open_streams(tmp_path) as (streams, heard, place):
        with socket.socket(socket.AF_UNIX) as guest:
            guest.connect(str(place))
            opened = await heard.next()
            heard.at_end = lambda ended: streams.keep_open("desk", ended.peer)
            for _ in range(4):
                streams.write("desk", opened.peer, BLOCK)
        while len(streams):
            await trio.sleep(0.001)
