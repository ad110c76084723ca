"""Requests that are repeated on a connection: they are answered as if none of them was remembered."""

from __future__ import annotations

from random import Random

import h11
import pytest
from rigs.web_sides import WebSide, bearer, published, request, status_of, token_of

from router.core.wire.crypto import MessageId
from router.service import contract as c
from services.web.core.http import connection as connections
from services.web.core.http.connection import HttpConnection, HttpRefused
from services.web.core.http.limits import HttpLimits
from services.web.core.http.request import Answer

REPEATED = [
    request(), request(method="HEAD"), request("/nothing"), request("/style.css", "If-None-Match: *"), request("/link"),
    request("/", "Connection: Keep-Alive"), request("/", "Accept-Encoding: gzip"), request("/groups/friends"),
    request("/", host="elsewhere"), request("/", "Connection: close"), request("/", method="OPTIONS"),
    request("/groups/friends", method="POST", body=b""), b"\r\n" + request(),
    request("/groups/friends", "Transfer-Encoding: chunked", method="POST") + b"0\r\n\r\n",
]  # fmt: skip


@pytest.mark.parametrize("asked", REPEATED, ids=range(len(REPEATED)))
def test_request_that_is_repeated_is_answered_as_the_first(asked: bytes) -> None:
    side = WebSide()
    due, peer = side.ask(asked), side.open()
    is_last = b"\r\nConnection: close" in due
    for _ in range(1 if is_last else 3):
        assert side.say(peer, asked) == due
    if not is_last:
        assert side.say(peer, asked + asked) == due + due, "two at once"
        assert side.say(peer, asked, asked[:9], asked[9:]) == due + due, "one in pieces"
        assert side.say(peer, asked) == due


def test_request_that_is_repeated_is_not_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    side = WebSide()
    peer = side.open()
    due = side.say(peer, request("/style.css"))
    assert status_of(due) == 200
    monkeypatch.setattr(h11.Connection, "receive_data", lambda *_: pytest.fail("h11 reads it again"))
    assert [side.say(peer, request("/style.css")) for _ in range(3)] == [due] * 3


def test_what_follows_a_repeated_request_is_read_as_ever() -> None:
    side = WebSide()
    token, peer, due = token_of(side), side.open(), side.ask(request("/style.css"))
    plain, script = request("/style.css"), request("/groups/friends?poll", bearer(token))
    for _ in range(2):
        assert side.say(peer, plain, plain) == due + due
        assert status_of(side.say(peer, script)) == 200
        assert side.say(peer, request("/groups/friends", bearer(token), method="POST", body=b"x")) == b""
        asked = published(side)[-1]
        assert side.say(peer, plain, plain) == b"", "they wait behind it"
        side.hear(c.Sent(asked.tag, MessageId(bytes(32))))
        assert side.written[peer].endswith(due + due)
    side.say(peer, plain, plain, b"")
    assert side.written[peer].endswith(due + due)
    assert side.say(peer, b"NONSENSE\r\n\r\n") == b""


def test_repeated_request_that_waits_is_answered_in_its_turn() -> None:
    side = WebSide()
    ready = request("/health/ready")
    peer = side.open("operator")
    for _ in range(3):
        assert side.say(peer, ready, door="operator") == b""
        assert side.say(peer, ready, door="operator") == b"", "the next one waits behind it"
        asked = [one for one in side.done if isinstance(one, c.Inquire) and one.word == "metrics"][-1]
        before = len(side.written.get(peer, b""))
        side.hear(c.Told(asked.tag, "metrics", {"unready": [], "services": []}))
        assert side.written[peer][before:].count(b"HTTP/1.1 200 OK") == 2
        side.at_s += 5


PIECES = [
    request(), request(), request("/b"), request(method="HEAD"), request("/", "Connection: close"), b"\r\n", b"\n",
    request("/", "Cookie: a=b"), request(method="POST", body=b"hello"), request(method="POST", body=b""), b"hello",
    request("/", "Expect: 100-continue", "Content-Length: 5", method="POST"), request("/", "Connection: keep-alive"),
    request("/", "Transfer-Encoding: chunked", method="POST") + b"5;ext=1\r\nhello\r\n0\r\n\r\n", request()[:-1],
    request("/", "Connection: Upgrade", "Upgrade: websocket"), request()[:9], request()[9:], request() + b"\r\n",
    b"GET",
]  # fmt: skip
ANSWERS = [
    Answer(status=200, body=b"whole"), Answer(status=204), Answer(status=304), Answer(status=200, is_last=True),
]  # fmt: skip


def played(connection: HttpConnection, script: list[bytes | Answer]) -> list[object]:
    """Return all that a connection says that hears these pieces, and is told to answer so."""
    heard: list[object] = []
    try:
        for one in script:
            if isinstance(one, bytes):
                connection.receive(one)
            elif connection.is_waiting:
                heard.append(connection.answer(one))
                if connection.is_over:
                    break
            while (found := connection.next_request()) is not None:
                heard.append((found[0].method, found[0].target, list(found[0].headers), found[1]))
            heard.append((connection.go_on(), connection.stage, connection.has_begun))
    except HttpRefused as error:
        heard.append((error.answer, connection.answer(error.answer)))
    return heard


def test_requests_are_read_the_same_whether_some_are_remembered_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = Random(31)
    scripts: list[list[bytes | Answer]] = [
        [chance.choice(ANSWERS) if chance.random() < 0.5 else b"".join(chance.choices(PIECES, k=chance.choice((1, 2))))
         for _ in range(12)]
        for _ in range(400)
    ]  # fmt: skip
    found = [played(HttpConnection(HttpLimits()), one) for one in scripts]
    monkeypatch.setattr(connections, "REPEAT_BYTES_MAX", 0)
    assert found == [played(HttpConnection(HttpLimits()), one) for one in scripts]


def test_request_with_a_secret_is_not_remembered() -> None:
    told = {"Authorization: Bearer abc": False, "Cookie: operator=abc": False, "Accept: text/html": True}
    for header, is_remembered in told.items():
        connection = HttpConnection(HttpLimits())
        connection.receive(request("/style.css", header))
        found = connection.next_request()
        assert found is not None and connection.remembers(found[0]) == is_remembered
    connection = HttpConnection(HttpLimits())
    connection.receive(request("/groups/friends?auth=abc"))
    found = connection.next_request()
    assert found is not None and not connection.remembers(found[0])
