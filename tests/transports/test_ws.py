"""WebSockets without TLS: their URLs, and what hostile clients can do: each ends its own connection alone, with a
sentence."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Sequence

import pytest
import trio
import trio.testing
from rigs.patience import HANG_S
from trio import SocketStream, open_tcp_stream
from trio.socket import SocketType
from trio.testing import MockClock
from two_ends import CLIENT, Listening, echo, listening, proven_echo, says

from router.core.wire.crypto import SigningKey
from router.core.wire.reasons import Reason
from router.core.wire.upgrade import UpgradeAsker
from router.core.wire.websocket import WebSocketFrames
from router.transport import tcp
from router.transport.contract import (
    Buffer,
    ConnectFailed,
    InvalidUrl,
    ListenFailed,
    Stream,
    StreamBroken,
    dial,
    resolve,
)
from router.transport.limits import HANDSHAKE_PAUSE_S, HANDSHAKE_READS, HandshakeLimits
from router.transport.socket_stream import TcpStream
from router.transport.websocket import BUSY_ANSWER, WebSocketStream, answer_upgrade
from transports.ws import check, listen

URL = "ws://127.0.0.1:0"
ASKED = UpgradeAsker("127.0.0.1", "/link", bytes(16)).request


def frame(opcode: int, data: bytes = b"", *, first: int = 0x80, size: bytes | None = None) -> bytes:
    """Return a frame of a client, whose mask changes nothing."""
    length = size or (bytes((len(data),)) if len(data) < 126 else b"\x7e" + len(data).to_bytes(2, "big"))
    return bytes((first | opcode, 0x80 | length[0])) + length[1:] + bytes(4) + data


def port_of(this: Listening) -> int:
    return int(this.url.rpartition(":")[2].partition("/")[0])


async def caller(this: Listening) -> SocketStream:
    return await open_tcp_stream("127.0.0.1", port_of(this))


async def upgraded(this: Listening, *more: bytes) -> SocketStream:
    """Return a raw connection after the upgrade, whose answer was read."""
    stream = await caller(this)
    await stream.send_all(b"".join((ASKED, *more)))
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += await stream.receive_some(1)
    assert head.startswith(b"HTTP/1.1 101 ")
    return stream


async def rest_of(stream: SocketStream) -> bytes:
    """Return what comes until the other end closes."""
    found = b""
    try:
        while data := await stream.receive_some(1 << 16):
            found += data
    except trio.BrokenResourceError:
        pass
    return found


# -- URLs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "ws://127.0.0.1:4190",
        "ws://127.0.0.1",
        "ws://[::1]:1/link",
        "ws://localhost/a/b?host=example.org",
        "ws://192.0.2.1/?plain=yes",
        "ws://:4190/link?plain=yes",
    ],
)
def test_ws_takes_urls_of_this_machine_and_others_that_say_plain(url: str) -> None:
    check(url)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ws://192.0.2.1:4190/link", "without TLS, so others on the way could read"),
        ("ws://example.org", "use wss, or add ?plain=yes"),
        ("ws://:4190", "add ?plain=yes"),
        ("ws://0.0.0.0:4190?plain=no", "add ?plain=yes"),
        ("ws://127.0.0.1?plain=maybe", "must be yes or no"),
        ("ws://127.0.0.1?pin=00", "'pin' in 'ws://127.0.0.1?pin=00' is no option of ws; there are host, plain"),
        ("ws://127.0.0.1/a b", "has a sign that no URL may have"),
        ("ws://127.0.0.1/#part", "has a sign that no URL may have"),
        ("ws://127.0.0.1:99999/", "ports go up to 65535"),
        ("ws://", "lacks host or port"),
        ("ws://127.0.0.1?host=a..b", "no name that DNS knows"),
        ("ws:///link", "lacks host or port"),
    ],
)
def test_ws_refuses_a_url_with_the_remedy(url: str, said: str) -> None:
    with pytest.raises(InvalidUrl) as caught:
        check(url)
    assert said in str(caught.value)


async def test_ws_neither_dials_nor_listens_off_this_machine_unless_told_so() -> None:
    with pytest.raises(ConnectFailed, match=r"add \?plain=yes"):
        await dial("ws://192.0.2.1:4190", CLIENT, None, timeout_s=HANG_S)
    with pytest.raises(ListenFailed, match=r"add \?plain=yes"):
        await listen("ws://0.0.0.0:0", CLIENT, echo)
    async with listening("ws://127.0.0.1:0/x?plain=yes", handler=echo) as this:
        assert this.url == f"ws://127.0.0.1:{port_of(this)}/x?plain=yes"
        assert await says(await this.connect(), b"plain") == b"plain"


async def test_ws_resolves_to_addresses_that_keep_the_name() -> None:
    found = await resolve("ws://localhost:4190/link", timeout_s=HANG_S)
    assert "ws://127.0.0.1:4190/link?host=localhost" in found
    assert await resolve("ws://127.0.0.1", timeout_s=HANG_S) == ["ws://127.0.0.1"]


# -- hostile clients ---------------------------------------------------------------------------------------

UNREAD = [
    ("a page", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "the link is at /link"),
    ("a page at the link", b"GET /link HTTP/1.1\r\nHost: x\r\n\r\n", "there is no page here"),
    ("noise", b"\x16\x03\x01\x02\x00\x01\x00" + bytes(300) + b"\r\n\r\n", "that is no request of HTTP/1.1"),
    ("a long head", b"GET / HTTP/1.1\r\nX: " + b"a" * 40_000, "that is no request of HTTP/1.1"),
    ("another path", ASKED.replace(b"/link", b"/nope") + frame(2, b"x"), "the link is at /link"),
    ("version 99", ASKED.replace(b"13", b"99"), "version 13 of WebSocket alone"),
    ("another subprotocol", ASKED.replace(b"upsycle.1", b"chat\xff"), "the subprotocol upsycle.1 alone"),
    (
        "both lengths",
        ASKED[:-2] + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "both Content-Length and Transfer-Encoding",
    ),
    ("a large body", ASKED[:-2] + b"Content-Length: 99999999\r\n\r\n" + bytes(300_000), "no body"),
]


@pytest.mark.parametrize("is_whole", [True, False], ids=["whole", "bytes"])
@pytest.mark.parametrize(("sent", "said"), [pytest.param(*one[1:], id=one[0]) for one in UNREAD])
async def test_ws_answers_what_is_no_upgrade_with_the_sentence_that_it_logs(
    sent: bytes, said: str, is_whole: bool
) -> None:
    async with listening(URL, handler=echo) as this:
        before = await this.connect()
        stream = await caller(this)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_pieces, stream, [sent] if is_whole else [bytes((one,)) for one in sent[:2000]])
            answer = await rest_of(stream) if is_whole or len(sent) < 2000 else b""
            nursery.cancel_scope.cancel()
        await stream.aclose()
        if answer:
            assert said in answer.partition(b"\r\n\r\n")[2].decode()
            assert said in await this.refusal()
        assert await says(before, b"still") == b"still"
        assert await says(await this.connect(), b"here") == b"here"


async def send_pieces(stream: SocketStream, pieces: Sequence[bytes]) -> None:
    try:
        for one in pieces:
            await stream.send_all(one)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass  # it was answered before it had said all


BROKEN = [
    ("text", frame(1, b"abc"), "text message"),
    ("unmasked", b"\x82\x03abc", "unmasked"),
    ("fragmented ping", frame(9, b"x", first=0), "fragment"),
    ("reserved", frame(2, b"abc", first=0xC0), "Reserved"),
    ("opcode 3", frame(3, b"abc"), "opcode"),
    ("ping flood", frame(9, b"x" * 100) * 2000, "too many frames without data"),
    ("empty frames", frame(2) * 2000, "too many frames without data"),
    ("a request", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "breaks the protocol"),
]


@pytest.mark.parametrize("with_upgrade", [True, False], ids=["one packet", "later"])
@pytest.mark.parametrize(("sent", "said"), [pytest.param(*one[1:], id=one[0]) for one in BROKEN])
async def test_ws_tells_who_breaks_the_protocol_why_it_ends(sent: bytes, said: str, with_upgrade: bool) -> None:
    problems: list[str] = []

    async def heard(stream: Stream) -> None:
        try:
            await echo(stream)
        except StreamBroken as error:
            problems.append(str(error))
            raise

    async with listening(URL, handler=heard) as this:
        before = await this.connect()
        stream = await upgraded(this, *([sent] if with_upgrade else []))
        if not with_upgrade:
            await send_pieces(stream, [sent])
        frames = WebSocketFrames(is_client=True, first=await rest_of(stream))
        with pytest.raises(Exception, match="the peer ended the WebSocket") as told:
            while frames.read(1 << 18) or frames.waiting:
                pass
        assert said in str(told.value) and said in problems[0]
        await stream.aclose()
        assert await says(before, b"still") == b"still"


async def test_ws_carries_a_frame_without_end_as_it_comes_and_keeps_nothing_of_it() -> None:
    count = 0

    async def swallow(stream: Stream) -> None:
        nonlocal count
        while data := await stream.receive_some(1 << 18):
            count += len(data)

    async with listening(URL, handler=swallow) as this:
        stream = await upgraded(this)
        await stream.send_all(frame(2, b"", size=b"\x7f\x7f" + b"\xff" * 7))
        tracemalloc.start()
        for _ in range(64):
            await stream.send_all(bytes(1 << 18))
        while count < 64 << 18:
            await trio.sleep(0)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 8 << 20
        await stream.aclose()


async def test_ws_finds_half_a_close_no_clean_end() -> None:
    ends: list[str] = []

    async def note(stream: Stream) -> None:
        try:
            while await stream.receive_some(100):
                pass
            ends.append("clean")
        except StreamBroken as error:
            ends.append(str(error))
            raise
        finally:
            noted.set()

    for sent, end in [
        (frame(8, b"\x03\xe8")[:3], "did not say goodbye"),
        (b"", "did not say goodbye"),
        (frame(2, b"abcd")[:7], "did not say goodbye"),
        (frame(8, b"\x03\xe9"), "clean"),
    ]:
        noted = trio.Event()
        async with listening(URL, handler=note) as this:
            stream = await upgraded(this, sent)
            await stream.send_eof()
            await noted.wait()
            assert end in ends.pop()
            await stream.aclose()


async def test_ws_ends_a_peer_that_pings_and_reads_no_pongs() -> None:
    ended = trio.Event()
    problems: list[str] = []

    async def send_only(stream: Stream) -> None:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(stream.send_all, bytes(64 << 20))
                while await stream.receive_some(1 << 16):
                    pass
        except* StreamBroken as group:
            problems.extend(map(str, group.exceptions))
        ended.set()

    async with listening(URL, handler=send_only) as this:
        stream = await upgraded(this)
        await send_pieces(stream, [frame(9, b"x" * 125)] * 200)
        await ended.wait()
        assert "the peer sends pings but does not read the pongs" in problems
        await stream.aclose()


async def test_ws_answers_pings_between_frames_while_it_sends() -> None:
    async def talk(stream: Stream) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.send_all, bytes(8 << 20))
            while await stream.receive_some(1 << 16):
                pass

    async with listening(URL, handler=talk) as this:
        stream = await upgraded(this, frame(2, b"a"), *[frame(9, b"p")] * 3)
        frames = WebSocketFrames(is_client=True)
        size = pongs = 0
        while size < 8 << 20 or pongs < 3:
            frames.receive(await stream.receive_some(1 << 16))
            barren = frames.barren
            size += sum(len(data) for data in iter(lambda: frames.read(1 << 18), b""))
            pongs += frames.barren - barren
        await stream.aclose()


# -- places ------------------------------------------------------------------------------------------------


async def test_ws_connections_whose_link_has_proven_no_key_give_way() -> None:
    async with listening(URL, connections_max=4) as this:
        silent = [await this.connect() for _ in range(3)]
        assert await this.refusal() == "it had not proven a key when another connection needed its place"
        with pytest.raises(StreamBroken):
            await silent[0].receive_some(1)
        for _ in range(3):
            stream = await this.accept()
            stream.link_proved(CLIENT.public)
        assert len(this.refused) == 1


async def test_ws_gives_the_prefix_of_a_known_key_every_other_turn_once_its_link_has_proven_it() -> None:
    known: list[bytes] = []

    def is_known(key: bytes) -> bool:
        known.append(key)
        return True

    async with listening(URL, handler=proven_echo, is_known=is_known) as this:
        assert await says(await this.connect(), b"x") == b"x"
        assert known == [CLIENT.public]


async def test_ws_tells_who_waits_in_vain_for_a_turn() -> None:
    limits = HandshakeLimits(max_per_prefix=1, timeout_s=HANG_S)
    async with listening(URL, handler=echo, handshakes=limits) as this:
        silent = [await caller(this) for _ in range(5)]
        for stream in silent:
            await stream.send_all(b"G")
        await trio.testing.wait_all_tasks_blocked()
        late = await caller(this)
        assert await rest_of(late) == BUSY_ANSWER
        with pytest.raises(ConnectFailed, match=r"it answers 503 \(too many connect at this moment"):
            await this.connect()
        for stream in (*silent, late):
            await stream.aclose()


class Held(TcpStream):
    """A connection whose sends have left before they are done, until `may_end`."""

    __slots__ = ("may_end",)

    def __init__(self, sock: SocketType, where: str) -> None:
        super().__init__(sock, where, "")
        self.may_end = trio.Event()

    async def _send(self, parts: Sequence[Buffer]) -> None:
        await super()._send(parts)
        with trio.CancelScope(shield=True):
            await self.may_end.wait()


async def test_ws_tells_why_it_ends_also_if_something_was_being_sent() -> None:
    ours, theirs = trio.socket.socketpair()
    inner = Held(ours, "here")
    stream = WebSocketStream(inner, "here")
    with trio.fail_after(HANG_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.send_all, b"hello")
            assert await theirs.recv(100) == b"\x82\x05hello"
            await theirs.send(frame(1, b"a text"))
            with pytest.raises(StreamBroken, match="a text message"):
                await stream.receive_some(100)
            inner.may_end.set()
            nursery.cancel_scope.cancel()
        await stream.aclose()
        goodbye = await theirs.recv(200)
        assert goodbye[:1] == b"\x88" and goodbye[2:4] == (1003).to_bytes(2, "big")
        assert await theirs.recv(200) == b""
    theirs.close()


class ByteByByte(TcpStream):
    """A stream of which each read gives one byte."""

    async def _receive(self, max_bytes: int) -> bytes:
        return await super()._receive(1)


async def test_ws_reads_an_upgrade_that_comes_byte_by_byte_with_pauses(autojump_clock: MockClock) -> None:
    ours, theirs = trio.socket.socketpair()
    await theirs.send(ASKED)
    await answer_upgrade(ByteByByte(ours, "here", ""), "/link", "here")
    assert trio.current_time() == pytest.approx((len(ASKED) - HANDSHAKE_READS - 1) * HANDSHAKE_PAUSE_S)
    ours.close()
    theirs.close()


async def test_ws_cuts_an_upgrade_that_trickles() -> None:
    async with listening(URL, handler=echo, handshakes=HandshakeLimits(timeout_s=0.5)) as this:
        stream = await caller(this)
        await stream.send_all(ASKED[:40])
        assert await rest_of(stream) == b""
        assert await this.refusal() == "the handshake was not done after 0.5 s"
        await stream.aclose()


# -- dialling ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "it answers 404; is the path right"),
        (b"", "it closed the connection without an answer"),
        (b"\x15\x03\x03\x00\x02\x02\x50", "it does not speak HTTP/1.1"),
    ],
)
async def test_ws_dialled_says_what_is_there_instead(answer: bytes, said: str) -> None:
    async def serve(stream: SocketStream) -> None:
        await stream.receive_some(4096)
        await stream.send_all(answer)

    async with trio.open_nursery() as nursery:
        listener, *_ = await nursery.start(trio.serve_tcp, serve, 0)
        port = listener.socket.getsockname()[1]
        with pytest.raises(ConnectFailed, match=said) as caught:
            await dial(f"ws://127.0.0.1:{port}", SigningKey(os.urandom(32)), None, timeout_s=HANG_S)
        assert caught.value.has_answered and caught.value.text.startswith(f"ws {tcp.host_port('127.0.0.1', port)}: ")
        nursery.cancel_scope.cancel()


async def test_ws_dialled_in_vain_says_so_in_time() -> None:
    async def serve(stream: SocketStream) -> None:
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        listener, *_ = await nursery.start(trio.serve_tcp, serve, 0)
        port = listener.socket.getsockname()[1]
        for timeout_s in (0.1, 1, 10, 100):  # the first in which a busy machine connects
            with pytest.raises(ConnectFailed, match=f"did not answer within {timeout_s} s") as caught:
                await dial(f"ws://127.0.0.1:{port}", CLIENT, None, timeout_s=timeout_s)
            if caught.value.has_answered:
                break
        assert caught.value.has_answered and caught.value.reason is Reason.CONNECT_TIMEOUT
        nursery.cancel_scope.cancel()


async def test_ws_stream_reads_as_a_sentence() -> None:
    async with listening(URL) as this:
        stream = await this.connect()
        assert repr(stream) == f"<WebSocketStream ws 127.0.0.1:{port_of(this)}, open>"
        theirs = await this.accept()
        await theirs.send_all(b"x" * 10)
        assert await stream.receive_some(100) == b"x" * 10
        assert stream.received_bytes == 128 and stream.ip == "127.0.0.1" and stream.place == "127.0.0.0/24"
