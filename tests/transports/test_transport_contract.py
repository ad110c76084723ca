"""The promises of the transport contract (router/transport/contract.py), tested with each transport."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
import trio
import trio.testing
from rigs.patience import HANG_S
from two_ends import (
    close_at_once,
    echo,
    fresh_url,
    listening,
    proven_echo,
    receive_exactly,
    receive_to_end,
    two_ends,
)

from router.core.wire.crypto import SigningKey
from router.core.wire.reasons import Reason
from router.transport.contract import ConnectFailed, ListenFailed, Stream, StreamBroken, dial, load

pytestmark = pytest.mark.parametrize("scheme", ["memory", "tls", "unix", "ws", "wss"])

MIB = 1 << 20


async def test_a_stream_carries_bytes_both_ways(scheme: str) -> None:
    async with two_ends(scheme) as (ours, theirs):
        await ours.send_all(b"ping")
        assert await theirs.receive_some(100) == b"ping"
        await theirs.send_all(memoryview(b"pong"))
        assert await ours.receive_some(2) == b"po"
        assert await ours.receive_some(100) == b"ng"


async def test_who_is_there(scheme: str) -> None:
    async with two_ends(scheme) as (ours, theirs):
        assert ours.where.startswith(scheme) and theirs.where.startswith(scheme)
        assert ours.owner == theirs.owner == (scheme in ("memory", "unix"))
        assert (ours.peer is None) == (theirs.peer is None) == (scheme != "tls")
        assert "open" in repr(ours) and ours.where in repr(ours)


async def test_both_ends_send_much_at_once(scheme: str) -> None:
    blob = random.Random(1).randbytes(MIB)

    async def send(stream: Stream) -> None:
        for _ in range(16):
            await stream.send_all(blob)

    async def receive(stream: Stream) -> None:
        for _ in range(16):
            assert await receive_exactly(stream, MIB) == blob

    async with two_ends(scheme) as ends, trio.open_nursery() as nursery:
        for stream in ends:
            nursery.start_soon(send, stream)
            nursery.start_soon(receive, stream)


async def test_receiving_goes_on_while_sending_is_stuck(scheme: str) -> None:
    async with two_ends(scheme) as (ours, theirs), trio.open_nursery() as nursery:
        nursery.start_soon(ours.send_all, bytes(16 * MIB))
        await trio.testing.wait_all_tasks_blocked()
        await theirs.send_all(b"still there?")
        assert await receive_exactly(ours, 12) == b"still there?"
        assert len(await receive_exactly(theirs, 16 * MIB)) == 16 * MIB


async def test_parts_arrive_in_order(scheme: str) -> None:
    rng = random.Random(2)
    parts: list[bytes | memoryview] = [rng.randbytes(rng.choice((0, 1, 100, 1100, 5000))) for _ in range(3000)]
    parts[7] = memoryview(rng.randbytes(3000))[10:2000]
    parts[70] = rng.randbytes(3 * MIB)

    async def send(stream: Stream, some: Sequence[bytes | memoryview]) -> None:
        await stream.send_parts(some)
        await stream.send_parts([])
        await stream.send_parts([b""])
        await stream.aclose()

    async with two_ends(scheme) as (ours, theirs), trio.open_nursery() as nursery:
        nursery.start_soon(send, ours, parts)
        assert await receive_to_end(theirs) == b"".join(parts)


async def test_a_clean_close_is_an_end(scheme: str) -> None:
    async with two_ends(scheme) as (ours, theirs):
        await theirs.send_all(b"nobody will read this")
        await ours.send_all(b"last words")
        await ours.aclose()
        assert await receive_to_end(theirs) == b"last words"
        assert await theirs.receive_some(1) == b""
        with pytest.raises(StreamBroken):
            await ours.send_all(b"more")
        with pytest.raises(StreamBroken):
            await ours.receive_some(1)
        await ours.aclose()


async def test_an_abrupt_close_is_not_an_end(scheme: str) -> None:
    async with two_ends(scheme) as (ours, theirs):
        await theirs.send_all(b"left unread")  # what tells a reset from an end on a Unix socket
        await close_at_once(ours)
        with pytest.raises(StreamBroken):
            await receive_to_end(theirs)
        with pytest.raises(StreamBroken):
            await theirs.receive_some(1)


async def test_sending_to_one_who_left(scheme: str) -> None:
    async with two_ends(scheme) as (ours, theirs):
        await ours.send_all(b"goodbye")
        await ours.aclose()
        with pytest.raises(StreamBroken):
            while True:
                await theirs.send_all(b"x" * 1000)
        with pytest.raises(StreamBroken):
            await theirs.send_all(b"x")


async def test_what_was_said_before_leaving_can_be_read_after_a_failed_send(scheme: str) -> None:
    async with two_ends(scheme) as (ours, theirs):
        await ours.send_all(b"goodbye")
        await ours.aclose()
        with pytest.raises(StreamBroken):
            while True:
                await theirs.send_all(b"x" * 1000)
        try:
            assert await receive_to_end(theirs) == b"goodbye"
        except StreamBroken:
            assert scheme in ("tls", "ws", "wss")  # a reset of TCP may discard what was not read


async def test_a_cancelled_receive_loses_nothing(scheme: str) -> None:
    async with two_ends(scheme) as (ours, theirs):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(theirs.receive_some, 100)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        with trio.CancelScope() as scope:
            scope.cancel()
            await theirs.receive_some(100)
        await ours.send_all(b"hello")
        assert await receive_exactly(theirs, 5) == b"hello"


async def test_a_cancelled_send_ends_sending(scheme: str) -> None:
    async with two_ends(scheme) as (ours, theirs):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ours.send_all, bytes(16 * MIB))
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        with pytest.raises(StreamBroken, match="cut short"):
            await ours.send_all(b"x")
        await theirs.send_all(b"I still speak")
        assert await receive_exactly(ours, 13) == b"I still speak"
        assert "cut short" in repr(ours)


async def test_a_send_cancelled_before_it_began_does_no_harm(scheme: str) -> None:
    async with two_ends(scheme) as (ours, theirs):
        with trio.CancelScope() as scope:
            scope.cancel()
            await ours.send_all(b"never")
        await ours.send_all(b"now")
        assert await receive_exactly(theirs, 3) == b"now"


async def test_one_task_sends_and_one_receives(scheme: str) -> None:
    async with two_ends(scheme) as (ours, _theirs), trio.open_nursery() as nursery:
        nursery.start_soon(ours.receive_some, 1)
        nursery.start_soon(ours.send_all, bytes(16 * MIB))
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(trio.BusyResourceError):
            await ours.receive_some(1)
        with pytest.raises(trio.BusyResourceError):
            await ours.send_all(b"x")
        nursery.cancel_scope.cancel()


async def test_closing_wakes_the_task_that_receives(scheme: str) -> None:
    async def receive(stream: Stream) -> None:
        with pytest.raises(StreamBroken):
            await stream.receive_some(1)

    async with two_ends(scheme) as (ours, _theirs), trio.open_nursery() as nursery:
        nursery.start_soon(receive, ours)
        await trio.testing.wait_all_tasks_blocked()
        await ours.aclose()


async def test_many_connections_at_once(scheme: str) -> None:
    async def talk(number: int) -> None:
        stream = await this.connect()
        text = f"connection {number}".encode() * 1000
        await stream.send_all(text)
        assert await receive_exactly(stream, len(text)) == text
        await stream.aclose()

    with fresh_url(scheme) as url:
        async with listening(url, handler=echo) as this, trio.open_nursery() as nursery:
            for number in range(30):
                nursery.start_soon(talk, number)


async def test_a_stream_ends_with_its_handler(scheme: str) -> None:
    async def greet(stream: Stream) -> None:
        await stream.send_all(b"hello and goodbye")

    with fresh_url(scheme) as url:
        async with listening(url, handler=greet) as this:
            assert await receive_to_end(await this.connect()) == b"hello and goodbye"


async def test_one_connection_too_many_is_closed(scheme: str) -> None:
    with fresh_url(scheme) as url:
        async with listening(url, handler=proven_echo, connections_max=2) as this:
            first, second = await this.connect(), await this.connect()
            for stream in (first, second):
                await stream.send_all(b"x")
                assert await stream.receive_some(1) == b"x"
            with pytest.raises((ConnectFailed, StreamBroken)):
                third = await this.connect()
                await third.send_all(b"x")
                assert await third.receive_some(1), "closed"
                raise AssertionError("a third connection was let in")
            assert await this.refusal() == "2 connections are open, and no more are allowed"
            await second.send_all(b"y")
            assert await second.receive_some(1) == b"y"


async def test_a_broken_connection_does_not_end_the_listener(scheme: str) -> None:
    async def break_first(stream: Stream) -> None:
        if await stream.receive_some(5) == b"break":
            async with trio.open_nursery():
                raise StreamBroken("as asked")
        await stream.send_all(b"fine")

    with fresh_url(scheme) as url:
        async with listening(url, handler=break_first) as this:
            for word in (b"break", b"break", b"works"):
                stream = await this.connect()
                await stream.send_all(word)
                if word == b"works":
                    assert await receive_to_end(stream) == b"fine"


async def test_a_fault_of_ours_in_a_handler_is_not_hidden(scheme: str) -> None:
    async def faulty(stream: Stream) -> None:
        raise ZeroDivisionError

    with fresh_url(scheme) as url, pytest.raises(ExceptionGroup) as caught:
        async with listening(url, handler=faulty) as this:
            await this.connect()
            await trio.sleep_forever()
    assert caught.group_contains(ZeroDivisionError)


async def test_a_second_listener_is_told_why_not(scheme: str) -> None:
    with fresh_url(scheme) as url:
        async with listening(url) as this:
            with pytest.raises(ListenFailed, match=r"another (node|program).*choose another"):
                await load(scheme).listen(this.again, SigningKey(bytes(32)), this.handle)


async def test_a_place_is_free_again_when_its_listener_ends(scheme: str) -> None:
    with fresh_url(scheme) as url:
        async with listening(url) as this:
            await this.connect()
        with pytest.raises(ConnectFailed) as caught:
            await this.connect()
        assert caught.value.reason is Reason.CONNECT_FAILED
        assert any(words in caught.value.text for words in ("is listening", "is the node running"))
        async with listening(this.again) as again:
            await again.connect()


@pytest.mark.parametrize("url", ["{}://", "{}", "{}:/x", "nothing"])
async def test_a_url_that_is_none(scheme: str, url: str) -> None:
    with pytest.raises(ConnectFailed):
        await dial(url.format(scheme), SigningKey(bytes(32)), None, timeout_s=HANG_S)
    with pytest.raises(ListenFailed):
        await load(scheme).listen(url.format(scheme), SigningKey(bytes(32)), echo)


class Adapted(trio.abc.Stream):
    """Adapts one of our streams to trio's own conformance test."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._closed = False
        self._busy = trio.Lock()

    def _error(self) -> Exception:
        return trio.ClosedResourceError() if self._closed else trio.BrokenResourceError()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        if max_bytes is not None and (not isinstance(max_bytes, int) or max_bytes < 1):
            raise (ValueError if isinstance(max_bytes, int) else TypeError)(max_bytes)
        try:
            return await self._stream.receive_some(max_bytes or 1 << 16)
        except StreamBroken:
            raise self._error() from None

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        try:
            await self._stream.send_all(data if isinstance(data, memoryview) else memoryview(data))
            await trio.lowlevel.checkpoint()
        except StreamBroken:
            raise self._error() from None

    async def wait_send_all_might_not_block(self) -> None:
        if self._closed:
            raise trio.ClosedResourceError
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        self._closed = True
        await self._stream.aclose()
        await trio.lowlevel.checkpoint()


async def test_trios_own_conformance_test(scheme: str) -> None:
    async def pair() -> tuple[Adapted, Adapted]:
        ours = await this.connect()
        return Adapted(ours), Adapted(await this.accept())

    with fresh_url(scheme) as url:
        async with listening(url) as this:
            await trio.testing.check_two_way_stream(pair, None)
