"""The contract of a transport: byte streams between two ends, dialled or accepted by URL; each scheme is one file.

    tls://host:port      tls://[::1]:4101     tls://:4101 (listen on every interface)
    unix:///run/me/s     unix://relative/s    unix://~/s
    memory://name        ws://localhost:4190/link                 wss://host/link

A file `<scheme>.py` in a `transports` folder on Python's path offers `dial`, `listen` and `check` as in `Transport`;
`load` finds it by name. So a new transport touches nothing else: it checks its own URLs, with their options behind a
`?`, sets `LOCAL = True` if only processes of this machine connect, offers `resolve` if its URLs may hold names, and
gets those of the node's handshake limits that its `listen` names as parameters. If its URLs have more parts than host
and port, it offers `place`, and `seen_here` and `told_as` if a listener's URL is not the one to dial; and
`check_listening` if listening needs more than the URL's form.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, cast

import trio

from router.core.link.liveness import PathView
from router.core.wire.address import is_host, lacks_zone
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.errors import RouterError
from router.core.wire.reasons import Reason
from router.shared_packages import complete
from router.transport.limits import CONNECTIONS_MAX

PORT_MAX = 65535

Buffer = bytes | memoryview  # a memoryview must be of single bytes, so that len() counts bytes


class InvalidUrl(RouterError, ValueError):
    """A text is not the URL of a transport; the error says why, and how it should look."""


class ConnectFailed(Exception):
    """The other end could not be reached, or has another key than the dialled one; `text` is a sentence for people.

    `has_answered`: somebody is there, who is not the dialled router, or does not answer as one; `answered_by`: the key
    of the router that is there instead, if one is, as it says; `is_unassigned`: no machine has the address, as the
    system says, so nothing was sent to anybody."""

    def __init__(
        self,
        reason: Reason,
        text: str,
        *,
        has_answered: bool = False,
        answered_by: PublicKey | None = None,
        is_unassigned: bool = False,
    ) -> None:
        super().__init__(text)
        self.answered_by = answered_by
        self.reason = reason
        self.text = text
        self.has_answered = has_answered
        self.is_unassigned = is_unassigned


class ListenFailed(Exception):
    """Listening failed or ended; `text` says why and what to do."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class StreamBroken(Exception):
    """Nothing more can be sent or received on this stream; bytes under way may have arrived or not."""


class Stream(Protocol):
    """Bytes in order in both directions. At most one task may send while another one receives."""

    @property
    def peer(self) -> PublicKey | None:
        """The key that the transport has proved; None if the link's proof must do so (R-B5)."""

    @property
    def owner(self) -> bool:
        """Whether the other end belongs to the user of this process, as with Unix sockets and memory."""

    @property
    def where(self) -> str:
        """The other end's address for people: `tls 127.0.0.1:4101`."""

    @property
    def place(self) -> str:
        """The prefix of the other end's address that counts as one neighbour; empty if there is none."""

    @property
    def ip(self) -> str:
        """The other end's IP address; empty if it has none."""

    @property
    def path(self) -> PathView:
        """The ways to find out about the path to the other end; `NO_PATH` if there is no network between."""

    @property
    def received_bytes(self) -> int:
        """The bytes on the wire for everything received, with encryption; 0 for a stream that adds nothing."""

    @property
    def short_pieces(self) -> int:
        """The number of short pieces of what carries this stream that have come, such as records of TLS
        (`router.transport.reading_pauses`); 0 for a stream that nothing carries."""

    def link_proved(self, key: PublicKey) -> None:
        """Note that the link has proven the other end's key, which the transport does not prove: until then the
        connection gives way to others."""

    async def receive_some(self, max_bytes: int) -> bytes:
        """Wait for data and return 1 to `max_bytes` bytes; `b""` when the peer has closed cleanly.

        Cancelling loses nothing. Raises `StreamBroken`.
        """

    async def send_all(self, data: Buffer) -> None:
        """Send all of `data`. After a cancelled send no further one is possible. Raises `StreamBroken`."""

    async def send_parts(self, parts: Sequence[Buffer]) -> None:
        """Send these buffers in order, in as few writes as possible; otherwise like `send_all`."""

    async def aclose(self) -> None:
        """Close: the peer reads `b""` after the last byte.

        In a cancelled scope it closes at once, and the peer finds the stream broken. May be called twice.
        """


