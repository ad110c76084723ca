"""The upgrade to a WebSocket: what is accepted, what is refused with which sentence, whole and byte by byte."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.core.wire.upgrade import ANSWER_BYTES_MAX, UpgradeAnswer, UpgradeAsker, UpgradeReader, accept_key

KEY = b"dGhlIHNhbXBsZSBub25jZQ=="
"""The key of RFC 6455, section 1.3, whose answer stands there."""
ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
ASKED = (
    b"GET /link HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + KEY + b"\r\nSec-WebSocket-Protocol: chat, upsycle.1\r\n\r\n"
)
SWITCHED = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: " + ACCEPT.encode() + b"\r\nSec-WebSocket-Protocol: upsycle.1\r\n\r\n"
)
NONCE = b"the sample nonce"


def read(reader: UpgradeReader | UpgradeAsker, pieces: Iterable[bytes]) -> tuple[UpgradeAnswer | None, bytes]:
    """Return the answer, and what of the pieces was not given to the reader then."""
    left = list(pieces)
    while left:
        if (answer := reader.receive(left.pop(0))) is not None:
            return answer, b"".join(left)
    return None, b""


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    at = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [piece for begin, end in pairwise(at) if (piece := data[begin:end])]


def test_upgrade_answers_the_example_of_the_standard() -> None:
    assert accept_key(KEY) == ACCEPT
    answer = UpgradeReader("/link").receive(ASKED)
    assert answer is not None and answer.refused == "" and answer.first == b""
    assert answer.data.startswith(b"HTTP/1.1 101 Switching Protocols\r\n") and answer.data.endswith(b"\r\n\r\n")
    assert b"Sec-WebSocket-Accept: " + ACCEPT.encode() in answer.data
    assert b"Sec-WebSocket-Protocol: upsycle.1" in answer.data
    assert b"Extensions" not in answer.data


def test_upgrade_takes_a_query_and_offered_compression_and_uses_neither() -> None:
    more = b"\r\nSec-WebSocket-Extensions: permessage-deflate; client_max_window_bits=99\r\n\r\n"
    answer = UpgradeReader("/link").receive(ASKED.replace(b"/link", b"/link?a=b").replace(b"\r\n\r\n", more))
    assert answer is not None and answer.refused == "" and b"Extensions" not in answer.data


@given(st.binary(max_size=40), st.lists(st.integers(0, 1000), max_size=20))
def test_upgrade_loses_no_byte_behind_the_request(behind: bytes, places: list[int]) -> None:
    answer, left = read(UpgradeReader("/link"), cut(ASKED + behind, places))
    assert answer is not None and not answer.refused
    assert answer.first + left == behind


@given(st.binary(max_size=40), st.lists(st.integers(0, 1000), max_size=20))
def test_upgrade_loses_no_byte_behind_the_answer(behind: bytes, places: list[int]) -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n"
    answer, left = read(UpgradeAsker("127.0.0.1", "/link", NONCE), cut(early + SWITCHED + behind, places))
    assert answer is not None and not answer.refused
    assert answer.first + left == behind


def test_upgrade_asks_as_the_standard_says() -> None:
    asker = UpgradeAsker("chat.example.org:8443", "/link", NONCE)
    assert asker.request.startswith(b"GET /link HTTP/1.1\r\n") and asker.request.endswith(b"\r\n\r\n")
    answer = UpgradeReader("/link").receive(asker.request)
    assert answer is not None and not answer.refused
    found = asker.receive(answer.data + b"more")
    assert found == UpgradeAnswer(b"", "", b"more")


def other(old: bytes, new: bytes) -> bytes:
    assert old in ASKED
    return ASKED.replace(old, new)


REFUSED = [
    (b"GET /link HTTP/1.1\r\nHost: x\r\n\r\n", 426, "there is no page here"),
    (other(b"/link", b"/nope"), 404, "there is nothing at this path; the link is at /link"),
    (other(b"/link", b"/\xff\xfe"), 400, "no request of HTTP/1.1"),
    (other(b"/link", b"http://127.0.0.1/link"), 404, "nothing at this path"),
    (other(b"GET", b"POST"), 405, "begins with GET"),
    (other(b"GET", b"HEAD"), 405, "begins with GET"),
    (b"CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n", 404, "nothing at this path"),
    (b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 404, "nothing at this path"),
    (other(b"HTTP/1.1", b"HTTP/1.0"), 505, "the request is of HTTP/1.0"),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(60), 404, "nothing at this path"),
    (other(b"Version: 13", b"Version: 99"), 426, "version 13 of WebSocket alone"),
    (other(b"Version: 13", b"Version: 13\r\nSec-WebSocket-Version: 8"), 426, "version 13 of WebSocket alone"),
    (other(b"Sec-WebSocket-Version", b"X-Version"), 426, "version 13 of WebSocket alone"),
    (other(b"Sec-WebSocket-Key", b"X-Key"), 400, "Sec-WebSocket-Key is not once 16 bytes"),
    (other(KEY, b"dGhlIA=="), 400, "Sec-WebSocket-Key is not once 16 bytes"),
    (other(KEY, b"\xff" * 24), 400, "Sec-WebSocket-Key is not once 16 bytes"),
    (other(KEY, KEY + b"\r\nSec-WebSocket-Key: " + KEY), 400, "Sec-WebSocket-Key is not once 16 bytes"),
    (other(b"chat, upsycle.1", b"chat"), 400, "the subprotocol upsycle.1 alone"),
    (other(b"chat, upsycle.1", b"\xff"), 400, "the subprotocol upsycle.1 alone"),
    (other(b"Sec-WebSocket-Protocol", b"X-Protocol"), 400, "the subprotocol upsycle.1 alone"),
    (other(b"Upgrade: websocket", b"Upgrade: h2c"), 426, "there is no page here"),
    (other(b"keep-alive, Upgrade", b"keep-alive"), 426, "there is no page here"),
    (other(b"\r\n\r\n", b"\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"), 400, "both Content-Length"),
    (other(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n"), 400, "no body"),
    (other(b"\r\n\r\n", b"\r\nContent-Length: 99999999\r\n\r\n"), 400, "no body"),
    (other(b"\r\n\r\n", b"\r\nContent-Length: many\r\n\r\n"), 400, "no request of HTTP/1.1"),
    (other(b"Host: 127.0.0.1", b"Host: a\r\nHost: b"), 400, "no request of HTTP/1.1"),
    (other(b"Host: 127.0.0.1\r\n", b""), 400, "no request of HTTP/1.1"),
    (other(b"/link", b"/\x00"), 400, "no request of HTTP/1.1"),
    (b"GET / HTTP/1.1\r\nX: " + b"a" * 200_000, 431, "no request of HTTP/1.1"),
    (b"GET /" + b"a" * 200_000, 431, "no request of HTTP/1.1"),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, "no request of HTTP/1.1"),
]  # fmt: skip


@pytest.mark.parametrize("step", [1 << 20, 4096, 1], ids=["whole", "pieces", "bytes"])
def test_upgrade_refuses_with_a_sentence(step: int) -> None:
    for request_, status, said in REFUSED:
        size = max(step, len(request_) // 1000)  # each piece costs what came before it
        pieces = (request_[at : at + size] for at in range(0, len(request_), size))
        answer, _ = read(UpgradeReader("/link"), pieces)
        assert answer is not None and said in answer.refused and not answer.first, (request_[:200], answer)
        head, _, body = answer.data.partition(b"\r\n\r\n")
        assert head.startswith(f"HTTP/1.1 {status} ".encode()) and b"connection: close" in head.lower(), request_[:200]
        assert body == (b"" if request_.startswith(b"HEAD") else f"{answer.refused}\n".encode()), request_[:200]


def test_upgrade_says_who_left() -> None:
    assert UpgradeReader("/link").receive(b"") == UpgradeAnswer(b"", "it closed the connection without a request")
    half = UpgradeReader("/link")
    assert half.receive(ASKED[:60]) is None
    assert half.receive(b"") == UpgradeAnswer(b"", "it closed the connection before its request was whole")
    asker = UpgradeAsker("x", "/", NONCE)
    assert asker.receive(b"") == UpgradeAnswer(b"", "it closed the connection without an answer")
    asker = UpgradeAsker("x", "/", NONCE)
    assert asker.receive(SWITCHED[:30]) is None
    assert asker.receive(b"") == UpgradeAnswer(b"", "it closed the connection without an answer")


def other_answer(old: bytes, new: bytes) -> bytes:
    assert old in SWITCHED
    return SWITCHED.replace(old, new)


ANSWERS = [
    (other_answer(ACCEPT.encode(), b"AAAA"), "does not fit the question"),
    (other_answer(b"upsycle.1", b"chat"), "does not speak the subprotocol upsycle.1"),
    (other_answer(b"Sec-WebSocket-Protocol: upsycle.1\r\n", b""), "does not speak the subprotocol upsycle.1"),
    (other_answer(b"\r\n\r\n", b"\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n"), "an extension"),
    (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "it answers 404; is the path right"),
    (
        b"HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nContent-Length: 11\r\n\r\nnot \x1bhere\nx",
        "it answers 403 (not here); is",
    ),
    (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>", "it answers 200; is the path"),
    (b"HTTP/1.1 301 X\r\nLocation: wss://b/link\r\nContent-Length: 0\r\n\r\n", "301, and leads to wss://b/link;"),
    (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "it does not speak HTTP/1.1"),
    (b"HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n" * (ANSWER_BYTES_MAX // 30), "it does not answer within 65536 bytes"),
    (b"HTTP/1.1 101 X\r\nX: " + b"a" * 200_000, "it does not speak HTTP/1.1"),
]  # fmt: skip


@pytest.mark.parametrize(("answered", "said"), ANSWERS)
def test_upgrade_says_what_a_server_answers_that_is_no_link(answered: bytes, said: str) -> None:
    pieces = (answered[at : at + 4096] for at in range(0, len(answered), 4096))
    answer, _ = read(UpgradeAsker("x", "/link", NONCE), pieces)
    assert answer is not None and said in answer.refused and not answer.first


@given(st.lists(st.binary(min_size=1, max_size=200), max_size=10))
def test_upgrade_survives_any_bytes(pieces: list[bytes]) -> None:
    for end in (UpgradeReader("/link"), UpgradeAsker("x", "/link", NONCE)):
        answer, _ = read(end, pieces)
        assert answer is None or answer.refused
