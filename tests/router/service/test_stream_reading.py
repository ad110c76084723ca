"""Reading of many streams by one task: in order, paused while much is not carried out, and to the end."""

from __future__ import annotations

import socket
from collections.abc import Callable

import trio
import trio.testing
from rigs.patience import HANG_S

from router.service.stream_reading import AHEAD_MAX, MOMENT_S, READ_BYTES_MAX, Reading, StreamReaders

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


async def test_patient_streams_wait_while_they_are_held_and_are_then_read_together(autojump_clock: object) -> None:
    pairs = [socket.socketpair() for _ in range(3)]
    readers, heard = StreamReaders(), list[tuple[float, bytes]]()

    def came(data: bytes, done: Done) -> None:
        heard.append((trio.current_time() - began_s, data))
        done()

    for number, (ours, _) in enumerate(pairs):
        ours.setblocking(False)
        watched = readers.patient if number else readers
        Reading(watched, ours.fileno(), came, lambda: None).begin()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(readers.run)
        began_s = trio.current_time()
        readers.hold(1.0)
        readers.hold(5.0)  # they are held already
        for number, (_, theirs) in enumerate(pairs):
            theirs.send(b"%d" % number)
        await trio.sleep(0.5)
        assert [data for _, data in heard] == [b"0"], "the other streams are held"
        readers.read_patient()
        assert len(heard) == 1, "and not read before their time"
        await trio.sleep(1.0)
        assert sorted(heard[1:]) == [(1.0, b"1"), (1.0, b"2")] and not readers.is_held
        pairs[1][1].send(b"later")
        await trio.testing.wait_all_tasks_blocked()
        assert heard[3:] == [(1.5, b"later")], "nothing holds them now"
        readers.hold(1.0)
        pairs[2][1].close()
        nursery.cancel_scope.cancel()
    for pair in pairs:
        for one in pair:
            one.close()


async def test_who_begins_a_cycle_reads_patient_streams_a_moment_before_their_time(autojump_clock: object) -> None:
    ours, theirs = socket.socketpair()
    readers, heard = StreamReaders(), list[bytes]()
    with ours, theirs:
        ours.setblocking(False)
        Reading(readers.patient, ours.fileno(), lambda data, done: heard.append(data), lambda: None).begin()
        readers.hold(MOMENT_S / 2)
        theirs.send(b"heard")
        readers.read_patient()
        assert heard == [b"heard"] and not readers.is_held
        readers.hold(0.0)
        assert not readers.is_held


async def test_a_long_answer_over_a_patient_stream_is_read_in_one_cycle(autojump_clock: object) -> None:
    ours, theirs = socket.socketpair()
    readers, heard = StreamReaders(), list[bytes]()
    with ours, theirs:
        for own in (ours, theirs):
            own.setblocking(False)
        Reading(readers.patient, ours.fileno(), lambda data, done: heard.append(data), lambda: None).begin()
        readers.hold(MOMENT_S / 2)
        assert theirs.send(bytes(READ_BYTES_MAX + 1)) == READ_BYTES_MAX + 1
        readers.read_patient()
        assert list(map(len, heard)) == [READ_BYTES_MAX, 1]
        assert len(heard) == AHEAD_MAX, "so that nothing more is read of it before that is carried out"
