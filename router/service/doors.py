"""Doors of a service's own: UDP and TCP sockets, and Unix sockets that other users may use.

    udp://127.0.0.1:4444      tcp://127.0.0.1:4445      unix:board.sock?mode=660&group=staff    (relative to the home)
    multicast://239.0.0.1,[ff12::1]:4100      (see `router.service.multicast`)

Of a stream two chunks may be heard before what follows from the first is carried out, of a datagram's door one: a fast
peer waits, and nothing is dropped but datagrams, by the kernel. An empty URL leaves a door closed.
"""

from __future__ import annotations

import errno
import grp
import os
import socket
import stat
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from urllib.parse import parse_qsl

import trio

from router.core.wire.errors import RouterError
from router.service.contract import Came, Connect, Hand, Interfaces, Opened, Unconnected
from router.service.multicast import SCHEME as MULTICAST
from router.service.multicast import Admits, MulticastDoor
from router.service.stream_reading import READ_BYTES_MAX, Readers, Reading
from router.transport.contract import Stream, StreamBroken
from router.transport.sockets import words

STREAMS_MAX = 256
"""Most streams open at one door; further ones are closed at once."""
UNIX_PATH_BYTES_MAX = 107
UNSENT_MAX = 256
UNSENT_BYTES_MAX = 8 << 20
"""Writes, and their bytes, that wait for one peer; a stream whose peer does not read is closed."""
CONNECT_S = 10.0
"""Seconds that a stream opened for the rules may take to be connected."""
LINGER_S = 10.0
"""Seconds that a stream closed by the rules may take to send earlier writes."""
FORM = "write udp://HOST:PORT, tcp://HOST:PORT or unix:PATH?mode=660&group=NAME"


def admit_all(came: Came, mono_s: float) -> bool:
    """Admit every datagram to the rules."""
    return True


class DoorError(RouterError):
    """A door cannot be opened; the text says why and what to do."""


@dataclass(eq=False, slots=True)
class _Peer:
    """A stream at a door. `handed`: once it was handed over, the bytes that go first.

    `waiting`, `unsent`: what could not be written at once, and its bytes."""

    stream: trio.SocketStream
    nursery: trio.Nursery
    source: Reading
    reading: trio.CancelScope = field(default_factory=trio.CancelScope)
    handed: bytes | None = None
    waiting: deque[bytes] = field(default_factory=deque)
    unsent: int = 0
    is_closing: bool = False