class TaskStatus(Protocol):
    """The `task_status` that `nursery.start` passes."""

    def started(self, value: str) -> None: ...


Handler = Callable[[Stream], Awaitable[None]]
OnRefused = Callable[[str, str], None]  # (where, one sentence): a connection or attempt was turned away


def unheard(where: str, text: str) -> None:
    """Ignore a refusal: the default of `on_refused`."""


class Transport(Protocol):
    """The functions of every `transports/<scheme>.py`."""

    def check(self, url: str) -> None:
        """Raise `InvalidUrl`, saying how it should look, unless this is a URL of the scheme, with options it knows."""

    async def dial(self, url: str, key: SigningKey, expect: PublicKey | None, *, timeout_s: float) -> Stream:
        """Return a stream to `url`, ready for use. `expect` is the key that must answer, if the transport can prove it.

        Raises `ConnectFailed`.
        """

    async def listen(
        self,
        url: str,
        key: SigningKey,
        handler: Handler,
        *,
        task_status: TaskStatus = trio.TASK_STATUS_IGNORED,
        on_refused: OnRefused = unheard,
        connections_max: int = CONNECTIONS_MAX,
    ) -> None:
        """Accept connections until cancelled; a task for each calls `handler(stream)`, then closes it.

        Calls `task_status.started(actual_url)` when ready (port 0 resolved). An error of this file that a handler
        raises ends only its connection. Raises `ListenFailed`.
        """


class Resolve(Protocol):
    """The function by which a transport looks up the names in its URLs, if they may hold any."""

    async def __call__(self, url: str, *, timeout_s: float) -> Sequence[str]:
        """Return the URLs of single addresses. Raises `ConnectFailed`, `InvalidUrl`."""


def scheme_of(url: str) -> str:
    """Return the scheme, as `tls` of `tls://…`; raise `InvalidUrl` if there is none."""
    scheme, colon, _rest = url.partition("://")
    if not colon or not re.fullmatch(r"[a-z][a-z0-9]*", scheme):
        raise InvalidUrl(f"{url!r} is not a transport URL; write for example tls://host:4101 or unix://path")
    return scheme


INSIDE = "memory"  # connects only inside one process, so errors about a configured URL do not name it


def load(scheme: str) -> Transport:
    """Return the transport of that scheme; raise `InvalidUrl`, which names the known ones, if there is none."""
    complete("transports")
    package = importlib.import_module("transports")
    known = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    if scheme not in known:
        raise InvalidUrl(
            f"there is no transport for {scheme}://; known are {', '.join(one for one in known if one != INSIDE)}"
        )
    return cast(Transport, importlib.import_module(f"transports.{scheme}"))


def check(url: str) -> None:
    """Raise `InvalidUrl`, saying how it should look, unless a transport can use this URL. `x:rest` stands for
    `x://rest` if the rest is relative and no port."""
    scheme, colon, rest = url.partition(":")
    whole = url if not colon or rest.startswith("//") or rest.isdecimal() else f"{scheme}://{rest}"
    load(scheme_of(whole)).check(whole)


def check_listening(url: str) -> None:
    """Raise `InvalidUrl` unless a transport can listen at this URL, as far as that shows without trying."""
    check(url)
    found: Callable[[str], None] | None = getattr(load(url.partition(":")[0]), "check_listening", None)
    if found is not None:
        found(url)


def is_local(url: str) -> bool:
    """Whether only processes of this machine can connect to the URL."""
    return bool(getattr(load(url.partition(":")[0]), "LOCAL", False))


