"""Dial a WebSocket: connect, shake hands over TLS if the scheme wants it, and ask for the upgrade."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio
from trio.socket import SocketType

from router.core.wire.reasons import Reason
from router.transport import tcp
from router.transport.contract import ConnectFailed, InvalidUrl
from router.transport.socket_stream import SocketStream
from router.transport.sockets import NotLetIn
from router.transport.web_url import WebUrl
from router.transport.websocket import WebSocketStream, ask_upgrade

Secure = Callable[[SocketType, WebUrl, str], Awaitable[SocketStream]]
"""Makes a stream of a connected socket: (socket, url, where). Raises `NotLetIn`; then the socket is closed."""


async def dial_web(
    url: str, parts: Callable[[str], WebUrl], secure: Secure, usual_port: int, *, timeout_s: float
) -> WebSocketStream:
    """Connect to the link at a URL, of which `parts` returns the parts. Raises `ConnectFailed`."""
    has_answered = False
    try:
        to = parts(url)
        if not to.host or not to.port:
            raise InvalidUrl(f"{url!r} names no host and port to dial")
        where = f"{to.scheme} {tcp.host_port(to.host, to.port)}"
        asked = tcp.host_port(to.name, to.port).removesuffix(f":{usual_port}")
        with trio.fail_after(timeout_s):
            sock = await tcp.connect(to.host, to.port)
            has_answered = True
            return await ask_upgrade(await secure(sock, to, where), asked, to.path, where)
    except InvalidUrl as error:
        raise ConnectFailed(Reason.CONNECT_FAILED, str(error)) from None
    except NotLetIn as error:
        raise ConnectFailed(Reason.CONNECT_FAILED, f"{where}: {error}", has_answered=True) from None
    except trio.TooSlowError:
        text = f"{where} did not answer within {timeout_s:g} s; is the address right? is there a firewall?"
        raise ConnectFailed(Reason.CONNECT_TIMEOUT, text, has_answered=has_answered) from None
