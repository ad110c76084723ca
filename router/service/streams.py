"""The streams at a service's doors: accepted, read and written without a task for each, since a task, its nursery and
its wakings cost more than what most clients of a DMQ node say over a connection.

A stream has a task only while something waits that it could not write at once, and once it was handed over.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from itertools import count

import trio

from router.service.contract import Came, Connect, ConnectionFailed, HandOver, Opened
from router.service.door_entrance import DoorEntrance
from router.service.door_places import STREAMS_MAX, USUAL, DoorBounds, StreamPlaces, address_of, source_of
from router.service.door_sharing import dial_from
from router.service.door_tls import carry
from router.service.handing_over import Dial, pass_on, unwrapped
from router.service.stream_reading import Reading, StreamReaders
from router.service.unreached import why_from
from router.service.unsent_bytes import UnsentBytes
from router.transport import tcp
from router.transport.contract import PORT_MAX, ConnectFailed
from router.transport.handshakes import prefix_of
from router.transport.reading_pauses import shared_pace
from router.transport.socket_file import SocketFile
from router.transport.sockets import RAISE_LIMIT, user_of, words
from router.transport.web_certificate import ServerCertificate

UNSENT_MAX = 256
UNSENT_BYTES_MAX = 8 << 20
"""Writes, and their bytes, that wait for one peer; a stream whose peer does not read is closed."""
UNREAD_BYTES_MAX = 256 << 10
"""Bytes that a peer may leave unread before nothing more is read of it."""
CONNECT_S = 10.0
"""Seconds that a stream opened for the rules may take to be connected."""
LINGER_S = 10.0
"""Seconds that a stream closed by the rules may take to send earlier writes."""
FORM = (
    "write udp://HOST:PORT, tcp://HOST:PORT?certificate=FILE&key=FILE, tcp://HOST:PORT or unix:PATH?mode=660&group=NAME"
)
Hear = Callable[..., None]
"""Lets the rules hear an event; calls what stands behind it when what follows from it was carried out."""
_Key = tuple[str, str]


class _Peer:
    """A stream at a door. `handed`: once it was handed over, the bytes that go first, and `through` what carries the
    link in it; `passing`: the scope of the task that then passes it on. `address`: that of its other end; `source`:
    what it has in common with others that come from there. `is_leaving`: it is passed on when all is written.

    `is_kept`: its other end says no more, and the rules still write to it, or what they wrote is being sent; `is_cut`:
    nothing more is sent. `is_failed`: the rules failed on it, and hear nothing more of it but its end. `carried`:
    chunks of it that are carried out, but were answered with more than the peer has read; `shaking`: the scope of its
    TLS handshake.

    `waiting`, `unsent`: what could not be written at once, and its bytes; `writing`: the scope of the task that writes
    it."""

    __slots__ = (
        "_awaited", "_socket", "address", "carried", "fd", "handed", "is_closed", "is_closing", "is_cut", "is_failed",
        "is_kept", "is_leaving", "passing", "reading", "shaking", "source", "through", "unsent", "waiting", "writing",
    )  # fmt: skip

    def __init__(self, own: socket.socket, address: str, source: str) -> None:
        self.fd = own.fileno()
        self.address = address
        self.source = source
        self.reading: Reading
        self.passing = trio.CancelScope()
        self.shaking = trio.CancelScope()
        self.is_failed = False
        self.carried: list[Callable[[], None]] = []
        self.handed: bytes | None = None
        self.through = ""
        self.waiting: deque[bytes] = deque()
        self.unsent = 0
        self.writing: trio.CancelScope | None = None
        self.is_closing = self.is_cut = self.is_kept = False
        self.is_leaving = False
        self.is_closed = False
        self._socket = own
        self._awaited: trio.SocketStream | None = None

    @property
    def stream(self) -> trio.SocketStream:
        """Return the stream in a form that tasks can wait for."""
        if self._awaited is None:
            self._awaited = trio.SocketStream(trio.socket.from_stdlib_socket(self._socket))
        return self._awaited

    def mark_handed(self, hand: HandOver) -> None:
        self.handed, self.through = hand.first, hand.through
        if hand.ip:
            self.address, self.source = tcp.host_port(hand.ip, 0), prefix_of(hand.ip)

    def keep(self, data: bytes) -> None:
        self.waiting.append(data)
        self.unsent += len(data)

    def sent_first(self) -> int:
        """Let go of the first that waited, which is sent; return its bytes, 0 if the peer was closed meanwhile."""
        sent = 0 if self.is_closed else len(self.waiting.popleft())
        self.unsent -= sent
        return sent

    def close(self) -> None:
        """Close it, and let go of what waits: who still refers to a closed peer holds no bytes."""
        self.is_closed = True
        self.waiting.clear()
        self.carried.clear()
        if self._awaited is not None:  # whoever waits for it is told so
            self._awaited.socket.close()
        self._socket.close()


class Streams:
    """The open streams of one service. `hear` lets the rules hear what has come; `dial` connects to the router as a
    guest; `warn` tells the operator. `patient`: the doors whose streams, from now on, are read together."""

    def __init__(self, hear: Hear, dial: Dial, warn: Callable[[str], None]) -> None:
        self._hear = hear
        self._dial = dial
        self._warn = warn
        self._numbers = count(1)
        self._peers: dict[_Key, _Peer] = {}
        self._handed: set[_Key] = set()
        self.patient: Collection[str] = ()
        self._entrances: dict[str, DoorEntrance] = {}
        self._connected: dict[str, StreamPlaces] = {}
        self._passed: dict[str, StreamPlaces] = {}
        self._certificates: dict[str, ServerCertificate] = {}
        self._unsent = UnsentBytes(self._warn_of)
        self.readers = StreamReaders()
        self._short_pieces, self._short_records = shared_pace(), shared_pace()
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
            await self.readers.run()
        finally:
            for entrance in self._entrances.values():
                entrance.close()
            for peer in self._peers.values():
                peer.close()
            self._peers.clear()

    def show_certificate(self, door: str, certificate: ServerCertificate) -> None:
        """Speak TLS with this certificate at a door."""
        self._certificates[door] = certificate

    def listen(self, door: str, own: socket.socket, file: SocketFile | None = None, bounds: DoorBounds = USUAL) -> None:
        """Accept connections at a listening socket, with its file (`DoorEntrance.listen`); the first sets bounds."""
        entrance = self._entrances.get(door)
        if entrance is None:
            entrance = self._entrances[door] = DoorEntrance(
                self.readers,
                self._nursery,
                partial(self._accepted, door),
                partial(self._lingering, door),
                partial(self.end, door),
                partial(self._warn_of, door),
                bounds,
            )
        entrance.listen(own, file)

    def _warn_of(self, door: str, text: str) -> None:
        self._warn(f'its door "{door}" {text}')

    def _lingering(self, door: str) -> str:
        """Return a stream of the door that the rules have closed and that still sends; "" if there is none."""
        places = self._entrances[door].places
        for (at, name), peer in self._peers.items():
            if at == door and name in places and peer.is_closing and (peer.is_kept or not peer.reading.has_ended):
                return name
        return ""

    def _accepted(self, door: str, own: socket.socket) -> None:
        address, source, shaking = address_of(own), source_of(own), trio.CancelScope()
        _tune(own)
        if (certificate := self._certificates.get(door)) is not None:
            encrypted = own
            try:
                own, outer = socket.socketpair()
            except OSError as error:
                encrypted.close()
                self._entrances[door].warn_of_want(f"has turned a stream away: {words(error)}; {RAISE_LIMIT}")
                return
            self._nursery.start_soon(carry, encrypted, outer, certificate, address, shaking, self._short_records)
        peer = _Peer(own, address, source)
        peer.shaking = shaking
        self._begin(door, own, peer, self._entrances[door].places)

    def _begin(
        self, door: str, own: socket.socket, peer: _Peer, places: StreamPlaces, tag: str = "", name: str = ""
    ) -> None:
        own.setblocking(False)
        name = name or str(next(self._numbers))
        key = door, name
        self._peers[key] = peer
        places.take(name, peer.source)
        peer.reading = Reading(
            self.readers.patient if door in self.patient else self.readers,
            peer.fd,
            lambda data, done: self._hear(Came(door, name, data), lambda: _carried_out(peer, done)),
            lambda: self._ended(key),
        )
        self._hear(Opened(door, name, peer.address, tag, None if door in self._certificates else user_of(own)))
        peer.reading.begin()

    def _ended(self, key: _Key) -> None:
        """Let the rules hear the end of a stream, and close it when that is carried out; or let the router have it."""
        peer = self._peers.get(key)
        if peer is None:
            return
        if peer.handed is not None:
            self._nursery.start_soon(self._pass_on, key, peer, peer.handed)
        else:
            self._hear(Came(*key, b""), lambda: self._finished(key, peer))

    def _finished(self, key: _Key, peer: _Peer) -> None:
        """Close a stream whose end the rules have heard, unless they keep it open; first send what waits for it."""
        if peer.is_kept and not peer.is_cut:
            return
        if peer.is_cut or not peer.waiting:
            self._gone(key)
            return
        peer.is_kept = True
        _close_behind(peer)

    def _cut(self, key: _Key, peer: _Peer) -> None:
        """End a stream now, whatever is not carried out or not sent."""
        peer.is_cut = True
        self._unsent.forget(*key)
        if peer.is_kept:
            self._gone(key)
        else:
            peer.reading.cut()

    def _gone(self, key: _Key) -> None:
        self._handed.discard(key)
        self._unsent.forget(*key)
        if (peer := self._peers.pop(key, None)) is not None:
            peer.close()
            peer.shaking.cancel()
        door, name = key
        for places in (self._entrances.get(door), self._connected.get(door), self._passed.get(door)):
            if places is not None:
                places.free(name)

    def end(self, door: str, name: str) -> None:
        """End a stream now, whatever is not carried out; do nothing if it has gone, or was handed over."""
        peer = self._peers.get((door, name))
        if peer is not None and peer.handed is None:
            peer.is_failed = True
            self._cut((door, name), peer)

    def is_of_failed(self, heard: object) -> bool:
        """Whether this came of a stream on which the rules have failed since."""
        if not isinstance(heard, Came) or not heard.data:
            return False
        peer = self._peers.get((heard.door, heard.peer))
        return peer is not None and peer.is_failed

    def talked(self, door: str, name: str) -> None:
        """Record that something followed from what a stream said, so that silent ones give way before it."""
        if door in self._entrances:
            self._entrances[door].places.talked(name)

    def keep_open(self, door: str, name: str) -> None:
        """Keep a stream open whose other end says no more, until the rules close it; do nothing if it has gone."""
        if (peer := self._peers.get((door, name))) is not None and peer.reading.has_ended:
            peer.is_kept = True

    def mark_known(self, door: str, name: str) -> None:
        """Let a stream keep its place until it ends."""
        if door in self._entrances:
            self._entrances[door].places.mark_known(name)
        if door in self._passed:
            self._passed[door].mark_known(name)

    # -- opened for the rules ------------------------------------------------------------------------------

    def connect(self, deed: Connect) -> None:
        """Open a stream for the rules."""
        self._nursery.start_soon(self._connect, deed)

    async def _connect(self, deed: Connect) -> None:
        places, name = self._connected.setdefault(deed.door, StreamPlaces()), str(next(self._numbers))
        try:
            if places.is_full:
                raise ValueError(f"{STREAMS_MAX} streams are open there, and no more may be")
            places.take(name, "")
            own = await _connected(deed.url, deed.source)
        except trio.TooSlowError:
            places.free(name)
            self._hear(ConnectionFailed(deed.door, deed.tag, f"nobody answered within {CONNECT_S:g} s"))
        except (OSError, ValueError) as error:
            places.free(name)
            said = why_from(error, deed.source) if isinstance(error, OSError) else str(error)
            self._hear(ConnectionFailed(deed.door, deed.tag, said))
        else:
            _tune(own)
            self._begin(deed.door, own, _Peer(own, address_of(own), ""), places, deed.tag, name)

    # -- writing -------------------------------------------------------------------------------------------

    def write(self, door: str, name: str, data: bytes) -> None:
        """Write to a peer; do nothing if it has gone. No data closes its stream when earlier writes are sent."""
        peer = self._peers.get((door, name))
        if peer is None or peer.is_cut:
            return
        if not data and peer.waiting and not peer.is_closing:
            _close_behind(peer)
        elif not data or peer.is_closing or peer.unsent + len(data) > UNSENT_BYTES_MAX:
            self._cut((door, name), peer)
        elif peer.waiting:
            if len(peer.waiting) == UNSENT_MAX:
                self._cut((door, name), peer)
            else:
                self._keep_unsent(door, name, peer, data)
        elif rest := data[_written_now(peer.fd, data) :]:
            peer.writing = trio.CancelScope()
            self._nursery.start_soon(self._write_out, (door, name), peer, peer.writing)
            self._keep_unsent(door, name, peer, rest)

    def _keep_unsent(self, door: str, name: str, peer: _Peer, data: bytes) -> None:
        """Let bytes wait for a peer. If too many wait at its door, close the stream for which most do."""
        peer.keep(data)
        self._unsent.change(door, name, len(data))
        if leaver := self._unsent.first_to_go(door):
            self._cut((door, leaver), self._peers[door, leaver])

    async def _write_out(self, key: _Key, peer: _Peer, scope: trio.CancelScope) -> None:
        """Write what waits for a peer; the task lasts no longer than that."""
        is_cut = True
        with scope, suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while peer.waiting and not peer.is_closed:
                await peer.stream.send_all(peer.waiting[0])
                if sent := peer.sent_first():
                    self._unsent.change(*key, -sent)
                _go_on_reading(peer)
            is_cut = peer.is_closing
        if is_cut:
            self._cut(key, peer)
        elif peer.is_leaving:
            peer.reading.stop()

    # -- handing over --------------------------------------------------------------------------------------

    def decide(self, hand: HandOver) -> None:
        """Keep from the rules what comes of a stream that they hand over, also what was read already."""
        peer = self._peers.get((hand.door, hand.peer))
        if peer is not None and peer.handed is None:
            peer.mark_handed(hand)
            peer.reading.pause()
            self._unsent.forget(hand.door, hand.peer)
            self._handed.add((hand.door, hand.peer))

    def is_handed(self, heard: object) -> bool:
        """Whether this came of a stream that the rules have handed over; if so, it is kept for the router."""
        if not self._handed or not isinstance(heard, Came) or (heard.door, heard.peer) not in self._handed:
            return False
        peer = self._peers[heard.door, heard.peer]
        peer.handed = (peer.handed or b"") + heard.data
        return True

    def hand(self, door: str, name: str) -> None:
        """Pass the bytes of that stream to the router as soon as earlier writes are sent, and the router's to it."""
        peer = self._peers.get((door, name))
        if peer is not None and peer.waiting:
            peer.is_leaving = True
        elif peer is not None:
            peer.reading.stop()

    def _take_passed(self, key: _Key, peer: _Peer) -> bool:
        """Give a stream that is handed over a place among those, in place of the first that has to go if they are many;
        return whether it has one."""
        door, name = key
        places = self._passed.setdefault(door, StreamPlaces())
        if places.is_full:
            if (found := places.first_to_go()) is None:
                return False
            places.free(found.name)
            self._peers[door, found.name].passing.cancel()
        places.take(name, peer.source)
        if door in self._entrances:
            if self._entrances[door].places.is_known(name):
                places.mark_known(name)
            self._entrances[door].free(name)
        return True

    async def _pass_on(self, key: _Key, peer: _Peer, first: bytes) -> None:
        try:
            if not self._take_passed(key, peer):
                self._warn_of(key[0], f"hands over no more streams: {STREAMS_MAX} known ones are handed over, the most")
                return
            with peer.passing:
                stream, first = unwrapped(peer.stream, peer.through, peer.address, first)
                answered = partial(self._passed[key[0]].talked, key[1])
                await pass_on(await self._dial(), stream, peer.address, first, self._short_pieces, answered)
        except ConnectFailed as error:
            self._warn_of(key[0], f"has handed over a stream that the router did not take: {error}")
        finally:
            self._gone(key)


