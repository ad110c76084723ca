"""Reading of many streams by one task: in order, paused while much is not carried out, and to the end."""

from __future__ import annotations

import socket
from collections.abc import Callable

import trio
import trio.testing
from rigs.patience import HANG_S

from router.service.stream_reading import AHEAD_MAX, Reading, StreamReaders

Done = Callable[[], None]


async def test_a_stream_pauses_until_what_it_said_is_carried_out() -> None:
    ours, theirs = socket.socketpair()
    came, told = trio.open_memory_channel[tuple[bytes, Done]](10)
    with ours, theirs, trio.fail_after(HANG_S):
        ours.setblocking(False)
        readers = StreamReaders()
        ended = trio.Event()
        reading = Reading(readers, ours.fileno(), lambda data, done: came.send_nowait((data, done)), ended.set)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(readers.run)
            reading.begin()
            pending = []
            for number in range(AHEAD_MAX):
                theirs.send(b"%d" % number)
                pending.append(await told.receive())
            assert [data for data, _ in pending] == [b"0", b"1"]
            assert repr(readers) == "<readers of 0 streams>"
            theirs.send(b"2")
            pending.pop(0)[1]()
            assert repr(readers) == "<readers of 1 streams>"
            data, done = await told.receive()
            assert data == b"2"
            theirs.close()
            done()
            pending.pop()[1]()
            await ended.wait()
            nursery.cancel_scope.cancel()
    assert told.statistics().current_buffer_used == 0 and repr(readers) == "<readers of 0 streams>"


async def test_the_end_waits_for_what_was_said_before_it() -> None:
    ours, theirs = socket.socketpair()
    came, told = trio.open_memory_channel[tuple[bytes, Done]](10)
    with ours, theirs, trio.fail_after(HANG_S):
        ours.setblocking(False)
        readers = StreamReaders()
        ended = trio.Event()
        reading = Reading(readers, ours.fileno(), lambda data, done: came.send_nowait((data, done)), ended.set)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(readers.run)
            reading.begin()
            theirs.send(b"last words")
            _, done = await told.receive()
            theirs.close()
            while repr(readers) != "<readers of 0 streams>":
                await trio.lowlevel.checkpoint()
            await trio.testing.wait_all_tasks_blocked()
            assert not ended.is_set()
            done()
            await ended.wait()
            nursery.cancel_scope.cancel()


async def test_what_has_ended_leaves_the_next_stream_of_its_number_alone() -> None:
    ours, theirs = socket.socketpair()
    came, told = trio.open_memory_channel[bytes](10)
    with ours, theirs, trio.fail_after(HANG_S):
        ours.setblocking(False)
        readers, ends = StreamReaders(), list[str]()
        old = Reading(readers, ours.fileno(), lambda data, done: None, lambda: ends.append("old"))
        old.begin()
        old.cut()
        new = Reading(readers, ours.fileno(), lambda data, done: came.send_nowait(data), lambda: ends.append("new"))
        new.begin()
        for late in (old.cut, old.stop, old.pause):
            late()
        assert ends == ["old"] and repr(readers) == "<readers of 1 streams>"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(readers.run)
            theirs.send(b"heard")
            assert await told.receive() == b"heard"
            nursery.cancel_scope.cancel()
        new.stop()
        assert ends == ["old"], "what it said is not carried out"
