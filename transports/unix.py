"""Unix sockets: by default for the node's owner alone, a socket file with mode 0600 in a private directory (R-B5).

The kernel says which user is at the other end. Other users are let in if the URL's mode and group allow it
(`unix:family.sock?mode=660&group=family`); the link proves keys. A process that dies looks like one that closes: both
end in `b""`, unless it left bytes unread. A cut frame and the missing goodbye of the link distinguish them.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import parse_qsl

import trio
from msgspec import Struct
from trio.socket import SocketType

from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.reasons import Reason
from router.transport.contract import (
    Buffer,
    ConnectFailed,
    Handler,
    InvalidUrl,
    ListenFailed,
    OnRefused,
    TaskStatus,
    after,
    unheard,
)
from router.transport.handshakes import prefix_of
from router.transport.limits import CONNECTIONS_MAX, HandshakeLimits
from router.transport.proxy_header import HEAD_BYTES, SIGNATURE, BadHeader, address_in, length_of
from router.transport.socket_file import (
    PATH_BYTES_MAX,
    AlreadyServed,
    KeptListener,
    NotASocket,
    SocketFile,
    access_in,
)
from router.transport.sockets import Acceptor, NotLetIn, close_after_last_byte, receive, send_whole, user_of, words
from router.transport.stream import DuplexStream
from router.transport.tcp import host_port

LOCAL = True  # only processes of this machine connect
BUFFER_BYTES = 1 << 20  # requested from the kernel for each direction; it may give less
BACKLOG = 1024  # connections the kernel holds for us before we accept them
BUSY_PAUSE_S = 0.01  # before trying again when the backlog is full
HEADER_S = HandshakeLimits().timeout_s  # how long the other end may take to say where its stream comes from


def check(url: str) -> None:
    """Raise `InvalidUrl` unless `listen` can use this."""
    unix_path(url)
    options(url)


def unix_path(url: str) -> Path:
    """Return the absolute path in `unix://path`, without options; `~` is the home directory, a relative path begins at
    the working directory."""
    rest = after("unix://", url).partition("?")[0]
    if not rest or rest.endswith("/") or "\0" in rest:
        raise InvalidUrl(f"{url!r} names no socket file; write unix:///absolute/path or unix://relative/path")
    try:
        path = Path(rest).expanduser()
        return path if path.is_absolute() else Path.cwd() / path
    except RuntimeError:
        raise InvalidUrl(f"the home directory in {url!r} is not known; write the path in full") from None
    except FileNotFoundError:
        raise InvalidUrl(
            f"the working directory, where {url!r} begins, has been removed; write the path in full"
        ) from None


class Doors(Struct, frozen=True):
    """The access rights of a socket: its mode and group, and whether its owner counts as the node's owner there.

    Other users are let in if the mode allows it; they are known only by the keys that they prove. `passed`: programs of
    the owner pass on streams there, and may say from where each comes (`router.transport.proxy_header`).
    """

    mode: int = 0o600
    group: int | None = None
    owner: bool = True
    passed: bool = False
    text: str = ""

    @property
    def admits_others(self) -> bool:
        return bool(self.mode & 0o066)


def options(url: str) -> Doors:
    """Return the options after the ? of `unix://path?mode=660&group=staff&owner=no&passed=yes`; raise `InvalidUrl` for
    an invalid one."""
    _, mark, text = url.partition("?")
    given = dict(parse_qsl(text, keep_blank_values=True))
    if unknown := sorted(set(given) - {"mode", "group", "owner", "passed"}):
        known = "there are mode, group, owner and passed"
        raise InvalidUrl(f"{unknown[0]!r} in {url!r} is no option of a Unix socket; {known}")
    try:
        mode, group = access_in(given)
    except ValueError as error:
        raise InvalidUrl(f"{url!r}: {error}") from None
    for name in ("owner", "passed"):
        if given.get(name, "yes") not in ("yes", "no"):
            raise InvalidUrl(f"{name} in {url!r} must be yes or no")
    return Doors(mode, group, given.get("owner") != "no", given.get("passed") == "yes", mark + text)


def _of_another(path: object, owner: int | None) -> str:
    remedy = "run the command as that user, for example by `sudo -u '#NUMBER'`"
    return f"{path} is served by another user (number {owner}); {remedy.replace('NUMBER', str(owner))}"


async def dial(url: str, key: SigningKey, expect: PublicKey | None, *, timeout_s: float) -> UnixStream:
    """Connect to the socket file; the link proves the other end's key, so `expect` is not used here."""
    try:
        path = unix_path(url)
        _check_length(path)
    except (InvalidUrl, ListenFailed) as error:
        raise ConnectFailed(Reason.CONNECT_FAILED, str(error)) from None
    try:
        raw = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    except OSError as error:
        raise ConnectFailed(Reason.CONNECT_FAILED, _why_unreachable(path, error)) from None
    try:
        with trio.fail_after(timeout_s):
            await _connect(raw, path)
        owner = user_of(raw)
        if not _is_owner(owner):
            raise ConnectFailed(Reason.CONNECT_FAILED, _of_another(path, owner))
        return UnixStream(_ready(raw), f"unix {path}")
    except OSError as error:
        raw.close()
        raise ConnectFailed(Reason.CONNECT_FAILED, _why_unreachable(path, error)) from None
    except trio.TooSlowError:
        raw.close()
        text = f"the node at {path} did not accept within {timeout_s:g} s; it is too busy or hangs"
        raise ConnectFailed(Reason.CONNECT_TIMEOUT, text) from None
    except BaseException:
        raw.close()
        raise


