"""One connection over a stream in memory: its waits, their limits, and what ends it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import trio
from rigs.session_pair import offer
from samples.core import ALICE, BOB
from trio.testing import MockClock

from router.core.link.session import Session, Welcome, everybody
from router.core.link.table import LinkLimits
from router.core.routing.intake import Arrived
from router.core.wire import link_items as link
from router.core.wire.codec import FRAME_BYTES_MAX, frame, split_frames
from router.core.wire.crypto import PublicKey
from router.core.wire.message import seal_unicast
from router.core.wire.reasons import Reason
from router.node.connection import Connection, NodeSide
from router.node.in_flight import InFlight
from router.node.link_events import LinkEvent, LinkOpened
from router.transport.contract import Stream, StreamBroken
from transports.memory import stream_pair

HELLO_S, FRAME_S = 10.0, 60.0


class TrioClock:
    """A clock that the test moves."""

    @staticmethod
    def mono_ns() -> int:
        return int(trio.current_time() * 1e9)

    wall_ns = mono_ns


class Scene:
    """Bob's node serves a connection, at whose other end Alice sends what the test wants."""

    def __init__(self, welcome: Callable[[PublicKey], Welcome | None] = everybody) -> None:
        here, self.stream = stream_pair()
        self.told: list[LinkEvent] = []
        self.heard = b""
        self.ended = ""
        self.closed_s = 0.0
        node = NodeSide(BOB, self.told.append, InFlight(64 << 20, 64 << 20), TrioClock(), lambda: None, lambda: False)
        limits = LinkLimits(hello_s=HELLO_S, frame_s=FRAME_S, goodbye_s=1.0)
        self.connection = Connection(
            1,
            here,
            offer(messages=4000, size=4 << 20),
            node,
            dialled=False,
            expect=None,
            limits=limits,
            welcome=welcome,
        )
        self.session = Session(offer(nonce=b"d" * 16), ALICE, dialler=True)
        self.here: Stream = here

    async def serve(self) -> None:
        self.ended = await self.connection.run()
        self.closed_s = trio.current_time()
        await self.here.aclose()

    async def shake_hands(self) -> None:
        while self.session.hello is None or not self.session.is_open:
            await self.stream.send_all(b"".join(self.session.output()))
            self.session.receive(await self.stream.receive_some(4096), 0)
        await self.stream.send_all(b"".join(self.session.output()))

    async def listen(self) -> list[link.Item]:
        """Return the bytes sent until the connection ends."""
        try:
            while data := await self.stream.receive_some(1 << 16):
                self.heard += data
        except StreamBroken:
            pass
        return [link.decode_item(self.heard[start:end]) for _, start, end in split_frames(self.heard)[0]]

    async def say(self, data: bytes, every_s: float, piece: int) -> None:
        for at in range(0, len(data), piece):
            try:
                await self.stream.send_all(data[at : at + piece])
            except StreamBroken:
                return
            await trio.sleep(every_s)


