"""WebSocket over TLS with an ordinary certificate: `wss://host:port/path`, as browsers and proxies use it.

Who listens names the files of its certificate (`?certificate=FILE&key=FILE`). Who dials trusts this machine's
authorities, or one certificate alone (`?pin=SHA256`). Neither proves the router's key: the link does.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import trio
from msgspec.structs import replace
from trio.socket import SocketType

from router.core.wire.crypto import PublicKey, SigningKey
from router.transport.contract import Handler, InvalidUrl, ListenFailed, OnRefused, TaskStatus, unheard
from router.transport.entrance import Entrance, accept_at
from router.transport.handshakes import BUSY_ALERT
from router.transport.limits import CONNECTIONS_MAX, HandshakeLimits
from router.transport.tls_stream import TlsStream, shake_hands
from router.transport.web_certificate import ServerCertificate, ServerJudge, checked_pin, pin_of, server_failed
from router.transport.web_dialling import dial_web
from router.transport.web_url import WebUrl, resolved, web_url
from router.transport.websocket import WebSocketStream, answer_upgrade

USUAL_PORT = 443
OF_LISTENING = ("certificate", "key")
HANDSHAKES = HandshakeLimits()


def check(url: str) -> None:
    """Raise `InvalidUrl` unless this is a URL of the scheme, with options that it knows."""
    _parts(url)


def _parts(url: str) -> WebUrl:
    found = web_url(url, "wss", USUAL_PORT, ("host", "pin", *OF_LISTENING))
    if "pin" in found.options:
        checked_pin(found.options["pin"])
    for name in OF_LISTENING:
        _file(found, name)
    return found


def check_listening(url: str) -> None:
    """Raise `InvalidUrl` unless the certificate that a URL names can be shown."""
    try:
        _certificate(_parts(url))
    except ListenFailed as error:
        raise InvalidUrl(error.text) from None


def _certificate(url: WebUrl) -> ServerCertificate:
    """Return the certificate that a URL names. Raises `ListenFailed`."""
    chain, secret = (_file(url, name) for name in OF_LISTENING)
    if chain is None or secret is None:
        said = f"'{url}' names no certificate to show"
        remedy = "write wss://HOST:PORT?certificate=/etc/…/fullchain.pem&key=/etc/…/privkey.pem"
        raise ListenFailed(f"{said}; {remedy}, or let a proxy speak TLS for a ws URL")
    return ServerCertificate(chain, secret)


def _file(url: WebUrl, name: str) -> Path | None:
    """Return the file that an option names, None if it names none. Raises `InvalidUrl`."""
    try:
        path = Path(url.options[name]).expanduser() if url.options.get(name) else None
    except RuntimeError:
        raise InvalidUrl(f"the home directory in '{url}' is not known; write the path in full") from None
    if path is not None and not path.is_absolute():
        raise InvalidUrl(f"{name} in '{url}' is no full path; write it from / or ~ on")
    return path


async def dial(url: str, key: SigningKey, expect: PublicKey | None, *, timeout_s: float) -> WebSocketStream:
    """Connect, judge the certificate and upgrade; the link proves the keys. Raises `ConnectFailed`."""
    return await dial_web(url, _parts, _secured, USUAL_PORT, timeout_s=timeout_s)


async def _secured(sock: SocketType, url: WebUrl, where: str) -> TlsStream:
    judge = ServerJudge(url.name, checked_pin(url.options["pin"]) if "pin" in url.options else "")
    return await shake_hands(sock, judge.connection(), where, judge.prove, judge.failed)


def place(url: str) -> tuple[str, int]:
    """Return host and port. Raises `InvalidUrl`."""
    found = _parts(url)
    return found.host, found.port


def told_as(url: str) -> str:
    """Return the URL as a listener tells it. Raises `InvalidUrl`."""
    return _told(_parts(url))


def _told(url: WebUrl) -> str:
    return url.at(url.host, url.port, {})


def seen_here(url: str, host: str) -> str:
    """Return the URL at which this machine dials what listens there: by the fingerprint of its certificate, which need
    not be for this host. Raises `InvalidUrl`."""
    found = _parts(url)
    chain = _file(found, "certificate")
    return found.at(host, found.port, found.options if chain is None else {"pin": pin_of(chain)})


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
    certificate = _certificate(parts)

    async def answer(sock: SocketType, where: str) -> WebSocketStream:
        tls = await shake_hands(sock, certificate.connection(), where, lambda _: None, server_failed)
        return await answer_upgrade(tls, parts.path, where)

    await accept_at(
        parts.host,
        parts.port,
        Entrance(answer, BUSY_ALERT, handshakes, is_known),
        handler,
        scheme="wss",
        told=lambda port: _told(replace(parts, port=port)),
        task_status=task_status,
        on_refused=on_refused,
        connections_max=connections_max,
    )
