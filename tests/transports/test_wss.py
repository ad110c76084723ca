"""WebSockets over TLS: whose certificate is taken, and a peer that is not ours (the library websockets)."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
import trio
from rigs.patience import HANG_S
from rigs.web_certificates import WebCertificate, web_certificate
from two_ends import CLIENT, Listening, echo, listening, receive_exactly, says
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve

from router.transport import web_certificate as certificates
from router.transport.contract import ConnectFailed, InvalidUrl, ListenFailed, dial, resolve
from transports.wss import check, listen

HOST = "127.0.0.1"


@pytest.fixture
def own(tmp_path: Path) -> WebCertificate:
    """Return a certificate that its own key has signed."""
    return web_certificate(tmp_path, HOST, "localhost")


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WebCertificate]:
    """Return an authority that this process trusts as those of its machine."""
    (tmp_path / "authority").mkdir()
    made = web_certificate(tmp_path / "authority", is_authority=True)
    monkeypatch.setenv("SSL_CERT_FILE", str(made.chain))
    certificates._trusting.cache_clear()
    yield made
    certificates._trusting.cache_clear()


def port_of(this: Listening) -> int:
    return int(this.url.rpartition(":")[2].partition("/")[0])


async def refusal(url: str) -> str:
    with pytest.raises(ConnectFailed) as caught:
        await dial(url, CLIENT, None, timeout_s=HANG_S)
    assert caught.value.has_answered
    return caught.value.text


# -- URLs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("wss://example.org/link?pin=12", "is no SHA-256 of a certificate: 64 digits of hex"),
        (f"wss://example.org/link?pin={'x' * 64}", "is no SHA-256 of a certificate"),
        ("wss://example.org?plain=yes", "'plain' in 'wss://example.org?plain=yes' is no option of wss"),
        ("wss://:443?certificate=a.pem&key=/b.pem", "is no full path"),
        ("wss://example.org:0x1", "lacks host or port"),
    ],
)
def test_wss_refuses_a_url_with_the_remedy(url: str, said: str) -> None:
    with pytest.raises(InvalidUrl) as caught:
        check(url)
    assert said in str(caught.value)


def test_wss_takes_a_pin_as_openssl_prints_it() -> None:
    check(f"wss://example.org/link?pin={':'.join(['AB'] * 32)}")


async def test_wss_resolves_to_addresses_that_keep_the_name() -> None:
    found = await resolve("wss://localhost/link", timeout_s=HANG_S)
    assert "wss://127.0.0.1:443/link?host=localhost" in found


async def test_wss_listens_only_with_a_certificate_and_its_key(tmp_path: Path, own: WebCertificate) -> None:
    async def why(options: str) -> str:
        with pytest.raises(ListenFailed) as caught:
            await listen(f"wss://127.0.0.1:0{options}", CLIENT, echo)
        return caught.value.text

    assert "names no certificate to show; write wss://HOST:PORT?certificate=" in await why("")
    assert f"{tmp_path}/none.pem cannot be read: no such file" in await why(
        f"?certificate={own.chain}&key={tmp_path}/none.pem"
    )
    (tmp_path / "noise.pem").write_bytes(b"noise")
    assert "are no certificate and its key" in await why(f"?certificate={tmp_path}/noise.pem&key={own.secret}")
    (tmp_path / "other").mkdir()
    other = web_certificate(tmp_path / "other", HOST)
    assert "fit each other" in await why(f"?certificate={own.chain}&key={other.secret}")


# -- certificates ------------------------------------------------------------------------------------------


async def test_wss_takes_a_certificate_of_an_authority_of_this_machine(
    tmp_path: Path, authority: WebCertificate
) -> None:
    shown = web_certificate(tmp_path, HOST, "localhost", issuer=authority)
    async with listening(f"wss://127.0.0.1:0{shown.options}", handler=echo) as this:
        for url in (this.url, f"{this.url}?host=localhost", f"wss://localhost:{port_of(this)}"):
            stream = await dial(url, CLIENT, None, timeout_s=HANG_S)
            assert await says(stream, b"trusted") == b"trusted"
            assert stream.peer is None and not stream.owner
            await stream.aclose()
        said = await refusal(f"{this.url}?host=example.org")
        assert "its certificate is not for example.org but for localhost, 127.0.0.1; dial it by that name" in said


async def test_wss_refuses_an_expired_certificate(tmp_path: Path, authority: WebCertificate) -> None:
    shown = web_certificate(tmp_path, HOST, issuer=authority, days=-2)
    async with listening(f"wss://127.0.0.1:0{shown.options}", handler=echo) as this:
        day = f"{shown.certificate.not_valid_after_utc:%Y-%m-%d}"
        assert f"its certificate expired on {day}; its operator must renew it" in await refusal(this.url)


async def test_wss_refuses_a_certificate_that_nobody_has_signed_and_says_its_pin(own: WebCertificate) -> None:
    async with listening(f"wss://127.0.0.1:0{own.options}", handler=echo) as this:
        said = await refusal(this.url)
        assert f"if its operator confirms its SHA-256, dial it with {own.pin}" in said
        assert "alert" in await this.refusal()


async def test_wss_takes_a_pinned_certificate_alone_whatever_its_name_and_date(tmp_path: Path) -> None:
    shown = web_certificate(tmp_path, "example.org", days=-2)
    async with listening(f"wss://127.0.0.1:0{shown.options}", handler=echo) as this:
        stream = await dial(f"{this.url}{shown.pin}", CLIENT, None, timeout_s=HANG_S)
        assert await says(stream, b"pinned") == b"pinned"
        await stream.aclose()
        said = await refusal(f"{this.url}?pin={'0' * 64}")
        assert f"its certificate has the SHA-256 {shown.pin[5:]}, and another was pinned; ask its operator" in said


async def test_wss_shows_a_certificate_that_was_replaced_while_it_runs(tmp_path: Path, own: WebCertificate) -> None:
    async with listening(f"wss://127.0.0.1:0{own.options}", handler=echo) as this:
        before = await dial(f"{this.url}{own.pin}", CLIENT, None, timeout_s=HANG_S)
        own.secret.write_bytes(b"half written")
        kept = await dial(f"{this.url}{own.pin}", CLIENT, None, timeout_s=HANG_S)
        other = web_certificate(tmp_path, HOST)
        after = await dial(f"{this.url}{other.pin}", CLIENT, None, timeout_s=HANG_S)
        assert "another was pinned" in await refusal(f"{this.url}{own.pin}")
        for stream in (before, kept, after):
            assert await says(stream, b"on") == b"on"
            await stream.aclose()


async def test_wss_answers_a_browser_that_wants_a_page_with_a_sentence(own: WebCertificate) -> None:
    def page(port: int) -> bytes:
        with (
            socket.create_connection((HOST, port), timeout=HANG_S) as raw,
            trusting(own).wrap_socket(raw, server_hostname=HOST) as tls,
        ):
            tls.sendall(b"GET /link HTTP/1.1\r\nHost: x\r\n\r\n")
            return b"".join(iter(lambda: tls.recv(1 << 16), b""))

    async with listening(f"wss://127.0.0.1:0{own.options}", handler=echo) as this:
        answer = await trio.to_thread.run_sync(page, port_of(this))
        assert answer.startswith(b"HTTP/1.1 426 ") and b"there is no page here" in answer
        assert "there is no page here" in await this.refusal()


async def test_wss_refuses_a_client_that_offers_no_http_1_1(own: WebCertificate) -> None:
    context = trusting(own)
    context.set_alpn_protocols(["h2"])

    def come(port: int) -> None:
        with socket.create_connection((HOST, port), timeout=HANG_S) as raw, pytest.raises(ssl.SSLError):
            context.wrap_socket(raw, server_hostname=HOST)

    async with listening(f"wss://127.0.0.1:0{own.options}", handler=echo) as this:
        await trio.to_thread.run_sync(come, port_of(this))
        assert await this.refusal() == "the TLS handshake failed: the client does not offer HTTP/1.1"


async def test_wss_is_tls_1_3_alone_and_says_so(own: WebCertificate) -> None:
    def come(port: int) -> None:
        context = trusting(own)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with socket.create_connection((HOST, port), timeout=HANG_S) as raw, pytest.raises(ssl.SSLError):
            context.wrap_socket(raw, server_hostname=HOST)

    def serve_old(own_end: socket.socket) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(own.chain, own.secret)
        with own_end.accept()[0] as raw, pytest.raises(ssl.SSLError):
            context.wrap_socket(raw, server_side=True)

    async with listening(f"wss://127.0.0.1:0{own.options}", handler=echo) as this:
        await trio.to_thread.run_sync(come, port_of(this))
        assert await this.refusal() == "the TLS handshake failed: the peer does not offer TLS 1.3"
    with socket.create_server((HOST, 0)) as old:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, serve_old, old)
            said = await refusal(f"wss://127.0.0.1:{old.getsockname()[1]}{own.pin}")
            assert "the other end does not speak TLS 1.3" in said


async def test_wss_asks_for_a_name_as_dns_writes_it(tmp_path: Path, authority: WebCertificate) -> None:
    shown = web_certificate(tmp_path, "xn--mnchen-3ya.example", issuer=authority)
    async with listening(f"wss://127.0.0.1:0{shown.options}", handler=echo) as this:
        for name in ("xn--mnchen-3ya.example", "m%C3%BCnchen.example"):
            stream = await dial(f"{this.url}?host={name}", CLIENT, None, timeout_s=HANG_S)
            assert await says(stream, b"moin") == b"moin"
            await stream.aclose()


# -- a peer that is not ours -------------------------------------------------------------------------------


def trusting(shown: WebCertificate) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(shown.chain))


async def test_wss_speaks_with_clients_of_the_library_websockets(own: WebCertificate) -> None:
    async def talk(url: str) -> bytes:
        more: dict[str, Any] = {"subprotocols": ["upsycle.1"], "compression": "deflate", "open_timeout": HANG_S}
        async with connect(url, ssl=trusting(own), **more) as peer:
            assert peer.subprotocol == "upsycle.1"
            await asyncio.wait_for(await peer.ping(), HANG_S)
            whole = b""
            await peer.send([b"in ", b"frag", b"ments"])
            await peer.send(bytes(200_000))
            while len(whole) < 200_012:
                whole += await asyncio.wait_for(peer.recv(decode=False), HANG_S)
        assert peer.close_code == 1000
        return whole

    async with listening(f"wss://127.0.0.1:0{own.options}", handler=echo) as this:
        assert await trio.to_thread.run_sync(asyncio.run, talk(this.url)) == b"in fragments" + bytes(200_000)


async def test_wss_speaks_with_servers_of_the_library_websockets(own: WebCertificate) -> None:
    context, ports = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), Queue[int]()
    context.load_cert_chain(own.chain, own.secret)

    async def serve_one() -> None:
        is_over = asyncio.Event()

        async def answer(peer: ServerConnection) -> None:
            await asyncio.wait_for(await peer.ping(), HANG_S)
            async for message in peer:
                await peer.send(message)
            is_over.set()

        more: dict[str, Any] = {"subprotocols": ["upsycle.1"], "ssl": context}
        async with serve(answer, HOST, 0, **more) as server:
            ports.put(next(iter(server.sockets)).getsockname()[1])
            await is_over.wait()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, lambda: asyncio.run(serve_one()))
        port = await trio.to_thread.run_sync(ports.get)
        stream = await dial(f"wss://127.0.0.1:{port}/any{own.pin}", CLIENT, None, timeout_s=HANG_S)
        async with trio.open_nursery() as sending:
            sending.start_soon(stream.send_parts, [b"a", b"b" * 300_000])
            assert await receive_exactly(stream, 300_001) == b"a" + b"b" * 300_000
        await stream.aclose()
