"""TLS: who is let in, what a peer is told, and what strangers can do to the listener."""

from __future__ import annotations

import datetime
import os
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
import trio.testing
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from OpenSSL import crypto
from rigs.patience import HANG_S
from two_ends import CLIENT, SERVER, close_at_once, echo, fresh_url, listening, says, two_ends

from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.reasons import Reason
from router.core.wire.text import key_text, short
from router.transport.certificate import _Judge
from router.transport.contract import ConnectFailed, Stream, StreamBroken, dial, tcp_address
from router.transport.handshakes import Places
from router.transport.limits import HandshakeLimits
from router.transport.sockets import NotLetIn

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


async def receive_from(sender: Stream, receiver: Stream, text: bytes) -> bytes:
    await sender.send_all(text)
    return await receiver.receive_some(len(text))


def certificate_files(key: PrivateKey, directory: Path, years: int = 1) -> tuple[str, str]:
    """Write a self-signed certificate of any kind of key, as files for the standard library."""
    now = datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "somebody else")])
    span = datetime.timedelta(days=365 * years)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 7, now - abs(2 * span), now + span)
    certificate = builder.sign(key, None if isinstance(key, ed25519.Ed25519PrivateKey) else SHA256())
    shown, kept = directory / "certificate.pem", directory / "key.pem"
    shown.write_bytes(certificate.public_bytes(Encoding.PEM))
    kept.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return str(shown), str(kept)


