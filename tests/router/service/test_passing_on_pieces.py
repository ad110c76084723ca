"""Streams that are passed on to the router: single bytes are read now and then, and whole frames at once."""

from __future__ import annotations

from types import SimpleNamespace

import trio
from trio.testing import MockClock

from router.core.wire.codec import frame
from router.core.wire.websocket import SHORT_MAX, WebSocketFrames
from router.service.handing_over import Passed, pass_on
from router.transport.proxy_header import header_for
from router.transport.reading_pauses import TRICKLE_MAX_S, shared_pace
from router.transport.websocket import WebSocketStream
from transports.memory import MemoryStream, stream_pair

SMALL = frame(bytes(10))


class Inner(MemoryStream):
    """A stream in memory in place of a socket's, which carries a WebSocket."""

    def send_soon(self, data: bytes) -> None:
        raise AssertionError("nothing is answered here")

    abandon = close_soon = MemoryStream._abandon


async def took_s(guest: MemoryStream, passed: Passed, says: bytes, size: int, every_s: float = 0.0) -> float:
    """Return how long it takes until `size` bytes of a guest who says this are with the router; `every_s`: single
    bytes in that interval."""
    ours, router = stream_pair("router")
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pass_on, ours, passed, "", b"", shared_pace())
        nursery.start_soon(_say, guest, says, every_s)
        left = len(header_for("")) + size
        while left:
            left -= len(await router.receive_some(left))
        found = trio.current_time() - began
        nursery.cancel_scope.cancel()
    return found


async def _say(guest: MemoryStream, data: bytes, every_s: float) -> None:
    if not every_s:
        await guest.send_all(data)
    for at in range(len(data) if every_s else 0):
        await guest.send_all(data[at : at + 1])
        await trio.sleep(every_s)


def in_web_socket(parts: list[bytes]) -> tuple[MemoryStream, WebSocketStream, bytes]:
    """Return the guest's end, the stream that is passed on, and the bytes that carry each part in a frame."""
    here, guest = stream_pair("guest", 1 << 24)
    frames, inner = WebSocketFrames(is_client=True), Inner(here._incoming, here._outgoing, "guest")
    says = b"".join(bytes(one) for part in parts for one in frames.frames([part]))
    return guest, WebSocketStream(inner, "guest"), says  # type: ignore[arg-type]


async def test_frames_of_a_web_socket_with_single_bytes_are_taken_now_and_then(autojump_clock: MockClock) -> None:
    count = 4_000
    guest, passed, says = in_web_socket([frame(bytes(count))[at : at + 1] for at in range(count)])
    least_s = (count / SHORT_MAX - 2) * TRICKLE_MAX_S
    assert least_s * 0.9 < await took_s(guest, passed, says, count) < least_s * 1.1


async def test_whole_frames_are_passed_on_at_once_however_small(autojump_clock: MockClock) -> None:
    guest, passed, says = in_web_socket([SMALL] * 5_000)
    assert await took_s(guest, passed, says, 5_000 * len(SMALL)) == 0


async def test_single_bytes_of_a_stream_are_read_now_and_then(autojump_clock: MockClock) -> None:
    here, guest = stream_pair("guest")
    reads, receive = 0, here.receive_some

    async def counted(most: int) -> bytes:
        nonlocal reads
        reads += 1
        return await receive(most)

    passed = SimpleNamespace(receive_some=counted, aclose=here.aclose, send_all=here.send_all)
    spent = await took_s(guest, passed, frame(bytes(2_000)), 2_003, every_s=0.001)
    assert reads <= spent / TRICKLE_MAX_S + 10 and spent < 2.5
