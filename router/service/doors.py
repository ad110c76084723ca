"""Doors of a service's own: UDP and TCP sockets, and Unix sockets that other users may use.

    udp://127.0.0.1:4444      tcp://127.0.0.1:4445      unix:board.sock?mode=660&group=staff    (relative to the home)
    tcp://0.0.0.0:443?certificate=chain.pem&key=key.pem      (TLS; files relative to the home)
    tcp://0.0.0.0:3141?shared=yes      (streams may be dialled from there; see `router.service.door_sharing`)
    multicast://239.0.0.1,[ff12::1]:4100      (see `router.service.multicast`)

Of a stream two chunks may be heard before what follows from the first is carried out, of a datagram's door one: a fast
peer waits, and nothing is dropped but datagrams, by the kernel. An empty URL leaves a door closed.
"""

from __future__ import annotations

import errno
import os
import socket
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qsl

import trio

from router.core.wire.errors import RouterError
from router.service.contract import Came, Connect, HandOver
from router.service.door_places import USUAL
from router.service.door_sharing import SHARED, SHARED_BOUNDS, share
from router.service.handing_over import Dial
from router.service.multicast import SCHEME as MULTICAST
from router.service.multicast import Admits, MulticastDoor
from router.service.roles.discovery import Interfaces
from router.service.stream_reading import READ_BYTES_MAX
from router.service.streams import FORM, Streams, host_port, own_socket
from router.transport.contract import ListenFailed
from router.transport.socket_file import PATH_BYTES_MAX, SocketFile, access_in
from router.transport.sockets import words
from router.transport.web_certificate import ServerCertificate

BACKLOG = 128
"""Connections that the kernel holds at a Unix door before they are accepted."""
SENDERS_MAX = 256
"""Most senders of datagrams at one door whom rules can answer: those of the latest datagrams."""
_REMEDIES = {
    errno.EADDRINUSE: "another program listens there: stop it",
    errno.EADDRNOTAVAIL: "that address is none of this machine: 0.0.0.0, or [::] for IPv6, stands for all that it has",
    errno.EEXIST: "that file is no socket: move it away",
}


def admit_all(came: Came, mono_s: float) -> bool:
    """Admit every datagram to the rules."""
    return True


class DoorError(RouterError):
    """A door cannot be opened; the text says why and what to do."""


def door_urls(found: object) -> dict[str, str]:
    """Return what the method `doors` of rules returned: URLs by name. Raises `DoorError` if it is anything else."""
    if not isinstance(found, Mapping):
        raise DoorError(f"its doors() returned {type(found).__name__}; return a dict of names and URLs, {{}} for none")
    for door, url in found.items():
        if not isinstance(door, str) or not isinstance(url, str):
            kinds = f"{type(door).__name__} with {type(url).__name__}"
            raise DoorError(f"its doors() returned a dict with a {kinds}; give each door a name and a URL, as text")
    return dict(found)


