"""The streams at a service's doors: accepted, read and written without a task for each, since a task, its nursery and
its wakings cost more than what most clients of a DMQ node say over a connection.

A stream has a task only while something waits that it could not write at once, and once it was handed over.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count

import trio

from router.service.contract import Came, Connect, ConnectionFailed, HandOver, Opened
from router.service.stream_reading import READ_BYTES_MAX, Reading, StreamReaders
from router.transport import tcp
from router.transport.contract import Stream, StreamBroken
from router.transport.socket_file import SocketFile, waiting_at
from router.transport.sockets import ACCEPT_PAUSE_S, EXHAUSTED, RAISE_LIMIT, user_of, words

STREAMS_MAX = 256
"""Most streams open at the doors of a service; further ones are closed at once."""
ACCEPTS_MAX = 16
"""Most connections that are accepted at a door before other streams are read."""
UNSENT_MAX = 256
UNSENT_BYTES_MAX = 8 << 20
"""Writes, and their bytes, that wait for one peer; a stream whose peer does not read is closed."""
CONNECT_S = 10.0
"""Seconds that a stream opened for the rules may take to be connected."""
LINGER_S = 10.0
"""Seconds that a stream closed by the rules may take to send earlier writes."""
FORM = "write udp://HOST:PORT, tcp://HOST:PORT or unix:PATH?mode=660&group=NAME"
_GONE = frozenset((
    errno.EPERM, errno.ECONNABORTED, errno.EPROTO, errno.ENETDOWN, errno.ENOPROTOOPT, errno.EHOSTDOWN, errno.ENONET,
    errno.EHOSTUNREACH, errno.EOPNOTSUPP, errno.ENETUNREACH, errno.ETIMEDOUT, errno.ECONNRESET,
))  # fmt: skip
"""Errors of accept(2) that concern one connection, which has gone."""
Hear = Callable[..., None]
"""Lets the rules hear an event; calls what stands behind it when what follows from it was carried out."""
_Key = tuple[str, str]

log = logging.getLogger(__name__)


class _Peer:
    """A stream at a door. `handed`: once it was handed over, the bytes that go first.

    `waiting`, `unsent`: what could not be written at once, and its bytes; `writing`: the scope of the task that writes
    it."""

    __slots__ = (
        "_awaited", "_socket", "fd", "handed", "is_closed", "is_closing", "source", "unsent", "waiting", "writing",
    )  # fmt: skip

    def __init__(self, own: socket.socket) -> None:
        self.fd = own.fileno()
        self.source: Reading
        self.handed: bytes | None = None
        self.waiting: deque[bytes] = deque()
        self.unsent = 0
        self.writing: trio.CancelScope | None = None
        self.is_closing = False
        self.is_closed = False
        self._socket = own
        self._awaited: trio.SocketStream | None = None

    @property
    def stream(self) -> trio.SocketStream:
        """Return the stream in a form that tasks can wait for."""
        if self._awaited is None:
            self._awaited = trio.SocketStream(trio.socket.from_stdlib_socket(self._socket))
        return self._awaited

    def close(self) -> None:
        self.is_closed = True
        if self._awaited is not None:  # whoever waits for it is told so
            self._awaited.socket.close()
        self._socket.close()


class Streams:
    """The open streams of one service. `hear` lets the rules hear what has come; `dial` connects to the router as a
    guest."""

    def __init__(self, hear: Hear, dial: Callable[[], Awaitable[Stream]]) -> None:
        self._hear = hear
        self._dial = dial
        self._numbers = count(1)
        self._peers: dict[_Key, _Peer] = {}
        self._handed: set[_Key] = set()
        self._doors: dict[int, tuple[socket.socket, SocketFile | None]] = {}
        self._readers = StreamReaders()
        self._is_exhausted = self._is_full = False
        self._nursery: trio.Nursery

    def __repr__(self) -> str:
        return f"<{len(self._peers)} streams open>"

    def __len__(self) -> int:
        return len(self._peers)

    def start(self, nursery: trio.Nursery) -> None:
        """Accept and read until the nursery ends, which also holds the tasks of streams; then close all."""
        self._nursery = nursery
        nursery.start_soon(self._run)

    async def _run(self) -> None:
        try:
            await self._readers.run()
        finally:
            for own, file in self._doors.values():
                own.close()
                if file is not None:
                    file.remove()
            for peer in self._peers.values():
                peer.close()
            self._peers.clear()

    def listen(self, door: str, own: socket.socket, file: SocketFile | None = None) -> None:
        """Accept connections at a listening socket; `file`: its file, which is made again if it is lost, and goes with
        it."""
        number = next(self._numbers)
        self._watch(number, door, own, file)
        if file is not None:
            self._nursery.start_soon(file.keep, lambda fresh: self._replace(number, door, fresh, file))

    def _watch(self, number: int, door: str, own: socket.socket, file: SocketFile | None) -> None:
        own.setblocking(False)
        self._doors[number] = own, file
        self._readers.watch(own.fileno(), lambda _: self._accept(number, door))

    def _replace(self, number: int, door: str, fresh: socket.socket, file: SocketFile) -> None:
        """Accept at another socket, after those that have connected to the one before."""
        before, _ = self._doors[number]
        self._readers.unwatch(before.fileno())
        for stream in waiting_at(before):
            self._admit(door, stream)
        before.close()
        self._watch(number, door, fresh, file)

    async def _pause(self, number: int, door: str, error: OSError) -> None:
        """Accept no more at a door for a moment, while the process or the system is out of sockets."""
        own, _ = self._doors[number]
        self._readers.unwatch(own.fileno())
        if not self._is_exhausted:  # said once, not ten times a second
            self._is_exhausted = True
            log.warning("nobody can connect at the door %s: %s; %s", door, words(error), RAISE_LIMIT)
        await trio.sleep(ACCEPT_PAUSE_S)
        own, file = self._doors[number]
        self._readers.unwatch(own.fileno())
        self._watch(number, door, own, file)

    def _accept(self, number: int, door: str) -> None:
        own, _ = self._doors[number]
        for _ in range(ACCEPTS_MAX):
            try:
                stream, _ = own.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _GONE:
                    continue
                if error.errno in EXHAUSTED:
                    self._nursery.start_soon(self._pause, number, door, error)
                    return
                raise
            self._is_exhausted = False
            self._admit(door, stream)

    def _admit(self, door: str, stream: socket.socket) -> None:
        """Begin a stream, in the place of one that lingers if there are too many; else close it, and say so."""
        if len(self._peers) < STREAMS_MAX or self._cut_lingering():
            self._is_full = self._is_full and len(self._peers) > STREAMS_MAX // 2
            return self._begin(door, stream)
        stream.close()
        if not self._is_full:
            self._is_full = True
            log.warning("%d streams are open at the doors of a service, and further ones are closed", STREAMS_MAX)

    def _cut_lingering(self) -> bool:
        """Cut a stream that the rules have closed and that still sends; return whether there was one."""
        for peer in self._peers.values():
            if peer.is_closing and not peer.source.has_ended:
                peer.source.cut()
                return True
        return False

    def _begin(self, door: str, own: socket.socket, tag: str = "") -> None:
        own.setblocking(False)
        if own.family != socket.AF_UNIX:
            own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        name = str(next(self._numbers))
        key = door, name
        peer = self._peers[key] = _Peer(own)
        hear = self._hear
        peer.source = Reading(
            self._readers, peer.fd, lambda data, done: hear(Came(door, name, data), done), lambda: self._ended(key)
        )
        hear(Opened(door, name, _address_of(own), tag, user_of(own)))
        peer.source.begin()

    def _ended(self, key: _Key) -> None:
        """Let the rules hear the end of a stream, and close it when that is carried out; or let the router have it."""
        peer = self._peers.get(key)
        if peer is None:
            return
        if peer.handed is not None:
            self._nursery.start_soon(self._pass_on, key, peer, peer.handed)
        else:
            self._hear(Came(*key, b""), lambda: self._gone(key))

    def _gone(self, key: _Key) -> None:
        self._handed.discard(key)
        if (peer := self._peers.pop(key, None)) is not None:
            peer.close()

    # -- opened for the rules ------------------------------------------------------------------------------

    def connect(self, deed: Connect) -> None:
        """Open a stream for the rules."""
        self._nursery.start_soon(self._connect, deed)

    async def _connect(self, deed: Connect) -> None:
        try:
            if len(self._peers) >= STREAMS_MAX:
                raise ValueError(f"{STREAMS_MAX} streams are open, and no more may be")
            host, port = host_port(deed.url.removeprefix("tcp:"))
            with trio.fail_after(CONNECT_S):
                stream = await trio.open_tcp_stream(host, port)
        except trio.TooSlowError:
            self._hear(ConnectionFailed(deed.door, deed.tag, f"nobody answered within {CONNECT_S:g} s"))
        except (OSError, ValueError) as error:
            said = tcp.why(error) if isinstance(error, OSError) else str(error)
            self._hear(ConnectionFailed(deed.door, deed.tag, said))
        else:
            self._begin(deed.door, own_socket(stream.socket), deed.tag)

    # -- writing -------------------------------------------------------------------------------------------

    def write(self, door: str, name: str, data: bytes) -> None:
        """Write to a peer; do nothing if it has gone. No data closes its stream when earlier writes are sent."""
        peer = self._peers.get((door, name))
        if peer is None:
            return
        if not data and peer.waiting and not peer.is_closing:
            peer.is_closing = True
            assert peer.writing is not None
            peer.writing.deadline = trio.current_time() + LINGER_S
        elif not data or peer.is_closing or peer.unsent + len(data) > UNSENT_BYTES_MAX:
            peer.source.cut()
        elif peer.waiting:
            if len(peer.waiting) == UNSENT_MAX:
                peer.source.cut()
            else:
                peer.waiting.append(data)
                peer.unsent += len(data)
        elif rest := data[_written_now(peer.fd, data) :]:
            peer.waiting.append(rest)
            peer.unsent += len(rest)
            peer.writing = trio.CancelScope()
            self._nursery.start_soon(self._write_out, peer, peer.writing)

    async def _write_out(self, peer: _Peer, scope: trio.CancelScope) -> None:
        """Write what waits for a peer; the task lasts no longer than that."""
        is_cut = True
        with scope, suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while peer.waiting and not peer.is_closed:
                await peer.stream.send_all(peer.waiting[0])
                peer.unsent -= len(peer.waiting.popleft())
            is_cut = peer.is_closing
        if is_cut:
            peer.source.cut()

    # -- handing over --------------------------------------------------------------------------------------

    def decide(self, hand: HandOver) -> None:
        """Keep from the rules what comes of a stream that they hand over, also what was read already."""
        peer = self._peers.get((hand.door, hand.peer))
        if peer is not None and peer.handed is None:
            peer.handed = hand.first
            peer.source.pause()
            self._handed.add((hand.door, hand.peer))

    def is_handed(self, heard: object) -> bool:
        """Whether this came of a stream that the rules have handed over; if so, it is kept for the router."""
        if not self._handed or not isinstance(heard, Came) or (heard.door, heard.peer) not in self._handed:
            return False
        peer = self._peers[heard.door, heard.peer]
        peer.handed = (peer.handed or b"") + heard.data
        return True

    def hand(self, door: str, name: str) -> None:
        """Pass the bytes of that stream to the router from now on, and the router's to it."""
        peer = self._peers.get((door, name))
        if peer is not None:
            peer.source.stop()

    async def _pass_on(self, key: _Key, peer: _Peer, first: bytes) -> None:
        try:
            link = await self._dial()
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_pump_out, link, peer.stream, nursery)
                    if first:
                        await link.send_all(first)
                    while data := await peer.stream.receive_some(READ_BYTES_MAX):
                        await link.send_all(data)
                    nursery.cancel_scope.cancel()
            except* (StreamBroken, trio.BrokenResourceError, trio.ClosedResourceError):
                pass  # the link has ended, and its router has logged why
            finally:
                with trio.move_on_after(1, shield=True):
                    await link.aclose()
        finally:
            self._gone(key)