def other_client(alpn: str | None = "upsycle/1") -> ssl.SSLContext:
    """Return a context of the standard library, as another implementation's client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if alpn:
        context.set_alpn_protocols([alpn])
    return context


def talk(url: str, context: ssl.SSLContext) -> bytes:
    """Send a greeting over that context and return the answer; runs in a thread."""
    with (
        socket.create_connection(tcp_address(url), timeout=HANG_S) as raw,
        context.wrap_socket(raw) as tls,
    ):
        tls.sendall(b"hello")
        return tls.recv(5)


async def refusal_of(context: ssl.SSLContext) -> str:
    """Return the line that the listener logs for such a client; the client must be turned away."""
    async with listening("tls://127.0.0.1:0", handler=echo) as this:
        try:
            answer = await trio.to_thread.run_sync(talk, this.url, context)
        except OSError:
            answer = b""
        assert answer == b"", "let in"
        return await this.refusal()


async def test_both_learn_the_other_s_key() -> None:
    async with two_ends("tls") as (ours, theirs):
        assert ours.peer == SERVER.public
        assert theirs.peer == CLIENT.public
        assert isinstance(theirs.peer, PublicKey)
        assert repr(ours) == f"<TlsStream {ours.where} with {SERVER.public.hex()[:12]}…, open>"


async def test_any_key_is_accepted_when_none_was_dialled() -> None:
    async with listening("tls://127.0.0.1:0", handler=echo) as this:
        stream = await dial(this.url, SigningKey(bytes(32)), None, timeout_s=HANG_S)
        assert stream.peer == SERVER.public
        await stream.aclose()


async def test_a_wrong_key_is_named_and_learns_nothing_of_us() -> None:
    wrong = SigningKey(bytes(32)).public
    async with listening("tls://127.0.0.1:0") as this:
        with pytest.raises(ConnectFailed) as caught:
            await dial(this.url, CLIENT, wrong, timeout_s=HANG_S)
        assert caught.value.reason is Reason.CONNECT_FAILED
        assert all(short(key_text("addr", one)) in caught.value.text for one in (wrong, SERVER.public))
        assert caught.value.answered_by == SERVER.public
        assert "alert" in await this.refusal()


async def test_a_client_without_certificate_is_refused() -> None:
    assert "showed no certificate" in await refusal_of(other_client())


KINDS: dict[str, Callable[[], PrivateKey]] = {
    "RSA": lambda: rsa.generate_private_key(65537, 2048),
    "EC": lambda: ec.generate_private_key(ec.SECP256R1()),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_certificate_of_another_kind_is_refused(kind: str, tmp_path: Path) -> None:
    context = other_client()
    context.load_cert_chain(*certificate_files(KINDS[kind](), tmp_path))
    text = await refusal_of(context)
    assert "no usable Ed25519 key" in text and kind in text


async def test_a_key_of_small_order_is_refused(tmp_path: Path) -> None:
    """Anyone can sign for such a key (R-B2). Only the judgement is tested: no library signs with one."""
    key = ed25519.Ed25519PrivateKey.generate()
    files = certificate_files(key, tmp_path)
    pem = Path(files[0]).read_bytes()
    der = x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)
    small = der.replace(key.public_key().public_bytes_raw(), b"\x01" + bytes(31))
    judge = _Judge(None)
    assert not judge.admits(crypto.load_certificate(crypto.FILETYPE_ASN1, small))
    assert "not a valid Ed25519 public key" in judge.refusal


async def test_names_and_dates_in_a_certificate_do_not_matter(tmp_path: Path) -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    context = other_client()
    context.load_cert_chain(*certificate_files(key, tmp_path, years=-1))
    async with listening("tls://127.0.0.1:0", handler=echo) as this:
        assert await trio.to_thread.run_sync(talk, this.url, context) == b"hello"


async def test_tls_1_2_is_refused(tmp_path: Path) -> None:
    context = other_client()
    context.load_cert_chain(*certificate_files(ed25519.Ed25519PrivateKey.generate(), tmp_path))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert await refusal_of(context) == "the TLS handshake failed: the peer does not offer TLS 1.3"


@pytest.mark.parametrize("alpn", ["h2", None])
async def test_another_protocol_over_tls_is_refused(alpn: str | None, tmp_path: Path) -> None:
    context = other_client(alpn)
    context.load_cert_chain(*certificate_files(ed25519.Ed25519PrivateKey.generate(), tmp_path))
    assert "the protocol upsycle/1" in await refusal_of(context)


async def test_a_server_of_another_protocol_is_refused(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate_files(ed25519.Ed25519PrivateKey.generate(), tmp_path))

    async def serve(stream: trio.SocketStream) -> None:
        with pytest.raises(trio.BrokenResourceError):
            await trio.SSLStream(stream, context, server_side=True).receive_some()

    async with trio.open_nursery() as nursery:
        listener, *_ = await nursery.start(trio.serve_tcp, serve, 0)
        port = listener.socket.getsockname()[1]
        with pytest.raises(ConnectFailed, match="speaks TLS but not the protocol upsycle/1"):
            await dial(f"tls://127.0.0.1:{port}", CLIENT, None, timeout_s=HANG_S)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("noise", "explanation"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "an HTTP request arrived where TLS was expected"),
        (b"\x58\x20" + bytes(600), "the bytes are not TLS"),
        (b"\x16\x03\x01\x40\x00" + b"\xff" * 0x4000, "more than 16384 bytes"),
    ],
)
async def test_noise_on_the_port_disturbs_nobody(noise: bytes, explanation: str) -> None:
    async with listening("tls://127.0.0.1:0", handler=echo) as this:
        before = await this.connect()
        assert await says(before, b"one") == b"one"
        async with await trio.open_tcp_stream(*tcp_address(this.url)) as stranger:
            await stranger.send_all(noise)
            answer = b"".join([chunk async for chunk in stranger])
        assert answer[:1] in (b"", b"\x15")  # nothing, or a TLS alert
        assert explanation in await this.refusal()
        assert this.refused[0][0].startswith("tls 127.0.0.1:")
        assert await says(before, b"two") == b"two"
        assert await says(await this.connect(), b"three") == b"three"


async def test_who_leaves_during_the_handshake_is_noted() -> None:
    async with listening("tls://127.0.0.1:0", handler=echo) as this:
        async with await trio.open_tcp_stream(*tcp_address(this.url)) as stranger:
            await stranger.send_all(b"\x16\x03\x01")
        assert await this.refusal() == "the peer closed the connection during the TLS handshake"


async def test_a_handshake_that_trickles_is_cut() -> None:
    async with listening("tls://127.0.0.1:0", handler=echo, handshakes=HandshakeLimits(timeout_s=0.5)) as this:
        stranger = await trio.open_tcp_stream(*tcp_address(this.url))
        with pytest.raises(trio.BrokenResourceError):
            for byte in b"\x16\x03\x01\x02\x00" + bytes(500):
                await stranger.send_all(bytes((byte,)))
                await trio.sleep(0.02)
        assert await this.refusal() == "the handshake was not done after 0.5 s"
        await stranger.aclose()
        assert await says(await this.connect(), b"fine") == b"fine"


async def test_handshakes_per_prefix_are_limited() -> None:
    limits = HandshakeLimits(max_per_prefix=2, timeout_s=HANG_S)
    async with listening("tls://127.0.0.1:0", handler=echo, handshakes=limits) as this:
        silent = [await trio.open_tcp_stream(*tcp_address(this.url)) for _ in range(2 + 2 * Places.WAITING)]
        for stream in silent:
            await stream.send_all(b"\x16")
        with pytest.raises(ConnectFailed):
            await this.connect()
        assert f"handshakes from 127.0.0.0/24 (user {os.geteuid()}) are already under way" in await this.refusal()
        for stream in silent:
            await stream.aclose()
        while len(this.refused) < 11:
            await this.noticed.wait()
        assert await says(await this.connect(), b"fine") == b"fine"


async def test_a_known_key_that_proves_itself_gives_its_prefix_every_other_turn() -> None:
    asked: list[PublicKey] = []
    proven: list[str] = []

    def is_known(key: PublicKey) -> bool:
        asked.append(key)
        return len(asked) == 2

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Places, "proven", lambda _, address, user: proven.append(address))
        async with listening("tls://127.0.0.1:0", handler=echo, is_known=is_known) as this:
            for expected in ([], ["127.0.0.1"]):
                assert await says(await this.connect(), b"fine") == b"fine"
                assert proven == expected
    assert asked == [CLIENT.public] * 2


async def test_a_waiting_handshake_is_served_when_its_turn_comes() -> None:
    async with listening("tls://127.0.0.1:0", handler=echo, handshakes=HandshakeLimits(max_per_prefix=1)) as this:
        silent = await trio.open_tcp_stream(*tcp_address(this.url))
        await silent.send_all(b"\x16")
        async with trio.open_nursery() as nursery:

            async def come_later() -> None:
                assert await says(await this.connect(), b"fine") == b"fine"

            nursery.start_soon(come_later)
            await trio.testing.wait_all_tasks_blocked(0.01)
            await silent.aclose()


async def test_no_place_is_kept_for_a_prefix_that_is_quiet() -> None:
    places = Places(HandshakeLimits(max_per_prefix=1))
    async with places.place("192.0.2.1"):
        assert repr(places) == "<Places with 1 handshakes>"
        with trio.move_on_after(0) as scope:
            async with places.place("192.0.2.99"):
                raise AssertionError("the place was taken")
        assert scope.cancelled_caught
    assert repr(places) == "<Places with 0 handshakes>"
    with pytest.raises(NotLetIn, match="0 handshakes"):
        async with Places(HandshakeLimits(max_per_prefix=0)).place("::1"):
            pass


class Proxy:
    """Passes bytes between a client and the listener until told to corrupt them."""

    def __init__(self, url: str) -> None:
        self.address = tcp_address(url)
        self.spoil = False

    async def serve(self, client: trio.SocketStream) -> None:
        async with await trio.open_tcp_stream(*self.address) as server, trio.open_nursery() as nursery:
            nursery.start_soon(self._pass_on, client, server)
            nursery.start_soon(self._pass_on, server, client)

    async def _pass_on(self, source: trio.SocketStream, sink: trio.SocketStream) -> None:
        async for chunk in source:
            changed = bytearray(chunk)
            if self.spoil:
                changed[-1] ^= 1
            await sink.send_all(changed)
        await sink.send_eof()


async def test_a_changed_byte_breaks_the_stream_on_both_sides() -> None:
    async with listening("tls://127.0.0.1:0") as this, trio.open_nursery() as nursery:
        proxy = Proxy(this.url)
        listener, *_ = await nursery.start(trio.serve_tcp, proxy.serve, 0)
        ours = await dial(
            f"tls://127.0.0.1:{listener.socket.getsockname()[1]}", CLIENT, SERVER.public, timeout_s=HANG_S
        )
        theirs = await this.accept()
        await ours.send_all(b"true")
        assert await theirs.receive_some(10) == b"true"
        proxy.spoil = True
        await ours.send_all(b"false")
        with pytest.raises(StreamBroken, match="bad record mac"):
            await theirs.receive_some(10)
        proxy.spoil = False
        with pytest.raises(StreamBroken):
            await ours.receive_some(10)
        await close_at_once(ours)
        nursery.cancel_scope.cancel()


async def test_truncation_is_not_an_end() -> None:
    async with two_ends("tls") as (ours, theirs):
        assert await receive_from(theirs, ours, b"hello") == b"hello"
        await ours.send_all(b"half a ")
        await close_at_once(ours)  # the connection ends without TLS's goodbye
        assert await theirs.receive_some(100) == b"half a "
        with pytest.raises(StreamBroken, match="did not say goodbye"):
            await theirs.receive_some(100)


async def test_small_messages_do_not_wait_for_more() -> None:
    with fresh_url("tls") as url:
        async with listening(url, handler=echo) as this:
            stream = await this.connect()
            sock = stream._socket  # type: ignore[attr-defined]
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
