"""Stream sockets: whole writes of shared buffers, and accepting for ever within limits."""

from __future__ import annotations

import errno
import ipaddress
import math
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import trio
from trio.socket import SocketType

from router.transport.contract import Buffer, ConnectFailed, Handler, ListenFailed, OnRefused, Stream, StreamBroken
from router.transport.pace import Pace

PARTS_MAX = 1024  # buffers per system call (IOV_MAX)
ACCEPT_PAUSE_S = 0.1  # wait this long when the process or the system is out of sockets
DISCARD_READS_MAX = 64  # of DISCARD_BYTES: what is read and thrown away before a close
DISCARD_BYTES = 1 << 16
PREFIX_BITS = {4: 24, 6: 56}  # addresses that agree in so many bits count as one neighbour

_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_GONE = {errno.EBADF, errno.EINVAL, errno.ENOTSOCK, errno.EOPNOTSUPP}


def words(error: BaseException) -> str:
    """What an error of the operating system says, in lower case as part of a sentence."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text[:1].lower() + text[1:]


async def send_whole(sock: SocketType, parts: Sequence[Buffer]) -> None:
    """Send all these buffers without joining them. Raises `StreamBroken`."""
    try:
        if len(parts) <= PARTS_MAX:
            return await _send_batch(sock, parts)
        for at in range(0, len(parts), PARTS_MAX):
            await _send_batch(sock, parts[at : at + PARTS_MAX])
    except (OSError, trio.ClosedResourceError) as error:
        raise StreamBroken(f"sending failed: {words(error)}") from None


async def _send_batch(sock: SocketType, parts: Sequence[Buffer]) -> None:
    left = sum(map(len, parts))
    while left:
        sent = await sock.sendmsg(parts)
        left -= sent
        if left:
            parts = _without(parts, sent)


def _without(parts: Sequence[Buffer], sent: int) -> list[Buffer]:
    """What of `parts` remains when the first `sent` bytes are gone."""
    for at, part in enumerate(parts):
        if sent < len(part):
            return [memoryview(part)[sent:], *parts[at + 1 :]]
        sent -= len(part)
    return []


async def receive(sock: SocketType, max_bytes: int) -> bytes:
    """What has arrived, `b""` at the end. Raises `StreamBroken`."""
    try:
        return await sock.recv(max_bytes)
    except (OSError, trio.ClosedResourceError) as error:
        raise StreamBroken(f"receiving failed: {words(error)}") from None


def close_after_last_byte(sock: SocketType) -> None:
    """Close so that the peer can still read what was sent.

    The kernel answers a close over unread bytes with a reset, which would overtake our last bytes.
    """
    with suppress(OSError, trio.ClosedResourceError):
        sock.shutdown(socket.SHUT_WR)
        for _ in range(DISCARD_READS_MAX):
            if not os.read(sock.fileno(), DISCARD_BYTES):
                break
    sock.close()


class Refused(Exception):
    """This connection is not let in; the text is for the log."""


Admit = Callable[[SocketType, str], Awaitable[Stream]]  # (socket, where); raises Refused or StreamBroken


class Acceptor:
    """Accepts connections for ever, each in a task of its own; at most `connections_max` are open at once.

    Of these at most half have not proven a key. For one more the oldest of these gives way; where there is none, the
    new one is closed at once. Both are reported. Out of file descriptors it waits and goes on.
    """

    def __init__(self, admit: Admit, handler: Handler, on_refused: OnRefused, connections_max: int) -> None:
        self._admit = admit
        self._handler = handler
        self._on_refused = on_refused
        self._connections_max = connections_max
        self._open = 0
        self._unproven: dict[trio.CancelScope, None] = {}  # in the order in which they came
        self._exhausted = False

    def __repr__(self) -> str:
        return f"<Acceptor with {self._open} of at most {self._connections_max} connections open>"

    async def run(self, listener: SocketType, name: Callable[[Any], str]) -> None:
        """Serve one listening socket. `name` says in words where an accepted address is."""
        async with trio.open_nursery() as nursery:
            while True:
                accepted = await self._accept(listener)
                if accepted is None:
                    continue
                sock, where = accepted[0], name(accepted[1])
                if not self._has_place():
                    sock.close()
                    self._on_refused(where, f"{self._open} connections are open, and no more are allowed")
                    continue
                self._open += 1
                nursery.start_soon(self._serve, sock, where)

    def _has_place(self) -> bool:
        """For one more; the oldest that has not proven a key gives way, if need be."""
        most = self._connections_max
        if self._open < most and len(self._unproven) < max(1, most // 2):
            return True
        if not self._unproven:
            return False
        oldest = next(iter(self._unproven))
        del self._unproven[oldest]
        oldest.cancel()
        return True

    async def _accept(self, listener: SocketType) -> tuple[SocketType, Any] | None:
        try:
            accepted = await listener.accept()
        except OSError as error:
            if error.errno in _GONE:
                raise ListenFailed(f"the listening socket is gone: {words(error)}") from None
            if error.errno in _EXHAUSTED:
                await self._pause(error)
            return None  # the others (aborted, unreachable, …) concern one connection only
        self._exhausted = False
        return accepted

    async def _pause(self, error: OSError) -> None:
        if not self._exhausted:  # say it once, not ten times a second
            self._exhausted = True
            text = f"cannot accept: {words(error)}; raise the limit of open files (ulimit -n)"
            self._on_refused("a new connection", text)
        await trio.sleep(ACCEPT_PAUSE_S)

    async def _serve(self, sock: SocketType, where: str) -> None:
        try:
            stream = await self._prove(sock, where)
            try:
                await self._handler(stream)
            finally:
                await stream.aclose()
        except* Refused as group:
            self._on_refused(where, "; ".join(str(error) for error in group.exceptions))
        except* (StreamBroken, ConnectFailed):
            pass  # the link has said what there was to say
        finally:
            sock.close()
            self._open -= 1

    async def _prove(self, sock: SocketType, where: str) -> Stream:
        with trio.CancelScope() as scope:
            self._unproven[scope] = None
            try:
                return await self._admit(sock, where)
            finally:
                self._unproven.pop(scope, None)
        raise Refused("it had not proven a key when another connection needed its place")


def prefix_of(address: str) -> str:
    """The /24 (IPv4) or /56 (IPv6) of an address, so that one neighbour with many addresses counts once."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    ip = getattr(ip, "ipv4_mapped", None) or ip
    return str(ipaddress.ip_network((ip, PREFIX_BITS[ip.version]), strict=False))