def _carried_out(peer: _Peer, done: Callable[[], None]) -> None:
    """Let the next chunk be read, or later, when the peer has read what it was answered."""
    peer.carried.append(done)
    _go_on_reading(peer)


def _close_behind(peer: _Peer) -> None:
    """Close a stream when what waits is sent, which must not take long."""
    peer.is_closing = True
    assert peer.writing is not None
    peer.writing.deadline = trio.current_time() + LINGER_S


def _go_on_reading(peer: _Peer) -> None:
    if peer.unsent <= UNREAD_BYTES_MAX or peer.is_closing:
        carried, peer.carried = peer.carried, []
        for done in carried:
            done()


def _tune(own: socket.socket) -> None:
    if own.family != socket.AF_UNIX:
        with suppress(OSError):  # it is broken already, and its first read says so
            own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


async def _connected(url: str, source: str) -> socket.socket:
    host, port = host_port(url.removeprefix("tcp:"))
    with trio.fail_after(CONNECT_S):
        if source:
            return own_socket(await dial_from(host_port(source), host, port))
        return own_socket((await trio.open_tcp_stream(host, port)).socket)


def own_socket(other: trio.socket.SocketType) -> socket.socket:
    """Return the socket as one that trio does not know; the other one is closed."""
    try:
        return socket.socket(fileno=os.dup(other.fileno()))
    finally:
        other.close()


def host_port(rest: str) -> tuple[str, int]:
    """Return host and port of an address; raise `ValueError`."""
    host, colon, port = rest.removeprefix("//").rpartition(":")
    if not colon or not port.isdecimal():
        raise ValueError(f"it lacks host or port; {FORM}")
    if int(port) > PORT_MAX:
        raise ValueError(f"its port is above {PORT_MAX}; {FORM}")
    return host.strip("[]"), int(port)


def _written_now(fd: int, data: bytes) -> int:
    """Write as much as the socket takes at once, and return how much that was: no task has to wake for it."""
    try:
        return os.write(fd, data)
    except OSError:  # it is full, or broken, which the next write or read finds out
        return 0
