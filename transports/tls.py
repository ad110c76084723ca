"""TLS 1.3 over TCP, both sides with a self-signed Ed25519 certificate: the key in it is the address (R-B3)."""

from __future__ import annotations

from collections.abc import Callable

import trio
from OpenSSL import SSL
from trio.socket import SocketType

from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.reasons import Reason
from router.transport import tcp
from router.transport.certificate import claimed_peer, connection, proven_peer, why_failed
from router.transport.contract import (
    ConnectFailed,
    Handler,
    InvalidUrl,
    ListenFailed,
    OnRefused,
    TaskStatus,
    tcp_address,
    unheard,
)
from router.transport.entrance import Entrance, accept_at
from router.transport.handshakes import BUSY_ALERT
from router.transport.limits import CONNECTIONS_MAX, HandshakeLimits
from router.transport.sockets import NotLetIn
from router.transport.tls_stream import TlsStream, shake_hands

HANDSHAKES = HandshakeLimits()


def check(url: str) -> None:
    """Raise `InvalidUrl` unless this names a host and a port."""
    tcp_address(url)


async def dial(url: str, key: SigningKey, expect: PublicKey | None, *, timeout_s: float) -> TlsStream:
    """Connect and prove both keys; the peer must show `expect` unless it is None. Raises `ConnectFailed`."""
    has_answered = False
    try:
        host, port = tcp_address(url)
        if not host or not port:
            raise InvalidUrl(f"{url!r} names no host and port to dial")
        where = f"tls {tcp.host_port(host, port)}"
        with trio.fail_after(timeout_s):
            sock = await tcp.connect(host, port)
            has_answered = True
            return await shake_hands(sock, connection(key, expect, server=False), where, proven_peer, _failed)
    except InvalidUrl as error:
        raise ConnectFailed(Reason.CONNECT_FAILED, str(error)) from None
    except NotLetIn as error:
        text = f"{where}: {error}"
        raise ConnectFailed(Reason.CONNECT_FAILED, text, has_answered=True, answered_by=error.claimed) from None
    except trio.TooSlowError:
        text = f"{url} did not answer within {timeout_s:g} s; is the address right? is there a firewall?"
        raise ConnectFailed(Reason.CONNECT_TIMEOUT, text, has_answered=has_answered) from None


def _failed(tls: SSL.Connection, error: SSL.Error) -> NotLetIn:
    return NotLetIn(why_failed(tls, error), claimed_peer(tls))


async def resolve(url: str, *, timeout_s: float) -> list[str]:
    """Return the URLs of the addresses that the host has. Raises `ConnectFailed`, `InvalidUrl`."""
    host, port = tcp_address(url)
    if not host or tcp.is_literal(host):
        return [url]
    found = await tcp.look_up(host, port, timeout_s=timeout_s)
    return [f"tls://{tcp.host_port(ip, port)}" for ip in found]


async def listen(
    url: str,
    key: SigningKey,
    handler: Handler,
    *,
    task_status: TaskStatus = trio.TASK_STATUS_IGNORED,
    on_refused: OnRefused = unheard,
    connections_max: int = CONNECTIONS_MAX,
    handshakes: HandshakeLimits = HANDSHAKES,
    is_known: Callable[[PublicKey], bool] = lambda _key: False,
) -> None:
    """Accept connections until cancelled; `handler` gets streams whose peer has proved its key. Raises
    `ListenFailed`."""
    try:
        host, port = tcp_address(url)
    except InvalidUrl as error:
        raise ListenFailed(str(error)) from None

    async def answer(sock: SocketType, where: str) -> TlsStream:
        return await shake_hands(sock, connection(key, None, server=True), where, proven_peer, _failed)

    await accept_at(
        host,
        port,
        Entrance(answer, BUSY_ALERT, handshakes, is_known),
        handler,
        scheme="tls",
        told=lambda port: f"tls://{tcp.host_port(host, port)}",
        task_status=task_status,
        on_refused=on_refused,
        connections_max=connections_max,
    )