class Doors:
    """The open doors of one service. `came` returns when what follows from it was carried out; `hear` lets the rules
    hear what has come, and which interfaces there are, and calls what it is given with that when that is done; `dial`
    connects to the router as a guest."""

    def __init__(
        self, came: Callable[[Came], Awaitable[None]], hear: Callable[..., None],
        dial: Callable[[], Awaitable[Stream]], home: Path,
    ) -> None:  # fmt: skip
        self._came = came
        self._changed: Callable[[Interfaces | Opened | Unconnected], None] = hear
        self._hear: Callable[[Came, Callable[[], None]], None] = hear
        self._multicast: dict[str, MulticastDoor] = {}
        self._dial = dial
        self._home = home
        self._numbers = count(1)
        self._datagrams: dict[str, trio.socket.SocketType] = {}
        self._addresses: dict[tuple[str, str], tuple[object, ...]] = {}
        self._peers: dict[tuple[str, str], _Peer] = {}
        self._handed: set[tuple[str, str]] = set()
        self._readers = Readers()
        self._nursery: trio.Nursery

    def __repr__(self) -> str:
        return f"<doors: {len(self._datagrams)} for datagrams, {len(self._peers)} streams open>"

    async def open(self, nursery: trio.Nursery, doors: Mapping[str, str], admits: Admits = admit_all) -> None:
        """Open each door; raises `DoorError` for the first that cannot be opened. `admits` judges datagrams of
        multicast doors."""
        self._nursery = nursery
        nursery.start_soon(self._readers.run)
        for door, url in doors.items():
            if not url:
                continue
            scheme, _, rest = url.partition(":")
            try:
                if scheme == MULTICAST:
                    one = self._multicast[door] = MulticastDoor(door, url, self._came, admits, self._changed)
                    nursery.start_soon(one.run)
                elif scheme == "udp":
                    await self._open_udp(door, *_host_port(rest))
                elif scheme == "tcp":
                    host, port = _host_port(rest)
                    listeners = await trio.open_tcp_listeners(port, host=host or None)
                    for listener in listeners:
                        nursery.start_soon(self._accept, door, listener)
                elif scheme == "unix":
                    nursery.start_soon(self._accept, door, _unix_listener(self._home, rest), _path(self._home, rest))
                else:
                    raise DoorError(f"no door is opened by {url}; {FORM}")
            except (OSError, ValueError) as error:
                said = words(error) if isinstance(error, OSError) else str(error)
                remedy = "name another place"
                if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
                    remedy = f"another program listens there: stop it, or {remedy}"
                raise DoorError(f'its door "{door}" cannot be opened at {url}: {said}; {remedy}') from None

    # -- datagrams -----------------------------------------------------------------------------------------

    async def _open_udp(self, door: str, host: str, port: int) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = self._datagrams[door] = trio.socket.socket(family, socket.SOCK_DGRAM)
        await sock.bind((host, port))
        self._nursery.start_soon(self._hear_datagrams, door, sock)

    async def _hear_datagrams(self, door: str, sock: trio.socket.SocketType) -> None:
        with sock:
            while True:
                data, address = await sock.recvfrom(READ_BYTES_MAX)
                peer = f"{address[0]}:{address[1]}"
                self._addresses[door, peer] = address
                if len(self._addresses) > STREAMS_MAX:
                    del self._addresses[next(iter(self._addresses))]
                await self._came(Came(door, peer, data))

    async def _send_datagram(self, sock: trio.socket.SocketType, data: bytes, address: tuple[object, ...]) -> None:
        with suppress(OSError):  # a datagram may be lost anywhere on its way, so here too
            await sock.sendto(data, address)

    def attend(self, door: str, interfaces: tuple[int, ...]) -> None:
        """Use a multicast door at these interfaces."""
        if door in self._multicast:
            self._multicast[door].attend(interfaces)

    def write_at_end(self, door: str, peer: str, data: bytes) -> None:
        """Write this to a peer of a multicast door when the door closes."""
        if door in self._multicast:
            self._multicast[door].write_at_end(peer, data)

    # -- streams -------------------------------------------------------------------------------------------

    async def _accept(self, door: str, listener: trio.SocketListener, path: Path | None = None) -> None:
        try:
            async with listener:
                while True:
                    stream = await listener.accept()
                    if len(self._peers) >= STREAMS_MAX:
                        await stream.aclose()
                    else:
                        self._nursery.start_soon(self._serve, door, stream)
        finally:
            if path is not None:
                path.unlink(missing_ok=True)

    def connect(self, deed: Connect) -> None:
        """Open a stream for the rules."""
        self._nursery.start_soon(self._connect, deed)

    async def _connect(self, deed: Connect) -> None:
        try:
            if len(self._peers) >= STREAMS_MAX:
                raise ValueError(f"{STREAMS_MAX} streams are open, and no more may be")
            host, port = _host_port(deed.url.removeprefix("tcp:"))
            with trio.fail_after(CONNECT_S):
                stream = await trio.open_tcp_stream(host, port)
        except trio.TooSlowError:
            self._changed(Unconnected(deed.door, deed.tag, f"nobody answered within {CONNECT_S:g} s"))
        except (OSError, ValueError) as error:
            said = _cause(error) if isinstance(error, OSError) else str(error)
            self._changed(Unconnected(deed.door, deed.tag, said))
        else:
            await self._serve(deed.door, stream, deed.tag)

    async def _serve(self, door: str, stream: trio.SocketStream, tag: str = "") -> None:
        name = str(next(self._numbers))
        try:
            async with stream, trio.open_nursery() as nursery:
                peer = self._peers[door, name] = _Peer(stream, nursery, self._reading(door, name, stream))
                self._changed(Opened(door, name, _address_of(stream), tag))
                with peer.reading:
                    await peer.source.until_end()
                if peer.handed is not None:
                    await self._pass_on(stream, peer.handed)
                else:
                    await self._came(Came(door, name, b""))
                nursery.cancel_scope.cancel()
        finally:
            self._peers.pop((door, name), None)
            self._handed.discard((door, name))

    def _reading(self, door: str, name: str, stream: trio.SocketStream) -> Reading:
        """Return what lets the rules hear what comes from a peer."""
        hear = self._hear
        return Reading(self._readers, stream.socket.fileno(), lambda data, done: hear(Came(door, name, data), done))

    async def _write_out(self, peer: _Peer) -> None:
        """Write what waits for a peer; the task lasts no longer than that."""
        try:
            while peer.waiting:
                await peer.stream.send_all(peer.waiting[0])
                peer.unsent -= len(peer.waiting.popleft())
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            peer.reading.cancel()
        if peer.is_closing:
            peer.reading.cancel()

    def write(self, door: str, peer: str, data: bytes) -> None:
        """Write to a peer; do nothing if it has gone."""
        if door in self._multicast:
            self._multicast[door].write(peer, data)
            return
        address = self._addresses.get((door, peer))
        if door in self._datagrams:
            if address is not None:
                self._nursery.start_soon(self._send_datagram, self._datagrams[door], data, address)
            return
        found = self._peers.get((door, peer))
        if found is None:
            return
        if not data and found.waiting and not found.is_closing:
            found.is_closing = True
            found.reading.deadline = trio.current_time() + LINGER_S
        elif not data or found.is_closing or found.unsent + len(data) > UNSENT_BYTES_MAX:
            found.reading.cancel()
        elif not found.waiting:
            if rest := data[_written_now(found.stream, data) :]:
                found.waiting.append(rest)
                found.unsent += len(rest)
                found.nursery.start_soon(self._write_out, found)
        elif len(found.waiting) < UNSENT_MAX:
            found.waiting.append(data)
            found.unsent += len(data)
        else:
            found.reading.cancel()

    # -- handing over --------------------------------------------------------------------------------------

    def decide(self, hand: Hand) -> None:
        """Keep from the rules what comes of a stream that they hand over, also what was read already."""
        found = self._peers.get((hand.door, hand.peer))
        if found is not None and found.handed is None:
            found.handed = hand.first
            found.source.pause()
            self._handed.add((hand.door, hand.peer))

    def is_handed(self, heard: object) -> bool:
        """Whether this came of a stream that the rules have handed over; if so, it is kept for the router."""
        if not self._handed or not isinstance(heard, Came) or (heard.door, heard.peer) not in self._handed:
            return False
        peer = self._peers[heard.door, heard.peer]
        peer.handed = (peer.handed or b"") + heard.data
        return True

    def hand(self, door: str, peer: str) -> None:
        """Pass the bytes of that stream to the router from now on, and the router's to it."""
        found = self._peers.get((door, peer))
        if found is not None:
            found.source.stop()

    async def _pass_on(self, stream: trio.SocketStream, first: bytes) -> None:
        link = await self._dial()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_pump_out, link, stream, nursery)
                if first:
                    await link.send_all(first)
                while data := await stream.receive_some(READ_BYTES_MAX):
                    await link.send_all(data)
                nursery.cancel_scope.cancel()
        except* (StreamBroken, trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the link has ended, and its router has logged why
        finally:
            with trio.move_on_after(1, shield=True):
                await link.aclose()


async def _pump_out(link: Stream, stream: trio.SocketStream, nursery: trio.Nursery) -> None:
    while data := await link.receive_some(READ_BYTES_MAX):
        await stream.send_all(data)
    nursery.cancel_scope.cancel()


def _written_now(stream: trio.SocketStream, data: bytes) -> int:
    """Write as much as the socket takes at once, and return how much that was: no task has to wake for it."""
    try:
        return os.write(stream.socket.fileno(), data)
    except OSError:  # it is full, or broken, which the next write or read finds out
        return 0


def _address_of(stream: trio.SocketStream) -> str:
    """Return HOST:PORT of a stream's other end; "" at a Unix socket, and if it is gone already."""
    try:
        found = stream.socket.getpeername()
    except OSError:
        return ""
    if isinstance(found, str | bytes):
        return ""
    host, port = found[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _cause(error: OSError) -> str:
    """Return why no stream could be opened: trio raises one error for all addresses of a name."""
    causes = error.__cause__
    first = causes.exceptions[0] if isinstance(causes, BaseExceptionGroup) else causes
    found = first if isinstance(first, OSError) else error
    number = found.errno or 0  # of a name that is not found it is negative, and no errno
    return words(OSError(number, os.strerror(number)) if number > 0 else found)


def _host_port(rest: str) -> tuple[str, int]:
    host, colon, port = rest.removeprefix("//").rpartition(":")
    if not colon or not port.isdecimal():
        raise ValueError(f"it lacks host or port; {FORM}")
    return host.strip("[]"), int(port)


def _path(home: Path, rest: str) -> Path:
    return home / rest.removeprefix("//").partition("?")[0]


def _unix_listener(home: Path, rest: str) -> trio.SocketListener:
    """Return a listening socket file with the mode and group in the URL; 0600 without."""
    path, options = _path(home, rest), dict(parse_qsl(rest.partition("?")[2]))
    if (size := len(os.fsencode(path))) > UNIX_PATH_BYTES_MAX:
        raise ValueError(f"the path {path} has {size} bytes, and a socket's may have {UNIX_PATH_BYTES_MAX}")
    if unknown := set(options) - {"mode", "group"}:
        raise ValueError(f"it has the unknown option {min(unknown)}; {FORM}")
    mode = int(options.get("mode", "660" if "group" in options else "600"), 8)
    with suppress(FileNotFoundError):
        if stat.S_ISSOCK(path.lstat().st_mode) and not _is_alive(path):
            path.unlink()
    raw = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        os.fchmod(raw.fileno(), 0o600)
        raw.bind(os.fsencode(path))
        if "group" in options:
            os.chown(path, -1, _group(options["group"]))
        path.chmod(mode)
        raw.listen(128)
    except BaseException:
        raw.close()
        raise
    return trio.SocketListener(trio.socket.from_stdlib_socket(raw))


def _group(name: str) -> int:
    try:
        return int(name) if name.isdecimal() else grp.getgrnam(name).gr_gid
    except KeyError:
        raise ValueError(f'there is no group "{name}" on this machine') from None


def _is_alive(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(os.fsencode(path))
        except ConnectionRefusedError:
            return False
    return True
