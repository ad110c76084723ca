"""Both ends of a connection over a transport, for tests."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import trio
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from rigs.patience import HANG_S
from rigs.short_temporary_files import short_place
from rigs.web_certificates import web_certificate

from router.core.wire.crypto import SigningKey
from router.transport.contract import Stream, accepted_by, dial, load, scheme_of
from router.transport.limits import HandshakeLimits

SERVER = SigningKey(b"\x01" * 32)
CLIENT = SigningKey(b"\x02" * 32)


@contextmanager
def fresh_url(scheme: str) -> Iterator[str]:
    """Return a URL to listen on that nobody uses."""
    if scheme in ("tls", "ws"):
        yield f"{scheme}://127.0.0.1:0"
    elif scheme == "memory":
        yield "memory://test"
    elif scheme == "wss":
        with tempfile.TemporaryDirectory(prefix="ends") as directory:
            yield f"wss://127.0.0.1:0{web_certificate(Path(directory), '127.0.0.1').options}"
    else:
        with tempfile.TemporaryDirectory(prefix="ends", dir=short_place()) as directory:
            yield f"unix://{directory}/s"


class Listening:
    """A running listener that hands out its ends of the connections and records its refusals."""

    def __init__(self, asked: str) -> None:
        self.url = ""
        self._options = asked.partition("?")[2]
        self.refused: list[tuple[str, str]] = []
        self.noticed = trio.Event()
        self._dialled: list[Stream] = []
        self._send, self._receive = trio.open_memory_channel[Stream](100)

    async def handle(self, stream: Stream) -> None:
        """Hand the stream over and keep its task until the listener ends."""
        await self._send.send(stream)
        await trio.sleep_forever()

    def on_refused(self, where: str, text: str) -> None:
        self.refused.append((where, text))
        self.noticed.set()
        self.noticed = trio.Event()

    async def connect(self) -> Stream:
        """Dial the listener; the stream is closed when the listener ends."""
        expect = SERVER.public if self.url.startswith("tls:") else None
        stream = await dial(self.dialled, CLIENT, expect, timeout_s=HANG_S)
        self._dialled.append(stream)
        return stream

    @property
    def again(self) -> str:
        """Return the URL to listen at the same place."""
        return f"{self.url}?{self._options}" if self._options and "?" not in self.url else self.url

    @property
    def dialled(self) -> str:
        """Return the URL to dial: at an ordinary certificate with its pin."""
        if not self._options.startswith("certificate="):
            return self.url
        shown = Path(self._options.partition("=")[2].partition("&")[0])
        pin = x509.load_pem_x509_certificate(shown.read_bytes()).fingerprint(SHA256())
        return f"{self.url}?pin={pin.hex()}"

    async def close_dialled(self) -> None:
        for stream in self._dialled:
            await close_at_once(stream)

    async def accept(self) -> Stream:
        return await self._receive.receive()

    async def refusal(self) -> str:
        """Wait for the first refusal, and return its text."""
        while not self.refused:
            await self.noticed.wait()
        return self.refused[0][1]


@asynccontextmanager
async def listening(url: str, **options: Any) -> AsyncIterator[Listening]:
    """Listen on `url` while the block runs; the whole, and a handshake, may take HANG_S."""
    this = Listening(url)
    handler = options.pop("handler", this.handle)
    serve = load(scheme_of(url)).listen
    options = accepted_by(serve, {"handshakes": HandshakeLimits(timeout_s=HANG_S)}) | options
    listen = partial(serve, url, SERVER, handler, on_refused=this.on_refused, **options)
    with trio.fail_after(HANG_S):
        async with trio.open_nursery() as nursery:
            this.url = await nursery.start(listen)
            try:
                yield this
            finally:
                await this.close_dialled()
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def two_ends(scheme: str) -> AsyncIterator[tuple[Stream, Stream]]:
    """Yield the dialling and the accepting end of one connection; close both afterwards."""
    with fresh_url(scheme) as url:
        async with listening(url) as this:
            yield await this.connect(), await this.accept()


async def close_at_once(stream: Stream) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await stream.aclose()


async def receive_exactly(stream: Stream, count: int) -> bytes:
    """Return the next `count` bytes, fewer if the stream ends before."""
    chunks: list[bytes] = []
    while count:
        chunk = await stream.receive_some(count)
        if not chunk:
            break
        chunks.append(chunk)
        count -= len(chunk)
    return b"".join(chunks)


async def receive_to_end(stream: Stream) -> bytes:
    chunks: list[bytes] = []
    while chunk := await stream.receive_some(1 << 18):
        chunks.append(chunk)
    return b"".join(chunks)


async def echo(stream: Stream) -> None:
    """Send back all bytes received: a handler."""
    while data := await stream.receive_some(1 << 16):
        await stream.send_all(data)


async def proven_echo(stream: Stream) -> None:
    """Do the same when a link would have proven the other end's key."""
    if stream.peer is None:
        stream.link_proved(CLIENT.public)
    await echo(stream)


async def says(stream: Stream, text: bytes) -> bytes:
    """Return the answer of an echo to a short text."""
    await stream.send_all(text)
    return await receive_exactly(stream, len(text))