class Turns:
    """Lets one after another through: at most `per_s` a second (0: any number), after `burst` at once."""

    def __init__(self, per_s: float, burst: int) -> None:
        self._pace = Pace(per_s, burst / per_s if per_s else 0.0)
        self._first = trio.StrictFIFOLock()

    def __repr__(self) -> str:
        return f"<turns for which {self._first.statistics().tasks_waiting} wait>"

    async def turn(self) -> None:
        """Wait for one. Who gives up while others are before it takes none."""
        async with self._first:
            await trio.sleep(self._pace.wait_s(1, trio.current_time()))


class _Prefix:
    """The handshakes of one prefix: how many there are with those that wait, and when those under way began."""

    __slots__ = ("began_s", "count", "room", "turns")

    def __init__(self, most: int, per_s: float) -> None:
        self.room = trio.Semaphore(most)
        self.turns = Turns(per_s, most)
        self.count = 0
        self.began_s: dict[trio.CancelScope, float] = {}


@dataclass(frozen=True, slots=True)
class HandshakeLimits:
    """Handshakes under way at once from one address prefix; how many a second from one, and from all (0: any number);
    how long each may take, and how long while others of its prefix wait."""

    max_per_prefix: int = 64
    per_s_per_prefix: float = 20.0
    per_s: float = 100.0
    timeout_s: float = 10.0
    spared_s: float = 2.0


class Places:
    """At most `max_per_prefix` handshakes at once per address prefix; `WAITING` times as many may wait.

    While others wait, a handshake has only `spared_s`: who says nothing keeps nobody out for long. A handshake costs
    more than it brings, so those who come again and again have their turn now and then.
    """

    WAITING = 4
    BURST_S = 2.0
    PREFIXES_MAX = 10_000

    def __init__(self, limits: HandshakeLimits) -> None:
        self._limits = limits
        self._all = Turns(limits.per_s, math.ceil(limits.per_s * self.BURST_S))
        self._prefixes: dict[str, _Prefix] = {}  # those that came last at the end

    def __repr__(self) -> str:
        return f"<Places with {sum(one.count for one in self._prefixes.values())} handshakes>"

    @asynccontextmanager
    async def place(self, address: str) -> AsyncIterator[None]:
        """Hold a place for one handshake, waiting for it if need be. Raises `Refused`."""
        name, limits = prefix_of(address), self._limits
        prefix = self._prefix(name)
        if prefix.count >= limits.max_per_prefix * (1 + self.WAITING):
            raise Refused(f"{prefix.count} handshakes from {name} are already under way or waiting")
        prefix.count += 1
        scope = trio.CancelScope()
        try:
            await prefix.turns.turn()
            await self._all.turn()
            self._hurry(prefix)
            async with prefix.room:
                prefix.began_s[scope] = trio.current_time()
                self._hurry(prefix)
                with scope:
                    yield
        finally:
            prefix.began_s.pop(scope, None)
            prefix.count -= 1
        if scope.cancelled_caught:
            raise Refused(f"the handshake was not done after {limits.spared_s:g} s, and others from {name} waited")

    def _prefix(self, name: str) -> _Prefix:
        """It is remembered for its pace; of too many the one that came last longest ago is forgotten."""
        found = self._prefixes.pop(name, None) or _Prefix(self._limits.max_per_prefix, self._limits.per_s_per_prefix)
        self._prefixes[name] = found
        if len(self._prefixes) > self.PREFIXES_MAX:
            del self._prefixes[next(iter(self._prefixes))]
        return found

    def _hurry(self, prefix: _Prefix) -> None:
        """Where somebody waits, those under way have little time."""
        if prefix.count > self._limits.max_per_prefix:
            for scope, began_s in prefix.began_s.items():
                scope.deadline = began_s + self._limits.spared_s
