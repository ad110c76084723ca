"""Memory streams are bounded and deterministic."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from rigs.patience import HANG_S
from two_ends import CLIENT, SERVER, listening, receive_exactly

from router.transport.contract import ConnectFailed, Stream, dial
from transports.memory import _Pipe, listen, stream_pair


async def test_a_full_buffer_stops_the_sender() -> None:
    ours, theirs = stream_pair(buffer_bytes_max=10)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ours.send_parts, [b"01234", b"56789abc", b"def"])
        await trio.testing.wait_all_tasks_blocked()
        assert await theirs.receive_some(100) == b"0123456789"
        assert await receive_exactly(theirs, 6) == b"abcdef"


async def test_sending_ends_when_the_reader_leaves() -> None:
    ours, theirs = stream_pair(buffer_bytes_max=10)
    with pytest.raises(ExceptionGroup):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ours.send_all, bytes(100))
            await trio.testing.wait_all_tasks_blocked()
            await theirs.aclose()


@given(st.lists(st.binary(max_size=20)), st.lists(st.integers(1, 25)), st.integers(1, 30))
def test_a_pipe_keeps_order_and_bound(parts: list[bytes], reads: list[int], limit: int) -> None:
    pipe, taken = _Pipe(limit), b""
    for part in parts:
        while part:
            part = part[pipe.put(part) :]
            assert pipe.size == sum(map(len, pipe.chunks)) <= limit
            if part:
                size = reads.pop() if reads else 7
                chunk = pipe.take(size)
                assert 0 < len(chunk) <= size
                taken += chunk
    assert taken + pipe.take(1000) == b"".join(parts)
    assert pipe.size == 0


async def test_time_stands_still_while_bytes_move(autojump_clock: trio.testing.MockClock) -> None:
    async def answer_later(stream: Stream) -> None:
        while data := await stream.receive_some(10):
            await trio.sleep(3600)
            await stream.send_all(data)

    async with trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: listen("memory://t", SERVER, answer_later, task_status=task_status))
        stream = await dial("memory://t", CLIENT, None, timeout_s=HANG_S)
        await stream.send_all(b"x")
        assert await stream.receive_some(1) == b"x"
        assert trio.current_time() == pytest.approx(3600)
        nursery.cancel_scope.cancel()


async def test_names_are_separate() -> None:
    async with listening("memory://a") as a, listening("memory://b") as b:
        ours = await b.connect()
        await ours.send_all(b"for b")
        assert await (await b.accept()).receive_some(100) == b"for b"
        await a.connect()
    with pytest.raises(ConnectFailed, match="nobody in this process is listening on memory://a"):
        await dial("memory://a", CLIENT, None, timeout_s=HANG_S)
