"""WebSocket over TCP without TLS: `ws://host:port/path`, on loopback or where its option says `plain=yes`.

For a proxy on the same machine that speaks TLS for it, and for networks that encrypt by themselves. The link proves
keys, but what is said on it can be read on the way.
"""

from __future__ import annotations

from collections.abc import Callable

import trio
from msgspec.structs import replace
from trio.socket import SocketType

from router.core.wire.address import is_loopback
from router.core.wire.crypto import PublicKey, SigningKey
from router.transport.contract import Handler, InvalidUrl, ListenFailed, OnRefused, TaskStatus, unheard
from router.transport.entrance import Entrance, accept_at
from router.transport.limits import CONNECTIONS_MAX, HandshakeLimits
from router.transport.socket_stream import TcpStream, tcp_stream
from router.transport.web_dialling import dial_web
from router.transport.web_url import WebUrl, resolved, web_url
from router.transport.websocket import BUSY_ANSWER, WebSocketStream, answer_upgrade

USUAL_PORT = 80
HANDSHAKES = HandshakeLimits()


def check(url: str) -> None:
    """Raise `InvalidUrl` unless this is a URL of the scheme that may be used without TLS."""
    _parts(url)


def _parts(url: str) -> WebUrl:
    found = web_url(url, "ws", USUAL_PORT, ("host", "plain"))
    if found.options.get("plain", "no") not in ("yes", "no"):
        raise InvalidUrl(f"plain in {url!r} must be yes or no")
    if found.options.get("plain") != "yes" and not is_loopback(found.host):
        said = f"{url!r} leads off this machine without TLS, so others on the way could read and change what is said"
        raise InvalidUrl(f"{said}; use wss, or add ?plain=yes where the network itself encrypts")
    return found


async def dial(url: str, key: SigningKey, expect: PublicKey | None, *, timeout_s: float) -> WebSocketStream:
    """Connect and upgrade; the link proves the keys. Raises `ConnectFailed`."""
    return await dial_web(url, _parts, _plain, USUAL_PORT, timeout_s=timeout_s)


async def _plain(sock: SocketType, url: WebUrl, where: str) -> TcpStream:
    return tcp_stream(sock, where)


def place(url: str) -> tuple[str, int]:
    """Return host and port. Raises `InvalidUrl`."""
    found = _parts(url)
    return found.host, found.port


def told_as(url: str) -> str:
    """Return the URL as a listener tells it. Raises `InvalidUrl`."""
    return _told(_parts(url))


def _told(url: WebUrl) -> str:
    return str(url)


def seen_here(url: str, host: str) -> str:
    """Return the URL at which this machine dials what listens there. Raises `InvalidUrl`."""
    found = _parts(url)
    return found.at(host, found.port, found.options)


async def resolve(url: str, *, timeout_s: float) -> list[str]:
    """Return the URLs of the addresses that the host has. Raises `ConnectFailed`, `InvalidUrl`."""
    return await resolved(url, _parts(url), timeout_s=timeout_s)


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
    """Accept connections until cancelled. Raises `ListenFailed`."""
    try:
        parts = _parts(url)
    except InvalidUrl as error:
        raise ListenFailed(str(error)) from None

    async def answer(sock: SocketType, where: str) -> WebSocketStream:
        return await answer_upgrade(tcp_stream(sock, where), parts.path, where)

    await accept_at(
        parts.host,
        parts.port,
        Entrance(answer, BUSY_ANSWER, handshakes, is_known),
        handler,
        scheme="ws",
        told=lambda port: _told(replace(parts, port=port)),
        task_status=task_status,
        on_refused=on_refused,
        connections_max=connections_max,
    )
