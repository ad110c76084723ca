"""TLS records without a socket: two ends whose bytes are carried by hand."""

from __future__ import annotations

import random

import pytest
from OpenSSL import SSL

from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.text import key_text, short
from router.transport.certificate import connection, explain, proven_peer, why_failed
from router.transport.contract import StreamBroken
from router.transport.records import FEED_BYTES, RECORD_BYTES, SMALL_BYTES, Records
from router.transport.sockets import Refused

CLIENT = SigningKey(b"\x02" * 32)
SERVER = SigningKey(b"\x01" * 32)


def shake(expect: PublicKey | None = None) -> tuple[Records, Records]:
    """The client's and the server's end after a handshake."""
    ends = connection(CLIENT, expect, server=False), connection(SERVER, None, server=True)
    client, server = Records(ends[0]), Records(ends[1])
    for _ in range(3):
        for tls, mine, other in ((ends[0], client, ends[1]), (ends[1], server, ends[0])):
            try:
                tls.do_handshake()
            except SSL.WantReadError:
                pass
            if flight := mine.outgoing():
                other.bio_write(flight)
    assert proven_peer(ends[0]) == SERVER.public
    assert proven_peer(ends[1]) == CLIENT.public
    assert client.read(1) == server.read(1) == b""
    return client, server


def carried(sender: Records, text: bytes) -> bytes:
    return b"".join(sender.encrypt(text))


def test_bytes_arrive_however_they_are_cut() -> None:
    rng = random.Random(1)
    client, server = shake()
    text = rng.randbytes(100_000)
    ciphertext = carried(client, text)
    got = []
    while ciphertext:
        cut = rng.choice((1, 5, 1000, FEED_BYTES, 50_000))
        server.feed(ciphertext[:cut])
        ciphertext = ciphertext[cut:]
        while chunk := server.read(rng.choice((1, 1000, 1 << 20))):
            got.append(chunk)
        assert not server.waiting
    assert b"".join(got) == text


def test_byte_by_byte() -> None:
    client, server = shake()
    got = b""
    for byte in carried(client, b"a short message"):
        server.feed(bytes((byte,)))
        got += server.read(100)
    assert got == b"a short message"


def test_records_are_full() -> None:
    client, _server = shake()
    assert [len(record) > RECORD_BYTES for record in client.encrypt(bytes(2 * RECORD_BYTES + 1))] == [
        True,
        True,
        False,
    ]


def test_a_clean_end_comes_after_the_last_byte() -> None:
    client, server = shake()
    server.feed(carried(client, b"last") + client.goodbye())
    assert server.read(2) == b"la"
    assert not server.ended
    assert server.read(100) == b"st"
    assert server.ended
    assert server.read(100) == b""


def test_what_precedes_a_bad_record_is_handed_over_first() -> None:
    client, server = shake()
    good, bad = carried(client, b"good"), bytearray(carried(client, b"bad"))
    bad[-1] ^= 1
    server.feed(good + bytes(bad))
    assert server.read(100) == b"good"
    for _ in range(2):
        with pytest.raises(StreamBroken, match="bad record mac"):
            server.read(100)
    assert server.outgoing(), "an alert for the peer"


def test_a_replayed_or_missing_record_is_noticed() -> None:
    for replayed in (True, False):
        client, server = shake()
        one, two = carried(client, b"one"), carried(client, b"two")
        server.feed(one + one if replayed else two)
        with pytest.raises(StreamBroken):
            while True:
                server.read(100)


def test_the_buffers_of_a_quiet_connection_are_replaced() -> None:
    client, server = shake()
    server.feed(carried(client, b"small"))
    assert server.read(100) == b"small"
    assert not server.grown and not client.grown
    big = bytes(SMALL_BYTES + 1)
    for _ in range(3):
        server.feed(carried(client, big))
        assert server.read(1 << 20) == big
        client.feed(carried(server, big))
        assert client.read(1 << 20) == big
        assert client.grown and server.grown
        client.shrink()
        server.shrink()
        assert not client.grown and not server.grown
    server.feed(carried(client, b"after") + client.goodbye())
    assert server.read(100) == b"after"
    assert server.ended


def test_buffers_can_be_replaced_in_the_middle_of_a_record() -> None:
    client, server = shake()
    big = bytes(5000)
    ciphertext = carried(client, big)
    server.feed(ciphertext[:4500])
    assert server.read(1 << 20) == b""
    server.shrink()
    server.feed(ciphertext[4500:])
    assert server.read(1 << 20) == big


def test_the_wrong_key_is_refused_before_ours_is_shown() -> None:
    client, server = connection(CLIENT, CLIENT.public, server=False), connection(SERVER, None, server=True)
    with pytest.raises(SSL.WantReadError):
        client.do_handshake()
    server.bio_write(client.bio_read(1 << 16))
    with pytest.raises(SSL.WantReadError):
        server.do_handshake()
    client.bio_write(server.bio_read(1 << 16))
    with pytest.raises(SSL.Error) as caught:
        client.do_handshake()
    text = why_failed(client, caught.value)
    assert all(short(key_text("addr", one.public)) in text for one in (CLIENT, SERVER))
    server.bio_write(client.bio_read(1 << 16))
    with pytest.raises(SSL.Error) as alerted:
        server.do_handshake()
    assert "alert" in explain(alerted.value)
    with pytest.raises(Refused, match="no certificate"):
        proven_peer(server)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (SSL.Error([("SSL routines", "", "http request")]), "an HTTP request arrived where TLS was expected"),
        (SSL.Error([("SSL routines", "", "something new")]), "something new"),
        (SSL.Error([]), "unknown error"),
        (SSL.Error(), "unknown error"),
        (SSL.SysCallError(-1, "Unexpected EOF"), "the connection was cut"),
    ],
)
def test_openssl_s_reasons_in_words(error: SSL.Error, text: str) -> None:
    assert explain(error) == text