def accepted_by(listen: Callable[..., Awaitable[None]], given: dict[str, Any]) -> dict[str, Any]:
    """Return those of the `given` values that `listen` names among its parameters."""
    named = inspect.signature(listen).parameters
    return {name: value for name, value in given.items() if name in named}


async def dial(url: str, key: SigningKey, expect: PublicKey | None, *, timeout_s: float) -> Stream:
    """Dial with the transport of the URL's scheme. Raises `ConnectFailed`, also for an invalid URL."""
    try:
        return await load(scheme_of(url)).dial(url, key, expect, timeout_s=timeout_s)
    except InvalidUrl as error:
        raise ConnectFailed(Reason.CONNECT_FAILED, str(error)) from None


async def resolve(url: str, *, timeout_s: float) -> Sequence[str]:
    """Return the URLs of the single addresses that a URL names, in the order in which to dial them. A transport whose
    URLs may hold names offers `resolve`; of any other each URL is one address. Raises `ConnectFailed`."""
    try:
        found: Resolve | None = getattr(load(scheme_of(url)), "resolve", None)
        return (url,) if found is None else await found(url, timeout_s=timeout_s)
    except InvalidUrl as error:
        raise ConnectFailed(Reason.CONNECT_FAILED, str(error)) from None


def after(prefix: str, url: str) -> str:
    """Return the rest of a URL after this prefix; raise `InvalidUrl` if it begins otherwise."""
    if not url.startswith(prefix):
        raise InvalidUrl(f"{url!r} does not begin with {prefix}")
    return url[len(prefix) :]


def place_of(url: str) -> tuple[str, int]:
    """Return the host and the TCP port in a URL. Raises `InvalidUrl`."""
    found: Callable[[str], tuple[str, int]] | None = getattr(load(scheme_of(url)), "place", None)
    return tcp_address(url, scheme_of(url)) if found is None else found(url)


def seen_here(url: str) -> str:
    """Return the URL at which this machine itself dials what listens at that one. Raises `InvalidUrl`."""
    host, port = place_of(url)
    host = _EVERY.get(host, host)
    found: Callable[[str, str], str] | None = getattr(load(scheme_of(url)), "seen_here", None)
    if found is not None:
        return found(url, host)
    return f"{scheme_of(url)}://[{host}]:{port}" if ":" in host else f"{scheme_of(url)}://{host}:{port}"


def told_as(url: str) -> str:
    """Return the URL as a listener there tells it, without what is for listening alone; one that no transport can use
    as it is."""
    try:
        found: Callable[[str], str] | None = getattr(load(scheme_of(url)), "told_as", None)
        return url if found is None else found(url)
    except InvalidUrl:
        return url


_EVERY = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
_HOST_PORT = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|(?P<host>[^\s:/\[\]@]*)):(?P<port>[0-9]{1,5})")


def tcp_address(url: str, scheme: str = "tls") -> tuple[str, int]:
    """Return host and port of `tls://host:port` or `tls://[::1]:port`; the host is empty in `tls://:port`."""
    rest = after(f"{scheme}://", url)
    found = _HOST_PORT.fullmatch(rest)
    if found is None:
        text = f"{url!r} lacks host or port; write {scheme}://host:4101, an IPv6 address as {scheme}://[::1]:4101"
        raise InvalidUrl(text)
    port, host = int(found["port"]), found["six"] or found["host"] or ""
    if port > PORT_MAX:
        raise InvalidUrl(f"port {port} in {url!r} is too large; ports go up to {PORT_MAX}")
    if (host and not is_host(host)) or (found["six"] and ":" not in host):
        raise InvalidUrl(f"{host!r} in {url!r} is neither an IP address nor a name that DNS knows; mend it")
    if lacks_zone(host):
        said = f"{host} in {url!r} is link-local, so it may be in any network of this machine"
        raise InvalidUrl(f"{said}; add the interface, as in {scheme}://[{host}%eth0]:{port}, for this machine alone")
    return host, port