async def _pump_out(link: Stream, stream: trio.SocketStream, nursery: trio.Nursery) -> None:
    while data := await link.receive_some(READ_BYTES_MAX):
        await stream.send_all(data)
    nursery.cancel_scope.cancel()


def own_socket(other: trio.socket.SocketType) -> socket.socket:
    """Return the socket as one that trio does not know; the other one is closed."""
    own = socket.socket(fileno=os.dup(other.fileno()))
    other.close()
    return own


def host_port(rest: str) -> tuple[str, int]:
    """Return host and port of an address; raise `ValueError`."""
    host, colon, port = rest.removeprefix("//").rpartition(":")
    if not colon or not port.isdecimal():
        raise ValueError(f"it lacks host or port; {FORM}")
    return host.strip("[]"), int(port)


def _written_now(fd: int, data: bytes) -> int:
    """Write as much as the socket takes at once, and return how much that was: no task has to wake for it."""
    try:
        return os.write(fd, data)
    except OSError:  # it is full, or broken, which the next write or read finds out
        return 0


def _address_of(own: socket.socket) -> str:
    """Return HOST:PORT of a stream's other end; "" at a Unix socket, and if it is gone already."""
    if own.family == socket.AF_UNIX:
        return ""
    try:
        host, port = own.getpeername()[:2]
    except OSError:
        return ""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
