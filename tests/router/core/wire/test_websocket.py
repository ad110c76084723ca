"""The frames of a WebSocket: any cutting gives the same stream, and the cases of Autobahn's suite for binary data."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.protocol import Protocol, Side, State

from router.core.wire.websocket import FRAME_BYTES_LEAST, PIECE_BYTES, FramesBroken, WebSocketFrames

CONTINUED, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
MASK = b"\x17\xa0\x01\xfe"


def wire(
    opcode: int, data: bytes = b"", *, fin: bool = True, mask: bool = True, bits: int = 0, size: bytes | None = None
) -> bytes:
    """Return a frame of a client; `size`: the bytes that say its length, in place of the right ones."""
    if size is None:
        long = len(data) >= 126
        size = bytes((len(data),)) if not long else b"\x7e" + len(data).to_bytes(2, "big")
        if len(data) >= 1 << 16:
            size = b"\x7f" + len(data).to_bytes(8, "big")
    head = bytes(((0x80 if fin else 0) | bits | opcode, (0x80 if mask else 0) | size[0])) + size[1:]
    if not mask:
        return head + data
    return head + MASK + bytes(one ^ key for one, key in zip(data, itertools.cycle(MASK), strict=False))


class Heard(NamedTuple):
    """What one end has heard: the stream, what it answered, whether the stream ended cleanly, and why not."""

    data: bytes
    answered: bytes
    ended: bool
    error: str


def hear(pieces: Iterable[bytes], *, is_client: bool = False, max_bytes: int = 1 << 18) -> Heard:
    frames = WebSocketFrames(is_client=is_client)
    found, answered, error = b"", b"", ""
    try:
        for piece in pieces:
            if frames.ended:
                break
            frames.receive(piece)
            while (data := frames.read(max_bytes)) or frames.waiting:
                assert len(data) <= max_bytes
                found += data
                answered += frames.control()
            answered += frames.control()
            frames.read(max_bytes)  # an error that came behind data
    except FramesBroken as broken:
        error = str(broken)
        answered += frames.control() + broken.answer
    return Heard(found, answered, frames.ended, error)


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    at = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[begin:end] for begin, end in itertools.pairwise(at)]


PARTS = st.lists(st.lists(st.binary(max_size=300), max_size=4), max_size=6)
PLACES = st.lists(st.integers(0, 1 << 16), max_size=30)


@given(PARTS, PLACES, st.booleans(), st.sampled_from([1, 7, 1 << 18]))
def test_frames_give_the_same_stream_however_they_are_cut(
    sends: list[list[bytes]], places: list[int], is_client: bool, max_bytes: int
) -> None:
    sender = WebSocketFrames(is_client=is_client)
    sent = b"".join(bytes(one) for parts in sends for one in sender.frames(parts)) + sender.goodbye()
    heard = hear(cut(sent, places), is_client=not is_client, max_bytes=max_bytes)
    assert heard.data == b"".join(map(b"".join, sends))
    assert heard.ended and not heard.error


@pytest.mark.parametrize("size", [1, 125, 126, 127, 65_535, 65_536, PIECE_BYTES, PIECE_BYTES + 1])
@pytest.mark.parametrize("is_client", [True, False])
def test_frames_carry_every_length(size: int, is_client: bool) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    sender = WebSocketFrames(is_client=is_client)
    parts = sender.frames([memoryview(data)[:size]])
    assert hear([b"".join(parts)], is_client=not is_client).data == data[:size]
    assert is_client or parts[1].obj is data  # type: ignore[union-attr]  # a server copies nothing


def told(code: int, reason: bytes = b"") -> bytes:
    """Return the closing frame with which a server answers."""
    return bytes((0x88, 2 + len(reason))) + code.to_bytes(2, "big") + reason


FINE = [
    ("nothing", wire(BINARY), b"", b""),
    ("all bytes", wire(BINARY, bytes(range(256))), bytes(range(256)), b""),
    ("a ping", wire(PING), b"", b"\x8a\x00"),
    ("a ping with data", wire(PING, b"\x00\xff\xfe"), b"", b"\x8a\x03\x00\xff\xfe"),
    ("a long ping", wire(PING, b"x" * 125), b"", b"\x8a\x7d" + b"x" * 125),
    ("pings in order", wire(PING, b"1") + wire(PING, b"2"), b"", b"\x8a\x011\x8a\x012"),
    ("pongs that nobody asked for", wire(PONG, b"x") + wire(BINARY, b"a"), b"a", b""),
    ("two messages", wire(BINARY, b"a") + wire(BINARY, b"b"), b"ab", b""),
    ("fragments", wire(BINARY, b"a", fin=False) + wire(CONTINUED, b"b", fin=False) + wire(CONTINUED), b"ab", b""),
    ("empty fragments", wire(BINARY, fin=False) + wire(CONTINUED, fin=False) + wire(CONTINUED, b"c"), b"c", b""),
    (
        "a ping between fragments",
        wire(BINARY, b"a", fin=False) + wire(PING, b"p") + wire(CONTINUED, b"b"),
        b"ab",
        b"\x8a\x01p",
    ),
    ("a frame without end", wire(BINARY, b"abc", size=b"\x7f" + b"\x7f" + b"\xff" * 7), b"abc", b""),
]  # fmt: skip


@pytest.mark.parametrize("step", [1 << 20, 1], ids=["whole", "bytes"])
@pytest.mark.parametrize(("sent", "stream", "answered"), [pytest.param(*one[1:], id=one[0]) for one in FINE])
def test_frames_are_taken(sent: bytes, stream: bytes, answered: bytes, step: int) -> None:
    found = hear(sent[at : at + step] for at in range(0, len(sent), step))
    assert found == Heard(stream, answered, False, "")


ENDS = [
    ("no status", b"", 0, ""),
    ("normal", b"\x03\xe8", 1000, ""),
    ("normal, with a reason", b"\x03\xe8bye", 1000, ""),
    ("a tab that is closed", b"\x03\xe9", 1001, ""),
    ("a protocol error", b"\x03\xea", 1002, "the peer ended the WebSocket with status 1002: no reason"),
    ("an error with a reason", b"\x03\xf3full\x1b", 1011, "the peer ended the WebSocket with status 1011: full"),
    ("one of its own", b"\x0f\xa0x", 4000, "the peer ended the WebSocket with status 4000: x"),
]


@pytest.mark.parametrize("step", [1 << 20, 1], ids=["whole", "bytes"])
@pytest.mark.parametrize(("payload", "status", "error"), [pytest.param(*one[1:], id=one[0]) for one in ENDS])
def test_frames_end(payload: bytes, status: int, error: str, step: int) -> None:
    sent = wire(BINARY, b"a") + wire(CLOSE, payload) + wire(BINARY, b"b")
    found = hear(sent[at : at + step] for at in range(0, len(sent), step))
    assert found.data == b"a" and found.ended == (not error) and found.error == error
    assert found.answered[:1] == b"\x88" and found.answered[2:4] == (status.to_bytes(2, "big") if status else b"")


@pytest.mark.parametrize("status", [*range(1000, 1004), *range(1007, 1012), 3000, 3999, 4000, 4999])
def test_each_status_of_a_closing_that_may_be_is_taken(status: int) -> None:
    found = hear([wire(CLOSE, status.to_bytes(2, "big") + b"r" * 123)])
    assert found.answered[:1] == b"\x88" and found.answered[2:4] == status.to_bytes(2, "big")
    assert found.ended == (status in (1000, 1001)) and ("status" in found.error) == (not found.ended)


def test_nothing_that_comes_behind_a_closing_is_heard() -> None:
    found = hear([wire(CLOSE, b"\x03\xe8") + wire(PING, b"p") + wire(BINARY, b"a") + wire(CLOSE, b"\x03\xe8")])
    assert found == Heard(b"", told(1000), True, "")


# -- with the library websockets -----------------------------------------------------------------------------------

SIZES = (0, 125, 126, 127, 128, 65_535, 65_536, 150_000)


def said_by(peer: Protocol) -> bytes:
    return b"".join(peer.data_to_send())


@pytest.mark.parametrize("side", [Side.CLIENT, Side.SERVER])
@pytest.mark.parametrize("size", SIZES)
def test_binary_messages_of_the_library_websockets_are_read_whole_in_fragments_and_in_chops(
    side: Side, size: int
) -> None:
    data, piece = bytes(range(256)) * (size // 256 + 1), max(1, size // 16)
    data = data[:size]
    peer = Protocol(side, state=State.OPEN)
    peer.send_binary(data)
    peer.send_ping(b"between messages")
    parts = [data[at : at + piece] for at in range(0, size, piece)] or [b""]
    peer.send_binary(parts[0], fin=len(parts) == 1)
    for number, one in enumerate(parts[1:], 2):
        peer.send_ping(b"%d" % number)
        peer.send_continuation(one, fin=number == len(parts))
    peer.send_close(1000, "over")
    wire, is_client = said_by(peer), side is Side.SERVER
    chop = 977 if size > 65_536 else 61
    for found in (hear([wire], is_client=is_client), hear(cut(wire, range(0, len(wire), chop)), is_client=is_client)):
        assert (found.data, found.ended, found.error) == (2 * data, True, "")
    peer.receive_data(found.answered)
    pongs = [one.data for one in peer.events_received() if isinstance(one, Frame) and one.opcode is Opcode.PONG]
    assert pongs == [b"between messages", *(b"%d" % number for number in range(2, len(parts) + 1))]
    assert peer.close_rcvd is not None and peer.close_rcvd.code == 1000 and peer.parser_exc is None


@pytest.mark.parametrize("side", [Side.CLIENT, Side.SERVER])
def test_the_library_websockets_reads_what_is_sent(side: Side) -> None:
    frames, peer = WebSocketFrames(is_client=side is Side.SERVER), Protocol(side, state=State.OPEN, max_size=None)
    sizes = [*SIZES[1:], PIECE_BYTES, PIECE_BYTES + 1]
    for size in sizes:
        for part in frames.frames([bytes(size // 2), bytes(size - size // 2)]):
            peer.receive_data(bytes(part))
    peer.receive_data(frames.goodbye(1001, "gone"))
    events = [one for one in peer.events_received() if isinstance(one, Frame)]
    sent = [len(one.data) for one in events if one.opcode is Opcode.BINARY]
    assert sum(sent) == sum(sizes) and all(one.fin for one in events)
    assert peer.parser_exc is None and (side is Side.SERVER or sent == sizes)
    assert peer.close_rcvd is not None and (peer.close_rcvd.code, peer.close_rcvd.reason) == (1001, "gone")


NO_STATUS = (0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535)
WRONG = [
    ("a text message", wire(TEXT, b"abc"), 1003, "a text message came"),
    ("an empty text message", wire(TEXT), 1003, "a text message came"),
    ("a text message that is none", wire(TEXT, b"\xff"), 1007, "breaks the protocol"),
    ("no mask", wire(BINARY, b"abc", mask=False), 1002, "unmasked"),
    ("a long ping", wire(PING, b"x" * 126), 1002, "breaks the protocol"),
    ("a ping in fragments", wire(PING, b"x", fin=False), 1002, "fragment"),
    ("a pong in fragments", wire(PONG, b"x", fin=False), 1002, "fragment"),
    ("a continuation behind a whole message", wire(BINARY, b"a") + wire(CONTINUED, b"b"), 1002, "CONTINUATION"),
    ("a closing in fragments", wire(CLOSE, b"\x03\xe8", fin=False), 1002, "fragment"),
    ("a long closing", wire(CLOSE, b"\x03\xe8" + b"r" * 124), 1002, "breaks the protocol"),
    ("a closing of one byte", wire(CLOSE, b"\x03"), 1002, "breaks the protocol"),
    ("a reason that is no text", wire(CLOSE, b"\x03\xe8\xff\xfe"), 1007, "breaks the protocol"),
    *((f"status {one}", wire(CLOSE, one.to_bytes(2, "big")), 1002, "breaks the protocol") for one in NO_STATUS),
    *((f"opcode {one}", wire(one, b"abc"), 1002, "opcode") for one in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15)),
    *((f"reserved bits {one}", wire(BINARY, b"abc", bits=one), 1002, "breaks") for one in (0x10, 0x20, 0x40, 0x70)),
    ("a continuation first", wire(CONTINUED, b"abc"), 1002, "CONTINUATION"),
    ("a message in a message", wire(BINARY, b"a", fin=False) + wire(BINARY, b"b"), 1002, "CONTINUATION"),
    ("a length of nine bytes that fits one", wire(BINARY, b"abc", size=b"\x7f" + bytes(7) + b"\x03"), 1002, "breaks"),
    ("a length of two bytes that fits one", wire(BINARY, b"abc", size=b"\x7e\x00\x03"), 1002, "breaks"),
    ("a length below zero", wire(BINARY, b"abc", size=b"\x7f" + b"\xff" * 8), 1002, "breaks"),
]  # fmt: skip


@pytest.mark.parametrize("step", [1 << 20, 1], ids=["whole", "bytes"])
def test_frames_that_are_wrong_end_the_stream_with_a_sentence(step: int) -> None:
    for name, wrong, status, said in WRONG:
        sent = wire(BINARY, b"before") + wrong
        found = hear(sent[at : at + step] for at in range(0, len(sent), step))
        assert found.data[:6] == b"before" and not found.ended, name
        assert found.error.startswith("WebSocket: ") and said in found.error, name
        assert found.answered[:1] == b"\x88" and found.answered[2:4] == status.to_bytes(2, "big"), name
        assert found.answered[4:].decode() in found.error, name


@given(st.binary(max_size=300), st.booleans())
def test_frames_survive_any_bytes_and_hear_the_same_of_each_cutting(data: bytes, is_client: bool) -> None:
    whole = hear([data], is_client=is_client)
    pieces = hear((data[at : at + 1] for at in range(len(data))), is_client=is_client)
    assert (whole.data, whole.ended, bool(whole.error)) == (pieces.data, pieces.ended, bool(pieces.error))


def test_frames_of_a_server_must_not_be_masked() -> None:
    assert "masked" in hear([wire(BINARY, b"abc")], is_client=True).error


def test_one_read_takes_only_so_many_short_frames() -> None:
    frames = WebSocketFrames(is_client=False, first=wire(BINARY, b"x") * 1000)
    assert frames.read(64 * FRAME_BYTES_LEAST) == b"x" * 64 and frames.waiting
    assert frames.received_bytes == 64 * FRAME_BYTES_LEAST
    assert b"".join(iter(lambda: frames.read(64 * FRAME_BYTES_LEAST), b"")) == b"x" * 936 and not frames.waiting


def test_frames_without_data_are_counted() -> None:
    frames = WebSocketFrames(is_client=False, first=(wire(PING) + wire(PONG) + wire(BINARY) + wire(BINARY, b"a")) * 3)
    assert frames.read(1 << 18) == b"aaa"
    assert frames.barren == 9


def test_frames_are_not_answered_after_a_goodbye() -> None:
    frames = WebSocketFrames(is_client=False)
    assert frames.goodbye(1001, "gone") == told(1001, b"gone") and frames.goodbye() == b""
    assert repr(frames) == "<frames of a server: open>"
