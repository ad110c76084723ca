"""Places of connections, the rest of partial writes, and errors in words."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from rigs.patience import HANG_S
from trio.socket import SocketType

from router.transport import tcp
from router.transport.contract import ConnectFailed, Stream, StreamBroken, unheard
from router.transport.sockets import RECEIVE_BYTES_MAX, TURN_BYTES, Acceptor, _without, receive, send_whole, words
from router.transport.stream import DuplexStream
from transports.memory import stream_pair


@given(st.lists(st.binary(max_size=5)), st.integers(0, 30))
def test_what_remains_of_the_parts(parts: list[bytes], sent: int) -> None:
    assert b"".join(_without(parts, sent)) == b"".join(parts)[sent:]


def test_errors_read_as_part_of_a_sentence() -> None:
    assert words(ConnectionRefusedError(111, "Connection refused")) == "connection refused"
    assert words(ValueError("No")) == "no"
    assert words(KeyboardInterrupt()) == "keyboardInterrupt"


def test_an_acceptor_reads_as_a_sentence() -> None:
    async def admit(sock: object, where: str) -> DuplexStream:
        raise AssertionError

    async def handle(stream: Stream) -> None:
        raise AssertionError

    acceptor = Acceptor(admit, handle, unheard, 7)
    assert repr(acceptor) == "<Acceptor with 0 of at most 7 connections open>"


async def test_a_read_takes_as_much_memory_as_has_come() -> None:
    """A buffer of the most that may come would leave a hole in the heap for each read of which something stays."""
    ours, theirs = trio.socket.socketpair()
    with ours, theirs:
        await theirs.send(b"first")
        assert await receive(ours, RECEIVE_BYTES_MAX) == b"first"  # makes the room of this thread
        await theirs.send(b"second")
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            assert await receive(ours, RECEIVE_BYTES_MAX) == b"second"
            assert tracemalloc.get_traced_memory()[1] - before < RECEIVE_BYTES_MAX // 8
        finally:
            tracemalloc.stop()


async def test_reads_of_several_sockets_are_not_mixed() -> None:
    pairs = [trio.socket.socketpair() for _ in range(3)]
    found: dict[int, bytes] = {}

    async def read(at: int) -> None:
        while more := await receive(pairs[at][0], 3):
            found[at] = found.get(at, b"") + more

    with trio.fail_after(HANG_S):
        async with trio.open_nursery() as nursery:
            for at in range(3):
                nursery.start_soon(read, at)
            await trio.testing.wait_all_tasks_blocked()
            for part in range(5):
                for at, (_, theirs) in enumerate(pairs):
                    await theirs.send(bytes((10 * at + part,)) * 4)
            for _, theirs in pairs:
                theirs.close()
    for ours, _ in pairs:
        ours.close()
    assert found == {at: b"".join(bytes((10 * at + part,)) * 4 for part in range(5)) for at in range(3)}


# -- places for those who prove a key ----------------------------------------------------------------------------


class Door:
    """An acceptor on a port: a client that sends a byte has proven a key, and stays until it closes."""

    def __init__(self, connections_max: int) -> None:
        self.acceptor = Acceptor(self._admit, self._handle, self._refused, connections_max)
        self.refused: list[str] = []
        self.proven = 0
        self.port = 0
        self._changed = trio.Event()

    async def _admit(self, sock: SocketType, where: str) -> DuplexStream:
        assert await receive(sock, 1) or True
        return stream_pair()[0]

    async def _handle(self, stream: Stream) -> None:
        assert isinstance(stream, DuplexStream)
        self.proven += 1
        self._note()
        await trio.sleep_forever()

    def _refused(self, where: str, text: str) -> None:
        self.refused.append(text)
        self._note()

    def _note(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def come(self, *, proves: bool, address: str = "127.0.0.1") -> trio.SocketStream:
        stream = await trio.open_tcp_stream("127.0.0.1", self.port, local_address=address)
        if proves:
            before = self.proven
            await stream.send_all(b"k")
            await self.until(lambda: self.proven > before or len(self.refused) > 0)
        return stream

    async def until(self, holds: Callable[[], bool]) -> None:
        with trio.fail_after(HANG_S):
            while not holds():
                await self._changed.wait()


@asynccontextmanager
async def door(connections_max: int) -> AsyncIterator[Door]:
    found = Door(connections_max)
    [listener] = await tcp.bind("127.0.0.1", 0)
    found.port = listener.getsockname()[1]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(found.acceptor.run, listener, str, lambda _, address: address[0])
        yield found
        nursery.cancel_scope.cancel()
    listener.close()


async def test_who_proves_no_key_gives_way_to_whom_may() -> None:
    """Silent connections alone would fill every place; the oldest of them is closed for each newcomer."""
    async with door(6) as found:
        silent = [await found.come(proves=False) for _ in range(20)]
        await found.until(lambda: len(found.refused) == 17)
        known = [await found.come(proves=False) for _ in range(1)]
        await found.until(lambda: len(found.refused) == 18)
        await known[0].send_all(b"k")
        await found.until(lambda: found.proven == 1)
        assert set(found.refused) == {"it had not proven a key when another connection needed its place"}
        for stream in (*silent, *known):
            await stream.aclose()


async def test_when_those_who_are_proven_have_every_place_a_newcomer_is_closed() -> None:
    async with door(4) as found:
        proven = [await found.come(proves=True) for _ in range(4)]
        late = await found.come(proves=False)
        await found.until(lambda: found.refused == ["4 connections are open, and no more are allowed"])
        assert found.proven == 4 and await late.receive_some(1) == b""
        for stream in (*proven, late):
            await stream.aclose()


async def test_one_of_the_neighbourhood_that_has_most_gives_way() -> None:
    async with door(6) as found:
        alone = await found.come(proves=False, address="127.0.0.2")
        crowd = [await found.come(proves=False) for _ in range(20)]
        await found.until(lambda: len(found.refused) == 18)
        await alone.send_all(b"k")
        await found.until(lambda: found.proven == 1)
        for stream in (alone, *crowd):
            await stream.aclose()


async def test_a_name_that_nobody_knows_is_no_question_of_ports() -> None:
    with pytest.raises(ConnectFailed) as caught:
        await tcp.connect("no-such-host.invalid", 4101)
    assert "is the name no-such-host.invalid right?" in caught.value.text and "port open" not in caught.value.text


class Steps(trio.abc.Instrument):
    """Counts how often each task has been run."""

    def __init__(self) -> None:
        self.of = Counter[str]()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.of[task.name] += 1


async def test_a_read_that_has_waited_takes_no_further_turn() -> None:
    ours, theirs = trio.socket.socketpair()
    steps, got = Steps(), list[bytes]()

    async def read() -> None:
        got.append(await receive(ours, 100))

    with ours, theirs:
        trio.lowlevel.add_instrument(steps)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(read, name="reader")
                await trio.testing.wait_all_tasks_blocked()
                await theirs.send(b"here")
        finally:
            trio.lowlevel.remove_instrument(steps)
    assert (got, steps.of["reader"]) == ([b"here"], 2)


@pytest.mark.parametrize(("size", "turns"), [(0, 0), (1, 0), (TURN_BYTES - 1, 0), (TURN_BYTES, 1)])
async def test_only_a_large_send_lets_others_run(size: int, turns: int) -> None:
    ours, theirs = trio.socket.socketpair()
    steps = Steps()

    async def send() -> None:
        await send_whole(ours, [b"x" * size])

    with ours, theirs:
        trio.lowlevel.add_instrument(steps)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(send, name="sender")
        finally:
            trio.lowlevel.remove_instrument(steps)
    assert steps.of["sender"] == 1 + turns


async def test_a_send_waits_for_room_and_loses_nothing() -> None:
    ours, theirs = trio.socket.socketpair()
    sent, got = [bytes([at]) * 300_000 for at in range(5)], bytearray()

    async def read() -> None:
        while more := await receive(theirs, 1 << 16):
            got.extend(more)

    with theirs, trio.fail_after(HANG_S):
        async with trio.open_nursery() as nursery:
            with ours:
                with trio.move_on_after(0.0):
                    await send_whole(ours, [b"cancelled before it began"])
                async with trio.open_nursery() as sending:
                    sending.start_soon(send_whole, ours, sent)
                    await trio.testing.wait_all_tasks_blocked()  # the socket is full
                    nursery.start_soon(read)
    assert got == b"".join(sent)


async def test_a_send_to_a_closed_end_is_broken() -> None:
    ours, theirs = trio.socket.socketpair()
    with ours:
        theirs.close()
        with pytest.raises(StreamBroken, match="sending failed: broken pipe"):
            await send_whole(ours, [b"to nobody"])
    with pytest.raises(StreamBroken, match="sending failed"):
        await send_whole(ours, [b"from nowhere"])