class Doors:
    """The open doors of one service. `came` returns when what follows from it was carried out; `hear` lets the rules
    hear what has come, and which interfaces there are, and calls what it is given with that when that is done; `dial`
    connects to the router as a guest; `warn` tells the operator."""

    def __init__(
        self,
        came: Callable[[Came], Awaitable[None]],
        hear: Callable[..., None],
        dial: Dial,
        home: Path,
        warn: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._came = came
        self._changed: Callable[[Interfaces], None] = hear
        self._multicast: dict[str, MulticastDoor] = {}
        self._home = home
        self._datagrams: dict[str, trio.socket.SocketType] = {}
        self._senders: dict[str, OrderedDict[str, tuple[object, ...]]] = {}
        self._streams = Streams(hear, dial, warn)
        self._nursery: trio.Nursery

    def __repr__(self) -> str:
        return f"<doors: {len(self._datagrams)} for datagrams, {len(self._streams)} streams open>"

    async def open(
        self,
        nursery: trio.Nursery,
        doors: Mapping[str, str],
        admits: Admits = admit_all,
        patient: Collection[str] = (),
    ) -> None:
        """Open each door; raises `DoorError` for the first that cannot be opened. `admits` judges datagrams of
        multicast doors; `patient`: the doors whose streams may be read together."""
        self._nursery = nursery
        self._streams.patient = patient
        self._streams.start(nursery)
        for door, url in doors.items():
            if not url:
                continue
            scheme, _, rest = url.partition(":")
            try:
                if scheme == MULTICAST:
                    one = self._multicast[door] = MulticastDoor(door, url, self._came, admits, self._changed)
                    nursery.start_soon(one.run)
                elif scheme == "udp":
                    await self._open_udp(door, *host_port(rest))
                elif scheme == "tcp":
                    await self._open_tcp(door, rest)
                elif scheme == "unix":
                    file = socket_file(self._home, rest)
                    self._streams.listen(door, await file.open(), file)
                else:
                    raise DoorError(f"no door is opened by {url}; {FORM}")
            except ListenFailed as error:
                raise DoorError(f'its door "{door}" cannot be opened: {error}') from None
            except (OSError, ValueError) as error:
                said = words(error) if isinstance(error, OSError) else str(error)
                remedy = "name another place"
                if isinstance(error, OSError) and error.errno in _REMEDIES:
                    remedy = f"{_REMEDIES[error.errno]}, or {remedy}"
                place = url.removesuffix(f"?{SHARED}")  # an operator has not written that
                raise DoorError(f'its door "{door}" cannot be opened at {place}: {said}; {remedy}') from None

    async def _open_tcp(self, door: str, rest: str) -> None:
        place, _, options = rest.partition("?")
        host, port = host_port(place)
        is_shared = options == SHARED
        if options and not is_shared:
            self._streams.show_certificate(door, door_certificate(self._home, options))
        for listener in await trio.open_tcp_listeners(port, host=host or None):
            own = own_socket(listener.socket)
            if is_shared:
                share(own)
            self._streams.listen(door, own, bounds=SHARED_BOUNDS if is_shared else USUAL)

    # -- datagrams -----------------------------------------------------------------------------------------

    async def _open_udp(self, door: str, host: str, port: int) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._senders[door] = OrderedDict()
        sock = self._datagrams[door] = trio.socket.socket(family, socket.SOCK_DGRAM)
        await sock.bind((host, port))
        self._nursery.start_soon(self._hear_datagrams, door, sock)

    async def _hear_datagrams(self, door: str, sock: trio.socket.SocketType) -> None:
        senders = self._senders[door]
        with sock:
            while True:
                data, address = await sock.recvfrom(READ_BYTES_MAX)
                peer = f"{address[0]}:{address[1]}"
                senders[peer] = address
                senders.move_to_end(peer)
                if len(senders) > SENDERS_MAX:
                    senders.popitem(last=False)
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

    def connect(self, deed: Connect) -> None:
        """Open a stream for the rules."""
        self._streams.connect(deed)

    def write(self, door: str, peer: str, data: bytes) -> None:
        """Write to a peer; do nothing if it has gone."""
        if door in self._multicast:
            self._multicast[door].write(peer, data)
        elif door in self._datagrams:
            if (address := self._senders[door].get(peer)) is not None:
                self._nursery.start_soon(self._send_datagram, self._datagrams[door], data, address)
        else:
            self._streams.write(door, peer, data)

    def hold(self, for_s: Callable[[], float]) -> None:
        """Read nothing at patient doors for so long, unless they wait already, or nobody is there."""
        if len(self._streams.readers.patient):
            self._streams.readers.hold(for_s())

    def read_patient(self) -> None:
        """Read what has come at patient doors, if they have waited as long as they were to."""
        self._streams.readers.read_patient()

    def end(self, door: str, peer: str) -> None:
        """End a stream now; do nothing to whoever sends datagrams."""
        self._streams.end(door, peer)

    def talked(self, door: str, peer: str) -> None:
        """Record that something followed from what came over a stream."""
        self._streams.talked(door, peer)

    def mark_known(self, door: str, peer: str) -> None:
        """Let a stream keep its place until it ends, also when its door is full."""
        self._streams.mark_known(door, peer)

    def keep_open(self, door: str, peer: str) -> None:
        """Keep a stream open whose other end says no more, until it is closed by an empty write."""
        self._streams.keep_open(door, peer)

    def decide(self, hand: HandOver) -> None:
        """Keep from the rules what comes of a stream that they hand over, also what was read already."""
        self._streams.decide(hand)

    def is_handed(self, heard: object) -> bool:
        """Whether this came of a stream that the rules have handed over; if so, it is kept for the router."""
        return self._streams.is_handed(heard)

    def is_of_failed(self, heard: object) -> bool:
        """Whether this came of a stream on which the rules have failed since."""
        return self._streams.is_of_failed(heard)

    def hand(self, door: str, peer: str) -> None:
        """Pass the bytes of that stream to the router from now on, and the router's to it."""
        self._streams.hand(door, peer)


def door_certificate(home: Path, options: str) -> ServerCertificate:
    """Return the certificate of a TCP door, whose files may be named from the home on. Raises `ValueError`,
    `ListenFailed`."""
    given = dict(parse_qsl(options, keep_blank_values=True))
    if set(given) != {"certificate", "key"} or not all(given.values()):
        raise ValueError(f"over TLS it has the options certificate and key, and no others; {FORM}")
    return ServerCertificate(home / given["certificate"], home / given["key"])


def socket_file(home: Path, rest: str) -> SocketFile:
    """Return the file of a Unix door: its path, which may begin in the home, with the mode and group in the URL; 0600
    without. Raise `ValueError`."""
    path = home / rest.removeprefix("//").partition("?")[0]
    options = dict(parse_qsl(rest.partition("?")[2]))
    if (size := len(os.fsencode(path))) > PATH_BYTES_MAX:
        raise ValueError(f"the path {path} has {size} bytes, and a socket's may have {PATH_BYTES_MAX}")
    if unknown := set(options) - {"mode", "group"}:
        raise ValueError(f"it has the unknown option {min(unknown)}; {FORM}")
    return SocketFile(path, *access_in(options), BACKLOG, is_private=False)