async def ended(scene: Scene, say: Callable[[], object]) -> link.Item | None:
    """Return the node's goodbye, if there is one, when Alice, linked, sends this."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scene.serve)
        await scene.shake_hands()
        nursery.start_soon(say)  # type: ignore[arg-type]
        items = await scene.listen()
        nursery.cancel_scope.cancel()
    return items[-1] if items else None


@pytest.mark.parametrize("pieces", [0, 1, 40])
async def test_a_frame_that_is_never_complete_ends_the_link(pieces: int, autojump_clock: MockClock) -> None:
    """Either nothing more of it comes, or a byte now and then."""
    scene = Scene()
    data = b"\x5a\x00\x0f\x00\x00" + bytes(pieces)
    last = await ended(scene, partial(scene.say, data, 3.0, 1 if pieces else len(data)))
    assert last == link.Goodbye(Reason.CONNECT_TIMEOUT, "a frame was not complete after 60 s of waiting for it")
    assert trio.current_time() < FRAME_S + 30
    assert [type(one).__name__ for one in scene.told] == ["LinkOpened", "LinkClosed"]


async def test_an_honest_frame_may_take_its_time(autojump_clock: MockClock) -> None:
    """A megabyte over a slow line comes whole, and so does the next, though both together take longer than one frame
    may."""
    scene = Scene()
    data = frame(seal_unicast(ALICE, BOB.public, bytes(1_000_000), ttl_s=1, expiry_min=1)) * 3

    async def talk() -> None:
        await scene.say(data, 1.0, len(data) // 150)
        await scene.stream.send_all(frame(link.encode_item(link.Goodbye(Reason.LEFT))))

    await ended(scene, talk)
    assert trio.current_time() > 2 * FRAME_S
    assert sum(len(one.rows) for one in scene.told if isinstance(one, Arrived)) == 3
    assert "goodbye" in scene.ended


async def test_a_link_on_which_nothing_has_begun_is_not_ended_for_that(autojump_clock: MockClock) -> None:
    scene = Scene()

    async def talk() -> None:
        await trio.sleep(20 * FRAME_S)
        await scene.stream.send_all(frame(link.encode_item(link.Goodbye(Reason.LEFT))))

    await ended(scene, talk)
    assert "goodbye" in scene.ended


async def test_single_bytes_are_read_now_and_then(autojump_clock: MockClock) -> None:
    """However fast they come, a peer cannot make this end read for each byte."""
    scene, reads = Scene(), 0
    receive = scene.connection._session.receive

    def counted(data: bytes, now: float) -> object:
        nonlocal reads
        reads += 1
        return receive(data, now)

    scene.connection._session.receive = counted  # type: ignore[method-assign, assignment]
    data = frame(bytes(2) + bytes(2000))

    async def talk() -> None:
        await scene.say(data[:1000], 0.001, 1)
        await scene.stream.aclose()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(scene.serve)
        await scene.shake_hands()
        nursery.start_soon(talk)
    assert reads < 40


async def test_who_is_not_let_in_is_told_so_before_anything_else_is_read(autojump_clock: MockClock) -> None:
    scene = Scene(welcome=lambda _: None)
    last = await ended(scene, partial(scene.say, frame(b"\x82\x09\x9a\x00\x00\xff\xff" + b"\xa0" * 0xFFFF), 0, 1 << 20))
    assert last == link.Goodbye(Reason.NOT_AUTHORISED) and scene.told == []


async def test_who_is_not_let_in_any_more_is_told_why(autojump_clock: MockClock) -> None:
    scene = Scene(welcome=lambda _: Welcome(refused="its time here ended"))
    last = await ended(scene, partial(scene.say, b"", 0, 1))
    assert last == link.Goodbye(Reason.NOT_AUTHORISED, "its time here ended") and scene.told == []


async def test_a_stranger_s_frame_is_shorter(autojump_clock: MockClock) -> None:
    scene = Scene(welcome=lambda _: Welcome(True, 8192))
    last = await ended(scene, partial(scene.say, b"\x59\x20\x01", 0, 3))
    assert last == link.Goodbye(Reason.TOO_LARGE, "frame of 8193 bytes; the limit is 8192")
    assert scene.connection._session.is_stranger
    assert isinstance(scene.told[0], LinkOpened)


async def test_many_messages_that_cannot_be_read_end_the_link(autojump_clock: MockClock) -> None:
    """The messages have three bytes each and cost no more than link items; a few among good ones are only refused."""
    scene = Scene()
    last = await ended(scene, partial(scene.say, b"\x42\x84\x00" * 51, 0, 200))
    assert last == link.Goodbye(Reason.RATE_LIMITED, "too many malformed messages a second")
    scene = Scene()
    goodbye = frame(link.encode_item(link.Goodbye(Reason.LEFT)))
    await ended(scene, partial(scene.say, b"\x42\x84\x00" * 50 + goodbye, 0, 200))
    assert "goodbye" in scene.ended


async def test_settling_what_was_never_sent_ends_the_link_at_once(autojump_clock: MockClock) -> None:
    scene = Scene()
    said = b"".join(frame(link.encode_item(link.Settled(n))) for n in range(1, 10_000))
    last = await ended(scene, partial(scene.say, said, 0, len(said)))
    assert last == link.Goodbye(Reason.MALFORMED, "settled 1, but 0 were sent")
    assert len(said) < FRAME_BYTES_MAX
