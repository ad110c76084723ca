"""Prefixes of addresses, remainders of writes, errors in words."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.socket import SocketType
from trio.testing import MockClock, wait_all_tasks_blocked

from router.transport import tcp
from router.transport.contract import Stream, unheard
from router.transport.sockets import Acceptor, HandshakeLimits, Places, Refused, _without, prefix_of, receive, words
from router.transport.stream import DuplexStream
from transports.memory import stream_pair

FREE = HandshakeLimits(per_s_per_prefix=0, per_s=0)


@pytest.mark.parametrize(
    ("address", "prefix"),
    [
        ("192.0.2.77", "192.0.2.0/24"),
        ("127.0.0.1", "127.0.0.0/24"),
        ("::ffff:192.0.2.77", "192.0.2.0/24"),
        ("2001:db8:1:2:3::1", "2001:db8:1::/56"),
        ("2001:db8:1:1ff::1", "2001:db8:1:100::/56"),
        ("fe80::1%eth0", "fe80::/56"),
    ],
)
def test_prefixes(address: str, prefix: str) -> None:
    assert prefix_of(address) == prefix


@given(st.lists(st.binary(max_size=5)), st.integers(0, 30))
def test_what_remains_of_the_parts(parts: list[bytes], sent: int) -> None:
    assert b"".join(_without(parts, sent)) == b"".join(parts)[sent:]


def test_errors_read_as_part_of_a_sentence() -> None:
    assert words(ConnectionRefusedError(111, "Connection refused")) == "connection refused"
    assert words(ValueError("No")) == "no"
    assert words(KeyboardInterrupt()) == "keyboardInterrupt"


def test_an_acceptor_reads_as_a_sentence() -> None:
    async def admit(sock: object, where: str) -> Stream:
        raise AssertionError

    async def handle(stream: Stream) -> None:
        raise AssertionError

    acceptor = Acceptor(admit, handle, unheard, 7)
    assert repr(acceptor) == "<Acceptor with 0 of at most 7 connections open>"


# -- places for those who prove a key ----------------------------------------------------------------------------


class Door:
    """An acceptor on a port: who sends a byte has proven a key, and stays until it closes."""

    def __init__(self, connections_max: int) -> None:
        self.acceptor = Acceptor(self._admit, self._handle, self._refused, connections_max)
        self.refused: list[str] = []
        self.proven = 0
        self.port = 0
        self._changed = trio.Event()

    async def _admit(self, sock: SocketType, where: str) -> Stream:
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

    async def come(self, *, proves: bool) -> trio.SocketStream:
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        if proves:
            before = self.proven
            await stream.send_all(b"k")
            await self.until(lambda: self.proven > before or len(self.refused) > 0)
        return stream

    async def until(self, holds: Callable[[], bool]) -> None:
        with trio.fail_after(20):
            while not holds():
                await self._changed.wait()


@asynccontextmanager
async def door(connections_max: int) -> AsyncIterator[Door]:
    found = Door(connections_max)
    [listener] = await tcp.bind("127.0.0.1", 0)
    found.port = listener.getsockname()[1]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(found.acceptor.run, listener, str)
        yield found
        nursery.cancel_scope.cancel()
    listener.close()


async def test_who_proves_no_key_gives_way_to_whom_may() -> None:
    """Silent connections alone would fill every place; the oldest of them goes for each newcomer."""
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


async def test_silent_handshakes_keep_their_prefix_out_for_a_moment_only(autojump_clock: MockClock) -> None:
    places = Places(replace(FREE, max_per_prefix=2))
    done: list[float] = []

    async def silent() -> None:
        with pytest.raises(Refused, match="not done after 2 s, and others"):
            async with places.place("192.0.2.1"):
                await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(silent)
        await wait_all_tasks_blocked()
        await trio.sleep(100)  # nobody waits: they may take as long as the caller lets them
        began = trio.current_time()
        for _ in range(3):
            async with places.place("192.0.2.9"):
                done.append(trio.current_time() - began)
        nursery.start_soon(silent)
        nursery.start_soon(silent)
        await wait_all_tasks_blocked()
        began = trio.current_time()
        async with places.place("192.0.2.9"):
            done.append(trio.current_time() - began)
    assert done == [0, 0, 0, 2]
    assert repr(places) == "<Places with 0 handshakes>"


async def test_another_prefix_hurries_nobody(autojump_clock: MockClock) -> None:
    places = Places(replace(FREE, max_per_prefix=1))
    async with places.place("192.0.2.1"):
        async with places.place("198.51.100.1"):
            await trio.sleep(100)
        await trio.sleep(100)


async def test_those_who_come_again_have_their_turn_now_and_then(autojump_clock: MockClock) -> None:
    limits = HandshakeLimits(max_per_prefix=4, per_s_per_prefix=10, per_s=0)
    places = Places(limits)

    async def came(address: str, times: int) -> float:
        began = trio.current_time()
        for _ in range(times):
            async with places.place(address):
                pass
        return trio.current_time() - began

    assert await came("192.0.2.1", 4) == 0
    assert await came("192.0.2.2", 10) == pytest.approx(1.0)
    assert await came("198.51.100.1", 4) == 0


async def test_who_gives_up_takes_no_turn(autojump_clock: MockClock) -> None:
    places = Places(HandshakeLimits(max_per_prefix=8, per_s_per_prefix=1, per_s=0))

    async def come() -> None:
        async with places.place("192.0.2.1"):
            pass

    for _ in range(8):
        await come()
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(come)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    await come()
    assert trio.current_time() - began == pytest.approx(2.0)


async def test_all_prefixes_together_have_a_pace(autojump_clock: MockClock) -> None:
    places = Places(HandshakeLimits(per_s=10))
    began = trio.current_time()
    for number in range(30):
        async with places.place(f"10.0.{number}.1"):
            pass
    assert trio.current_time() - began == pytest.approx((30 - 10 * Places.BURST_S) / 10)


async def test_prefixes_that_came_long_ago_are_forgotten() -> None:
    places = Places(FREE)
    for number in range(Places.PREFIXES_MAX + 1):
        async with places.place(f"10.{number >> 8}.{number & 255}.1"):
            pass
    assert len(places._prefixes) == Places.PREFIXES_MAX
