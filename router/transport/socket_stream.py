"""Streams over a socket of TCP. What must not wait for the sending direction leaves as far as the socket takes it now.

If the receiving task waited for the sending direction, two ends could wait for each other.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

import trio
from trio.socket import SocketType

from router.core.wire.crypto import PublicKey
from router.transport import tcp
from router.transport.contract import Buffer, StreamBroken
from router.transport.handshakes import prefix_of
from router.transport.sockets import NotLetIn, close_after_last_byte, receive, send_whole, words
from router.transport.stream import DuplexStream

CONTROL_BYTES_MAX = 1 << 14  # answers to the peer (key updates, pongs) that it has not taken yet
CLOSE_TIMEOUT_S = 1.0  # how long our goodbye may wait for a peer that does not read


class SocketStream(DuplexStream):
    """A stream over a connected socket; its `_outbox` is sent before anything else, by whoever sends next."""

    __slots__ = ("_outbox", "_socket")

    def __init__(self, sock: SocketType, where: str, ip: str, peer: PublicKey | None = None) -> None:
        super().__init__(where, peer=peer, place=prefix_of(ip) if ip else "", ip=ip, path=tcp.path_of(sock))
        self._socket = sock
        self._outbox = bytearray()  # at most CONTROL_BYTES_MAX

    def send_soon(self, data: bytes) -> None:
        """Send without waiting what the socket takes now; the next send does the rest. Raises `StreamBroken`."""
        self._write_soon(data)

    def close_soon(self) -> None:
        """Close without waiting, so that the peer can still read what was sent, and finds the stream broken then."""
        close_after_last_byte(self._socket)

    def abandon(self) -> None:
        """Close at once; the peer may lose what was sent last."""
        self._socket.close()

    def _write_soon(self, data: bytes) -> None:
        if self._unsendable is not None:
            return
        self._outbox += data
        if self._outbox and not self._sending:
            with suppress(OSError):
                del self._outbox[: os.write(self._socket.fileno(), self._outbox)]
        if len(self._outbox) > CONTROL_BYTES_MAX:
            raise StreamBroken("the peer demands answers (key updates, pongs) but does not read them")

    async def _flush(self, parts: list[Buffer]) -> None:
        """Send these after what is to leave before them."""
        if self._outbox:
            parts.insert(0, bytes(self._outbox))
            self._outbox.clear()
        await send_whole(self._socket, parts)

    async def _finish_with(self, goodbye: bytes) -> None:
        with trio.move_on_after(CLOSE_TIMEOUT_S), suppress(StreamBroken):
            await self._flush([goodbye])
            close_after_last_byte(self._socket)

    def _abandon(self) -> None:
        self.abandon()


def tcp_stream(sock: SocketType, where: str) -> TcpStream:
    """Return the stream of a connected socket. Raises `NotLetIn` if that is broken already, and closes it."""
    try:
        return TcpStream(sock, where, sock.getpeername()[0])
    except OSError as error:
        sock.close()
        raise NotLetIn(f"the connection broke at once: {words(error)}") from None


class TcpStream(SocketStream):
    """A TCP connection without TLS, for what is carried inside it: its end is no clean one, and nothing is proven."""

    __slots__ = ()

    async def _receive(self, max_bytes: int) -> bytes:
        return await receive(self._socket, max_bytes)

    async def _send(self, parts: Sequence[Buffer]) -> None:
        await self._flush(list(parts))
        if self._outbox:
            await self._flush([])

    async def _finish(self) -> None:
        await self._finish_with(b"")