async def _connect(raw: socket.socket, path: Path) -> None:
    raw.setblocking(False)
    while True:
        try:
            raw.connect(os.fsencode(path))
        except BlockingIOError:  # the backlog is full; a Unix socket cannot wait for that
            await trio.sleep(BUSY_PAUSE_S)
        else:
            return await trio.lowlevel.checkpoint()


def _ready(raw: socket.socket) -> SocketType:
    raw.setblocking(False)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    return trio.socket.from_stdlib_socket(raw)


def _why_unreachable(path: Path, error: OSError) -> str:
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ECONNREFUSED):
        return f"no node is listening on {path}; start one with `router serve`"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"this user may not use {path}; run as the user who runs the node"
    return f"{path} cannot be reached: {words(error)}"


async def listen(
    url: str,
    key: SigningKey,
    handler: Handler,
    *,
    task_status: TaskStatus = trio.TASK_STATUS_IGNORED,
    on_refused: OnRefused = unheard,
    connections_max: int = CONNECTIONS_MAX,
) -> None:
    """Accept connections on the socket file until cancelled, then remove it. Raises `ListenFailed`."""
    try:
        path, doors = unix_path(url), options(url)
    except InvalidUrl as error:
        raise ListenFailed(str(error)) from None
    where = f"unix {path}"

    async def admit(sock: SocketType, where: str) -> UnixStream:
        user = user_of(sock)
        if not _is_owner(user) and not doors.admits_others:
            raise NotLetIn(f"user number {user} is not the owner of this node")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        host, port = await _passed_from(sock) if doors.passed and _is_owner(user) else ("", 0)
        where = f"tcp {host_port(host, port)}" if host else where
        return UnixStream(sock, where, owner=doors.owner and _is_owner(user), ip=host)

    file = SocketFile(path, doors.mode, doors.group, BACKLOG, is_private=True)
    listener = KeptListener(await _open(file))
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(file.keep, listener.replace)
            task_status.started(f"unix://{path}{doors.text}")
            await Acceptor(admit, handler, on_refused, connections_max).run(listener, lambda _address: where)
    finally:
        listener.close()
        file.remove()


async def _passed_from(sock: SocketType) -> tuple[str, int]:
    """Return host and port that a stream comes from, as its first bytes say; ("", 0) if they do not. Raises
    `NotLetIn`."""
    try:
        with trio.fail_after(HEADER_S):
            if await sock.recv(1, socket.MSG_PEEK) != SIGNATURE[:1]:
                return "", 0
            head = await _exactly(sock, HEAD_BYTES)
            return address_in(head, await _exactly(sock, length_of(head)))
    except (BadHeader, OSError, trio.TooSlowError) as error:
        raise NotLetIn(f"it does not say from where it comes: {error}") from None


async def _exactly(sock: SocketType, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := await sock.recv(size - len(data))):
        data += more
    return data


def _is_owner(user: int | None) -> bool:
    return user in (None, 0, os.geteuid())


async def _open(file: SocketFile) -> socket.socket:
    """Return a socket that listens at the file. Raises `ListenFailed`."""
    path = file.path
    _check_length(path)
    try:
        return await file.open()
    except AlreadyServed:
        raise ListenFailed(f"another node is listening on {path}; stop it first, or choose another path") from None
    except NotASocket:
        raise ListenFailed(f"{path} exists and is not a socket; choose another path, or remove it yourself") from None
    except OSError as error:
        raise ListenFailed(f"cannot listen on {path}: {words(error)}; choose a directory of your own") from None


def _check_length(path: Path) -> None:
    size = len(os.fsencode(path))
    if size > PATH_BYTES_MAX:
        text = f"the socket path {path} has {size} bytes and may have {PATH_BYTES_MAX}; choose a shorter one"
        raise ListenFailed(text)


class UnixStream(DuplexStream):
    """A connection over a Unix socket. See `router.transport.Stream`."""

    __slots__ = ("_socket",)

    def __init__(self, sock: SocketType, where: str, *, owner: bool = True, ip: str = "") -> None:
        super().__init__(where, owner=owner, place=prefix_of(ip) if ip else "", ip=ip)
        self._socket = sock

    async def _receive(self, max_bytes: int) -> bytes:
        return await receive(self._socket, max_bytes)

    async def _send(self, parts: Sequence[Buffer]) -> None:
        await send_whole(self._socket, parts)

    async def _finish(self) -> None:
        close_after_last_byte(self._socket)

    def _abandon(self) -> None:
        self._socket.close()
