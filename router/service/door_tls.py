"""TLS at a door: what is encrypted goes in and out at one socket, and the rules' stream is the other."""

from __future__ import annotations

import logging
import socket
from contextlib import suppress

import trio

from router.service.stream_reading import READ_BYTES_MAX
from router.transport.contract import Stream, StreamBroken
from router.transport.pace import SharedPace
from router.transport.patience import patient
from router.transport.reading_pauses import ReadingPauses
from router.transport.sockets import NotLetIn
from router.transport.tls_stream import shake_hands
from router.transport.web_certificate import ServerCertificate, server_failed

HANDSHAKE_S = 10.0
"""Seconds that a client may take for its handshake."""
_SAID = b"this port speaks HTTP over TLS alone: open it by https://\n"
TO_HTTP = (
    b"HTTP/1.1 400 Bad Request\r\nX-Reason: https-here\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Content-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(_SAID), _SAID)
)
"""The answer to a request of HTTP that comes without TLS."""

log = logging.getLogger(__name__)


async def carry(
    outer: socket.socket,
    inner: socket.socket,
    certificate: ServerCertificate,
    address: str,
    shaking: trio.CancelScope,
    short_records: SharedPace,
) -> None:
    """Decrypt what comes of `outer`, a client at HOST:PORT, into `inner`, and encrypt what comes back, until one of
    them ends; close both. `shaking` is cancelled if the stream has to go before its handshake is done; `short_records`
    is the rate of short records that all clients share."""
    outer.setblocking(False)
    plain = trio.SocketStream(trio.socket.from_stdlib_socket(inner))
    async with plain:
        try:
            stream: Stream | None = None
            with shaking, patient(HANDSHAKE_S) as patience:
                stream = await shake_hands(
                    trio.socket.from_stdlib_socket(outer),
                    certificate.connection(),
                    address,
                    _prove,
                    server_failed,
                    TO_HTTP,
                )
        except NotLetIn as error:
            log.info("%s: %s", address, error)
        else:
            if patience.scope.cancelled_caught:
                log.info("%s: the TLS handshake was not done within %g s", address, HANDSHAKE_S)
            if stream is None:
                return
            try:
                await _pump(stream, plain, ReadingPauses(short_records))
            finally:
                with trio.move_on_after(1, shield=True):
                    await stream.aclose()


def _prove(connection: object) -> None:
    """Prove no key: the client has no certificate."""


async def _pump(stream: Stream, plain: trio.SocketStream, pauses: ReadingPauses) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_decrypt, stream, plain, pauses, nursery.cancel_scope)
        with suppress(StreamBroken, trio.BrokenResourceError):
            while data := await plain.receive_some(READ_BYTES_MAX):
                await stream.send_all(data)
        nursery.cancel_scope.cancel()


async def _decrypt(stream: Stream, plain: trio.SocketStream, pauses: ReadingPauses, scope: trio.CancelScope) -> None:
    """Pass on what the client says; its end lets the rules still answer what it has said before."""
    try:
        while data := await stream.receive_some(READ_BYTES_MAX):
            await plain.send_all(data)
            pauses.took(len(data), stream.short_pieces, 0, trio.current_time(), is_between=True)
            await pauses.wait_turn()
        await plain.send_eof()
    except (StreamBroken, trio.BrokenResourceError):
        scope.cancel()
