"""TLS records without a socket: two ends whose bytes are carried by hand."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from OpenSSL import SSL

from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.text import key_text, short
from router.transport.certificate import _context, _Judge, connection, explain, proven_peer, why_failed
from router.transport.contract import StreamBroken
from router.transport.records import (
    FEED_BYTES,
    RECORD_BYTES,
    RECORD_BYTES_LEAST,
    RECORD_HEAD,
    SMALL_BYTES,
    SPARE_BYTES,
    TlsRecords,
)
from router.transport.sockets import NotLetIn

CLIENT = SigningKey(b"\x02" * 32)
SERVER = SigningKey(b"\x01" * 32)


def shake(expect: PublicKey | None = None) -> tuple[TlsRecords, TlsRecords]:
    """Return the client's and the server's end after a handshake."""
    ends = connection(CLIENT, expect, server=False), connection(SERVER, None, server=True)
    client, server = TlsRecords(ends[0]), TlsRecords(ends[1])
    hand_shake(ends, (client, server))
    assert client.read(1) == server.read(1) == b""
    return client, server


def hand_shake(ends: tuple[SSL.Connection, SSL.Connection], records: tuple[TlsRecords, TlsRecords]) -> None:
    client, server = records
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


class ByHand:
    """A client that writes its own TLS records after the handshake, because OpenSSL's API makes no empty ones."""

    def __init__(self) -> None:
        lines: list[bytes] = []
        context = _context.__wrapped__(CLIENT.seed)
        context.set_keylog_callback(lambda _, line: lines.append(line))
        ends = SSL.Connection(context, None), connection(SERVER, None, server=True)
        ends[0].set_app_data(_Judge(None))
        ends[0].set_connect_state()
        self.server = TlsRecords(ends[1])
        hand_shake(ends, (TlsRecords(ends[0]), self.server))
        secret = next(line for line in lines if line.startswith(b"CLIENT_TRAFFIC_SECRET_0"))
        self._rekey(bytes.fromhex(secret.split()[2].decode()))

    def _rekey(self, secret: bytes) -> None:
        self._secret, self._number = secret, 0
        self._key, self._iv = AESGCM(self._derived(b"key", 32)), self._derived(b"iv", 12)

    def _derived(self, label: bytes, size: int) -> bytes:
        label = b"tls13 " + label
        info = size.to_bytes(2, "big") + bytes((len(label),)) + label + b"\0"
        return HKDFExpand(SHA384(), size, info).derive(self._secret)

    def record(self, content: bytes, kind: int = 23, padding: int = 0) -> bytes:
        plain = content + bytes((kind,)) + bytes(padding)
        head = b"\x17\x03\x03" + (len(plain) + 16).to_bytes(2, "big")
        nonce = (int.from_bytes(self._iv, "big") ^ self._number).to_bytes(12, "big")
        self._number += 1
        return head + self._key.encrypt(nonce, plain, head)

    def key_update(self) -> bytes:
        wire = self.record(b"\x18\0\0\x01\0", kind=22)
        self._rekey(self._derived(b"traffic upd", 48))
        return wire


def carried(sender: TlsRecords, text: bytes) -> bytes:
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
    ciphertext, sizes = carried(client, bytes(9 * RECORD_BYTES + 1)), []
    while ciphertext:
        sizes.append(int.from_bytes(ciphertext[3:5], "big"))
        ciphertext = ciphertext[5 + sizes[-1] :]
    assert [size > RECORD_BYTES for size in sizes] == [True] * 9 + [False]


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
    assert server.grown and client.grown, "by the handshake"
    client.shrink()
    server.shrink()
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


def fed_until_it_ends(server: TlsRecords, pieces: Iterator[bytes]) -> int:
    """Return after how many pieces without data, fed one by one, the stream ends for that reason."""
    for number, piece in enumerate(pieces):
        server.feed(piece)
        try:
            while server.read(1 << 14):
                pass
        except StreamBroken as error:
            assert "carries no data" in str(error)
            return number
        assert number < 10_000
    raise AssertionError("it took them all")


NOTHING: dict[str, Callable[[ByHand], bytes]] = {
    "key updates": ByHand.key_update,
    "key updates and a byte now and then": lambda by: b"".join(by.key_update() for _ in range(20)) + by.record(b"x"),
    "empty records and a byte now and then": lambda by: b"".join(by.record(b"") for _ in range(20)) + by.record(b"x"),
    "padding": lambda by: by.record(b"x", padding=16_000),
}


@pytest.mark.parametrize("nothing", NOTHING.values(), ids=NOTHING)
def test_records_that_carry_nothing_end_the_stream_after_a_few(nothing: Callable[[ByHand], bytes]) -> None:
    hand, sizes = ByHand(), []

    def pieces() -> Iterator[bytes]:
        while True:
            sizes.append(len(piece := nothing(hand)))
            yield piece

    fed_until_it_ends(hand.server, pieces())
    assert SPARE_BYTES < sum(sizes) < 64_000
    with pytest.raises(StreamBroken, match="carries no data"):
        hand.server.read(1)


def test_one_read_of_key_updates_ends_soon() -> None:
    hand = ByHand()
    hand.server.feed(b"".join(hand.key_update() for _ in range(4000)))
    with pytest.raises(StreamBroken, match="carries no data"):
        hand.server.read(1 << 18)
    assert hand.server.ciphertext_bytes <= 4 * FEED_BYTES, "the rest is not even looked at"


def test_an_honest_peer_may_update_its_keys_and_send_small_records() -> None:
    hand, got = ByHand(), 0
    for number in range(3000):
        hand.server.feed(hand.record(b"ab") if number % 20 else hand.record(bytes(1 << 14)) + hand.key_update())
        while data := hand.server.read(1 << 14):
            got += len(data)
    assert got == 150 * (1 << 14) + 2850 * 2


def test_one_read_takes_a_bounded_number_of_records() -> None:
    hand = ByHand()
    hand.server.feed(b"".join(hand.record(b"x") for _ in range(1000)))
    reads = []
    while data := hand.server.read(1 << 14):
        reads.append(len(data))
    assert sum(reads) == 1000 and max(reads) <= 1 + (1 << 14) // RECORD_BYTES_LEAST
    assert hand.server.ciphertext_bytes == 1000 * (RECORD_HEAD + 1)


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
    with pytest.raises(NotLetIn, match="no certificate"):
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
