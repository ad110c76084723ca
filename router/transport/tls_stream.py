"""A TLS connection over a socket: its handshake, and the stream.

Bytes move between OpenSSL's memory buffers and the socket, in full records if there is enough to send.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import count

import trio
from OpenSSL import SSL
from trio.socket import SocketType

from router.core.wire.crypto import PublicKey
from router.transport.contract import Buffer, StreamBroken
from router.transport.limits import HANDSHAKE_PAUSE_S, HANDSHAKE_READS
from router.transport.records import TlsRecords
from router.transport.socket_stream import SocketStream
from router.transport.sockets import NotLetIn, close_after_last_byte, receive, send_whole
from router.transport.stream import CUT

PIECE_BYTES = 1 << 18  # plaintext joined, encrypted and given to the kernel at once
HANDSHAKE_READ_BYTES = 1 << 12
HANDSHAKE_BYTES_MAX = 1 << 14  # from the peer, until the handshake is done
HTTP_REQUEST = "http request"  # OpenSSL's words for a first record that begins as GET, HEAD, POST or PUT
QUIET_S = 0.1  # a connection that has been silent for this long frees its buffers

Prove = Callable[[SSL.Connection], PublicKey | None]
"""Returns the key that a finished handshake has proven, None if it proves none. Raises `NotLetIn`."""
Failed = Callable[[SSL.Connection, SSL.Error], NotLetIn]
"""Returns in words why a handshake failed."""


async def shake_hands(
    sock: SocketType, tls: SSL.Connection, where: str, prove: Prove, failed: Failed, to_http: bytes = b""
) -> TlsStream:
    """Do the handshake; the caller bounds the time. A failure closes the socket. Raises `NotLetIn`.

    `to_http` is the answer to a client that sends a request of HTTP without TLS.
    A client is done before the server has checked its certificate: a refusal appears at the client's first read.
    """
    records = TlsRecords(tls)
    try:
        await _exchange(sock, tls, records)
        peer = prove(tls)
        await send_whole(sock, [records.outgoing()])
        return TlsStream(sock, records, where, sock.getpeername()[0], peer)
    except SSL.Error as error:
        try:
            with suppress(StreamBroken):
                await send_whole(sock, [to_http if is_http(error) and to_http else records.outgoing()])  # or our alert
        finally:  # whoever waits for the handshake may give up just now
            close_after_last_byte(sock)
        raise failed(tls, error) from None
    except (StreamBroken, OSError) as error:
        sock.close()
        raise NotLetIn(f"the connection broke during the TLS handshake: {error}") from None
    except BaseException:
        sock.close()
        raise


def is_http(error: SSL.Error) -> bool:
    """Whether the client has sent a request of HTTP instead of a handshake."""
    return any(HTTP_REQUEST in line for lines in error.args[:1] for line in lines)


async def _exchange(sock: SocketType, tls: SSL.Connection, records: TlsRecords) -> None:
    left = HANDSHAKE_BYTES_MAX
    for reads in count():
        try:
            return tls.do_handshake()
        except SSL.WantReadError:
            await send_whole(sock, [records.outgoing()])
        if reads >= HANDSHAKE_READS:
            await trio.sleep(HANDSHAKE_PAUSE_S)
        data = await receive(sock, HANDSHAKE_READ_BYTES)
        left -= len(data)
        if not data:
            raise NotLetIn("the peer closed the connection during the TLS handshake")
        if left < 0:
            raise NotLetIn(f"the peer sent more than {HANDSHAKE_BYTES_MAX} bytes of TLS handshake")
        tls.bio_write(data)


class TlsStream(SocketStream):
    """A TLS connection; `peer` is the key that it has proven, if it proves one. See `router.transport.Stream`."""

    __slots__ = ("_records",)

    def __init__(
        self, sock: SocketType, records: TlsRecords, where: str, ip: str, peer: PublicKey | None = None
    ) -> None:
        super().__init__(sock, where, ip, peer)
        self._records = records

    @property
    def received_bytes(self) -> int:
        return self._records.ciphertext_bytes

    @property
    def short_pieces(self) -> int:
        return self._records.short

    def send_soon(self, data: bytes) -> None:
        if self._unsendable is None:
            self._write_soon(b"".join(self._records.encrypt(data)))

    async def _receive(self, max_bytes: int) -> bytes:
        records = self._records
        if records.waiting and (data := self._read(max_bytes)):
            await trio.lowlevel.checkpoint()
            return data
        while not records.ended:
            await self._feed(2 * max_bytes)
            if data := self._read(max_bytes):
                return data
        await trio.lowlevel.checkpoint()
        return b""

    async def _feed(self, max_bytes: int) -> None:
        """Wait for ciphertext and give it to OpenSSL; no buffer is held here while waiting."""
        ciphertext = None
        if self._records.grown:
            with trio.move_on_after(QUIET_S):
                ciphertext = await receive(self._socket, max_bytes)
        if ciphertext is None:
            if self._records.grown:
                self._records.shrink()
            ciphertext = await receive(self._socket, max_bytes)
        if not ciphertext:
            raise StreamBroken(CUT)
        self._records.feed(ciphertext)

    def _read(self, max_bytes: int) -> bytes:
        """Decrypt, and send TLS's own answers as far as possible without waiting."""
        try:
            return self._records.read(max_bytes)
        finally:
            self._write_soon(self._records.outgoing())

    async def _send(self, parts: Sequence[Buffer]) -> None:
        for piece in _joined(parts):
            await self._flush(self._records.encrypt(piece))
        if self._outbox:
            await self._flush([])

    async def _finish(self) -> None:
        await self._finish_with(self._records.goodbye())


def _joined(parts: Sequence[Buffer]) -> Iterator[Buffer]:
    """Yield the bytes of `parts` in pieces of at most PIECE_BYTES, for full records; one small buffer is not copied."""
    if sum(map(len, parts)) <= PIECE_BYTES:
        yield parts[0] if len(parts) == 1 else b"".join(parts)
        return
    batch: list[Buffer] = []
    room = PIECE_BYTES
    for part in parts:
        view = memoryview(part)
        while len(view) > room:
            yield b"".join((*batch, view[:room]))
            view, batch, room = view[room:], [], PIECE_BYTES
        batch.append(view)
        room -= len(view)
    yield b"".join(batch)
