"""Requests at a door of the web side: each gets its answer, whole or byte by byte; a bad one ends itself alone."""

from __future__ import annotations

import base64

import pytest
from rigs.web_sides import (
    GROUP,
    WebSide,
    bearer,
    body_of,
    each_byte,
    post,
    published,
    request,
    status_of,
    token_of,
)

from router.service import contract as c
from services.web.core.http.limits import AT_ONCE_BYTES_MAX, AT_ONCE_MAX

NONCE = base64.b64encode(bytes(16)).decode()
UPGRADE = (
    "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {NONCE}",
    "Sec-WebSocket-Protocol: upsycle.1",
)  # fmt: skip
LINK = request("/link", *UPGRADE)


def without(*names: str) -> bytes:
    return request("/link", *(one for one in UPGRADE if not one.startswith(names)))


HOSTILE: dict[str, tuple[bytes, int, str]] = {
    "nothing there": (request("/nope", *UPGRADE) + b"\x82\x01x", 404, "there is nothing at /nope"),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00", 400, "speaks HTTP without TLS"),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(60), 505, "speaks HTTP/1.1 alone"),
    "noise": (bytes(range(128, 256)) * 3 + b"\r\n\r\n", 400, "no request of HTTP/1.1"),
    "two hosts": (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "Host"),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400, "Host"),
    "version 99": (LINK.replace(b"Version: 13", b"Version: 99"), 426, "version 13 of WebSocket"),
    "no key": (without("Sec-WebSocket-Key"), 400, "Sec-WebSocket-Key"),
    "no subprotocol": (without("Sec-WebSocket-Protocol"), 400, "upsycle.1"),
    "both lengths": (
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        b"GET / HTTP/1.1\r\n\r\n", 400, "both Content-Length and Transfer-Encoding",
    ),
    "two lengths": (
        request("/", "Content-Length: 5", "Content-Length: 6", method="POST") + b"hello", 400, "Content-Length",
    ),
    "a length in two lines": (
        request("/", "Content-Length: 5\r\n 6", method="POST") + b"hello", 400, "bad Content-Length",
    ),
    **{
        f"the length {one[:9]}": (
            request("/", f"Content-Length: {one}", method="POST") + b"hello", 400, "bad Content-Length",
        )
        for one in ("+5", "-5", "0x5", "5_0", "\xb2", "", "0" * 5000 + "5")
    },
    "chunks with a space before the colon": (
        request("/", "Transfer-Encoding : chunked", method="POST") + b"0\r\n\r\n", 400, "illegal header line",
    ),
    "chunks within chunks": (
        request("/", "Transfer-Encoding: gzip, chunked", method="POST") + b"0\r\n\r\n", 501, "Transfer-Encoding",
    ),
    "a name with a space": (request("/", "X Y: 1"), 400, "illegal header line"),
    "CR within a value": (request("/", "X: a\rContent-Length: 5"), 400, "illegal header line"),
    "a first line that goes on from nothing": (b"GET / HTTP/1.1\r\n Host: 127.0.0.1\r\n\r\n", 400, "continuation line"),
    "bad path": (b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n", 400, "no request of HTTP/1.1"),
    "subprotocol \\xff": (
        LINK.replace(b"Protocol: upsycle.1", b"Protocol: \xff"), 400, "upsycle.1",
    ),
    "host \\xff": (b"GET / HTTP/1.1\r\nHost: \xff\r\nX: \xff\r\n\r\n", 421, "services.web.url"),
    "long head": (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 200_000 + b"\r\n\r\n", 431, "16384 bytes"),
    "HTTP/1.0": (b"GET / HTTP/1.0\r\n\r\n", 505, "speaks HTTP/1.1 alone"),
    "connect": (b"CONNECT a:1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 404, "there is nothing"),
    "options *": (b"OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 404, "there is nothing"),
    "post to a page": (request("/", method="POST", body=b"x"), 405, "there to GET"),
    "post big": (request("/", "Content-Length: 99999999", method="POST") + b"z" * 300_000, 413, "262144 bytes"),
    "NUL": (b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n", 400, "no request of HTTP/1.1"),
    "plain GET of the link": (request("/link"), 426, "programs open as a WebSocket"),
    "rebound host": (request("/", host="evil.example:4180"), 421, "services.web.url"),
    "rebound host of a whole URL": (request("http://evil.example/"), 421, '"evil.example"'),
    "host with a path": (request("/", host="127.0.0.1:14180/.."), 421, "services.web.url"),
    "host with a port of letters": (request("/", host="127.0.0.1:http"), 421, "services.web.url"),
    "host with a user": (request("/", host="127.0.0.1@evil.example"), 421, "services.web.url"),
    "foreign origin": (request("/link", *UPGRADE, "Origin: https://evil.example"), 403, "services.web.origins"),
    "foreign origin posts": (
        request("/groups/a", "Origin: https://evil.example", method="POST", body=b"x"), 403, "services.web.origins",
    ),
    "origin null": (request("/link", *UPGRADE, "Origin: null"), 403, "services.web.origins"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_request_gets_a_sentence_and_a_reason_in_one_packet_and_byte_by_byte(name: str) -> None:
    data, status, said = HOSTILE[name]
    for parts in ([data], list(each_byte(data[:20_000])) if len(data) < 30_000 else [data[:5], data[5:]]):
        side = WebSide()
        peer = side.open()
        answer = side.say(peer, *parts)
        assert status_of(answer) == status, answer[:300]
        assert said in body_of(answer).decode() and b"\r\nX-Reason: " in answer
        side.say(peer, b"more of it")
        assert status_of(side.ask(request())) == 200, "others are answered"
        side.tick(100)
        assert peer in side.closed


def test_incomplete_request_ends_with_a_sentence_when_its_time_is_over() -> None:
    side = WebSide()
    idle, slow, body = side.open(), side.open(), side.open()
    side.say(slow, b"GET / HT")
    head = request("/groups/friends", bearer(token_of(side)), "Content-Length: 10", method="POST")
    side.say(body, head + b"12345")
    side.tick(9)
    assert not side.closed
    side.say(slow, b"TP/1.1")
    side.tick(2)
    assert side.closed == {idle, slow} and status_of(side.written[slow]) == 408, "bytes prolong nothing"
    assert idle not in side.written
    side.tick(20)
    assert body in side.closed and status_of(side.written[body]) == 408


def test_connection_stays_for_further_requests_and_ends_when_it_is_idle() -> None:
    side = WebSide()
    peer = side.open()
    many = side.say(peer, request() * (AT_ONCE_MAX - 1))
    assert many.count(b"HTTP/1.1 200 OK") == AT_ONCE_MAX - 1
    side.tick(59)
    assert status_of(side.say(peer, request())) == 200
    side.tick(59)
    assert peer not in side.closed
    side.tick(2)
    assert peer in side.closed


def test_who_asks_for_the_end_gets_the_answer_and_the_end() -> None:
    side = WebSide()
    peer = side.open()
    assert status_of(side.say(peer, request("/", "Connection: close"))) == 200
    assert peer in side.closed


def test_head_alone_is_answered_without_a_body() -> None:
    side = WebSide()
    answer = side.ask(request(method="HEAD"))
    assert status_of(answer) == 200 and body_of(answer) == b"" and b"Content-Length: 0" not in answer


def test_page_is_sent_compressed_and_not_again_unless_it_has_changed() -> None:
    side = WebSide()
    plain = side.ask(request())
    packed = side.ask(request("/", "Accept-Encoding: br, gzip;q=0.5"))
    assert b"Content-Encoding: gzip" in packed and len(packed) < len(plain)
    for answer in (plain, packed):
        tag = answer.partition(b"ETag: ")[2].partition(b"\r\n")[0].decode()
        again = side.ask(request("/", f'If-None-Match: "other", W/{tag}', "Accept-Encoding: gzip"))
        assert status_of(again) == 304 and body_of(again) == b""
    refused = side.ask(request("/", "Accept-Encoding: gzip;q=0"))
    assert b"Content-Encoding" not in refused
    assert b"default-src 'none'" in plain and b"unsafe" not in plain


def test_client_that_waits_for_leave_to_send_its_body_gets_it_with_a_token_alone() -> None:
    side = WebSide()
    allowed, other = side.open(), side.open()
    wish = "Content-Length: 5", "Expect: 100-continue"
    head = request("/groups/friends", bearer(token_of(side)), *wish, method="POST")
    assert side.say(allowed, head).startswith(b"HTTP/1.1 100 ")
    assert not side.say(allowed, b"hello") and published(side)[0].body == b"hello"
    assert status_of(side.say(other, request("/groups/friends", *wish, method="POST"))) == 401
    assert b"HTTP/1.1 100" not in side.written[other]


BODY = "Content-Length: 200000"


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (request("/groups/friends", BODY, method="POST"), 401),
        (request("/groups/friends", BODY, "Authorization: Bearer x", method="POST"), 401),
        (request("/groups/other", BODY, "TOKEN", method="POST"), 403),
        (request("/groups/friends", BODY, "TOKEN", method="PUT"), 405),
        (request("/groups/friends", BODY, "TOKEN"), 400),
        (request("/messages/12", BODY, "TOKEN"), 400),
        (request("/groups/friends", BODY, "TOKEN", f"Idempotency-Key: {'k' * 300}", method="POST"), 400),
        (request("/", BODY, method="POST"), 405),
        (request("/nope", "Transfer-Encoding: chunked", method="POST"), 404),
        (request("/link", BODY, *UPGRADE), 400),
        (request("/groups/friends", BODY, "TOKEN", method="POST", host="evil.example"), 421),
        (request("/groups/friends", BODY, "TOKEN", "Origin: https://evil.example", method="POST"), 403),
    ],
)
def test_request_that_is_refused_whatever_its_body_is_refused_before_that_comes(head: bytes, status: int) -> None:
    """So nobody makes the node keep or read a body who has no right to send one."""
    side = WebSide()
    peer = side.open()
    answer = side.say(peer, head.replace(b"TOKEN", bearer(token_of(side)).encode()))
    assert status_of(answer) == status and b"Connection: close" in answer and b"X-Reason: " in answer
    assert side.say(peer, b"x" * 60_000) == b"" and not published(side)
    side.tick(3)
    assert peer in side.closed


def test_body_that_is_too_long_or_no_body_is_refused_also_with_a_token() -> None:
    side = WebSide()
    head = request("/groups/friends", bearer(token_of(side)), "Transfer-Encoding: chunked", method="POST")
    for body, status in ((b"40001\r\n" + b"z" * 0x40001, 413), (b"F" * 30 + b"\r\n", 400)):
        assert status_of(side.ask(head + body)) == status
    small = head + b"1\r\nz\r\n" * 5_000
    answer = side.ask(small[:60_000])
    assert status_of(answer) == 400 and b"X-Reason: small-pieces" in answer
    assert not published(side)
    kept = b"".join(b"40\r\n" + b"z" * 64 + b"\r\n" for _ in range(2_000)) + b"0\r\n\r\n"
    assert side.ask(head + kept) == b"" and len(published(side)[0].body) == 128_000


def test_client_that_ends_its_sending_side_still_gets_the_answers() -> None:
    """As `nc -N` does, and some clients of HTTP/1.0 did."""
    side = WebSide()
    peer = side.open()
    token = token_of(side)
    side.say(peer, post(token, b"first") + post(token, b"second") + request())
    side.say(peer, b"")
    assert peer not in side.written and side.done[-1] == c.KeepOpen("listen", peer)
    for number in range(2):
        side.tick(20)
        side.hear(c.Sent(published(side)[number].tag, c.MessageId(bytes([number]) * 32)))
    assert [status_of(b"HTTP/1.1" + one) for one in side.written[peer].split(b"HTTP/1.1")[1:]] == [201, 201, 200]
    assert peer in side.closed and side.operator("status")["listen"]["connections"] == 0


def test_reading_without_end_is_ended_at_once_for_who_says_no_more() -> None:
    """Else nobody would hear when it goes."""
    side = WebSide()
    peer, token = side.open(), token_of(side)
    side.say(peer, post(token) + request("/groups/friends", bearer(token)), b"")
    side.hear(c.Sent(published(side)[0].tag, c.MessageId(bytes(32))))
    assert side.written[peer].endswith(b"0\r\n\r\n") and peer in side.closed
    assert side.operator("status")["listen"]["connections"] == 0


def test_request_that_is_cut_short_is_said_to_be() -> None:
    for begun in (b"GET / HT", request("/groups/friends", bearer("x"), method="POST")[:-2]):
        side = WebSide()
        peer = side.open()
        side.say(peer, begun, b"")
        assert status_of(side.written[peer]) == 400 and b"X-Reason: cut-short" in side.written[peer]
    side = WebSide()
    idle, reader = side.open(), side.open()
    side.say(idle, request(), b"")
    side.say(reader, request("/groups/friends", bearer(token_of(side))), b"")
    assert side.written[idle].count(b"HTTP/1.1 ") == 1 and not any(isinstance(one, c.KeepOpen) for one in side.done)


def test_who_asks_for_much_at_once_and_reads_nothing_is_answered_little() -> None:
    side = WebSide()
    path = "/vendor/ciphers/utils.js"
    one = len(side.ask(request(path)))
    assert one > 20_000
    peer = side.open()
    answered = side.say(peer, request(path) * AT_ONCE_MAX)
    assert len(answered) <= AT_ONCE_BYTES_MAX + 2 * one and answered.count(b"Connection: close") == 1
    assert peer in side.closed


def test_head_of_an_answer_without_end_ends_the_connection_if_that_is_wished() -> None:
    side = WebSide()
    peer = side.open()
    answer = side.say(peer, request("/groups/friends", bearer(token_of(side)), "Connection: close", method="HEAD"))
    assert status_of(answer) == 200 and peer in side.closed


def test_page_of_an_allowed_site_hears_why_there_is_no_link() -> None:
    side = WebSide(origins=("https://chat.example",))
    answer = side.ask(request("/link", "Origin: https://chat.example"))
    assert status_of(answer) == 426 and answer.count(b"Access-Control-Allow-Origin") == 1


def test_page_of_this_name_without_tls_is_another_site() -> None:
    side = WebSide(url="https://hub.example/")
    for origin, status in (("https://hub.example", 101), ("http://hub.example", 403)):
        asked = request("/link", *UPGRADE, f"Origin: {origin}", host="hub.example")
        assert status_of(side.ask(asked)) == status


def test_refusal_is_json_for_who_reads_json() -> None:
    side = WebSide()
    answer = side.ask(request("/nope", "Accept: application/json"))
    assert b"Content-Type: application/problem+json" in answer and b'"reason": "no-page"' in answer


def test_connection_becomes_a_link_with_what_has_come_behind_the_request() -> None:
    side = WebSide()
    peer = side.open()
    answer = side.say(peer, LINK + b"\x82\x81")
    assert answer.startswith(b"HTTP/1.1 101 ") and b"upsycle.1" in answer
    assert side.done[-1:] == [side.done[-1]]
    handed = side.done[-1]
    assert (type(handed).__name__, handed.peer, handed.first, handed.through) == (  # type: ignore[attr-defined]
        "HandOver", peer, b"\x82\x81", "websocket",
    )  # fmt: skip
    assert side.operator("status")["listen"]["connections"] == 0


def test_names_and_pages_of_the_node_itself_are_let_in() -> None:
    side = WebSide(url="https://hub.example/node", origins=("https://chat.example",))
    for host in ("hub.example", "HUB.example.:443", "127.0.0.1", "[::1]:4180", "localhost:4180", "192.168.1.5:4180"):
        assert status_of(side.ask(request("/", host=host))) == 200
        assert status_of(side.ask(request("/node/", host=host))) == 200, "a proxy may leave the path as it is"
    assert b"Location: node/" in side.ask(request("/node", host="hub.example"))
    for origin in ("https://hub.example", "https://chat.example", "http://127.0.0.1:4180"):
        link = request("/node/link", *UPGRADE, f"Origin: {origin}")
        assert side.ask(link).startswith(b"HTTP/1.1 101 ")
    assert b"hub.example/node" in side.ask(request("/", host="other.example"))


def test_page_of_an_allowed_site_may_read_answers_and_another_may_not() -> None:
    side = WebSide(origins=("https://chat.example",))
    asked = side.ask(request("/groups/a", "Origin: https://chat.example", method="OPTIONS"))
    assert status_of(asked) == 204 and b"Access-Control-Allow-Origin: https://chat.example" in asked
    assert b"Access-Control" not in side.ask(request("/groups/a", "Origin: https://evil.example", method="OPTIONS"))


def test_address_has_its_share_of_connections_and_a_proxy_more() -> None:
    side = WebSide(connections_per_address=2, proxies=("10.0.0.0/8",))
    first = [side.open(address="[2001:db8::1]:1"), side.open(address="[2001:db8::2]:1")]
    third = side.open(address="[2001:db8::3]:1")
    assert status_of(side.written[third]) == 429 and third not in side.closed
    assert side.say(third, request()) == b"", "what it still says is thrown away, so that it gets the answer"
    side.tick(3)
    assert third in side.closed
    assert side.open(address="[2001:db8:0:1::3]:1") not in side.closed
    side.say(first[0], b"")
    assert side.open(address="[2001:db8::4]:1") not in side.closed
    assert not {side.open(address="10.1.2.3:7") for _ in range(5)} & side.closed


def test_too_much_behind_a_request_that_waits_ends_the_connection() -> None:
    side = WebSide()
    made = side.operator("token", '{"name":"t","publish":{"g":"' + "ab" * 32 + '"}}')
    peer = side.open()
    post = request("/groups/g", f"Authorization: Bearer {made['token']}", method="POST", body=b"hello")
    assert side.say(peer, post) == b"", "it waits for custody"
    assert side.say(peer, request() * 10) == b""
    answer = side.say(peer, *[b"x" * 60_000] * 3)
    assert status_of(answer) == 400 and b"before this one was answered" in answer
    side.hear(c.Sent(published(side)[0].tag, c.MessageId(bytes(32))))
    assert side.written[peer] == answer and peer not in side.closed, (
        "it is read for a while, so that it gets the answer"
    )


def test_reader_that_says_too_much_costs_no_others_a_message() -> None:
    side = WebSide()
    read = request("/groups/friends", bearer(token_of(side)))
    bad, good = side.open(), side.open()
    for peer in (bad, good):
        side.say(peer, read)
    side.say(bad, *[b"x" * 60_000] * 2)
    side.hear(c.Message(c.MessageId(bytes(32)), b"heard", group=c.PublicKey(bytes.fromhex(GROUP))))
    side.tick(21)
    assert b'"heard"' in side.written[good] and bad in side.closed


def handed(side: WebSide) -> c.HandOver:
    return next(deed for deed in reversed(side.done) if isinstance(deed, c.HandOver))


@pytest.mark.parametrize(
    ("address", "forwarded", "ip"),
    [
        ("192.0.2.1:4000", "198.51.100.7", ""),
        ("10.1.2.3:4000", "198.51.100.7", "198.51.100.7"),
        ("10.1.2.3:4000", "203.0.113.9, 198.51.100.7, 10.9.9.9", "198.51.100.7"),
        ("10.1.2.3:4000", "203.0.113.9, nonsense", ""),
        ("10.1.2.3:4000", "[2001:db8::7]:55", "2001:db8::7"),
        ("10.1.2.3:4000", "::ffff:198.51.100.7", "198.51.100.7"),
        ("10.1.2.3:4000", "", ""),
        ("10.1.2.3:4000", "203.0.113.9" + ", 10.9.9.9" * 32, "10.9.9.9"),
        ("", "198.51.100.7", "198.51.100.7"),
    ],
)
def test_link_comes_from_where_a_proxy_says_and_nobody_else(address: str, forwarded: str, ip: str) -> None:
    side = WebSide(proxies=("10.0.0.0/8", "unix"))
    side.ask(request("/link", *UPGRADE, f"X-Forwarded-For: {forwarded}"), address=address)
    assert handed(side).ip == ip


def test_callers_behind_a_proxy_have_their_share_each() -> None:
    side = WebSide(proxies=("10.0.0.1",), connections_per_address=1)
    proxied = [side.open(address="10.0.0.1:5") for _ in range(3)]
    one, other = (request("/", f"X-Forwarded-For: 198.51.100.{n}") for n in (1, 2))
    assert status_of(side.say(proxied[0], one)) == 200
    full = side.say(proxied[1], one)
    assert status_of(full) == 429 and proxied[1] not in side.closed
    assert status_of(side.say(proxied[1], other)) == 200, "the connection is the proxy's, and goes on"
    assert status_of(side.say(proxied[0], other)) == 429
    assert status_of(side.say(proxied[2], one)) == 200, "that connection was another's since"


def test_look_at_slow_clients_comes_also_after_a_wake_was_lost() -> None:
    """As when the deeds with which it was asked for were not done."""
    side = WebSide()
    now = c.Now(1_800_000_000, side.at_s)
    first = side.web.hear(c.Opened("listen", "1", "192.0.2.1:1"), now)
    assert any(isinstance(deed, c.Wake) for deed in first)
    soon, later = (now._replace(mono_s=now.mono_s + after_s) for after_s in (1, 3))
    assert not any(isinstance(one, c.Wake) for one in side.web.hear(c.Opened("listen", "2", ""), soon))
    assert any(isinstance(one, c.Wake) for one in side.web.hear(c.Opened("listen", "3", ""), later))


def test_of_very_many_requests_in_one_packet_sixteen_are_answered_and_the_last_closes() -> None:
    side = WebSide()
    answered = side.ask(request("/") * 500)
    assert answered.count(b"HTTP/1.1 200 OK") == AT_ONCE_MAX and answered.count(b"Connection: close") == 1
