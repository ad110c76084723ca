"""A multicast door: datagrams to and from everybody at the interfaces that the rules choose, IPv4 and IPv6.

    multicast://239.255.85.80,[ff12::5550:5359]:4100

Each interface and family is a place with two sockets: one that receives the group's datagrams, and one with any port
that sends and receives those sent to it alone. A place that fails is opened again after a while, and disturbs no other.
Datagrams go no farther than the link (ttl and hop limit 1).
"""

from __future__ import annotations

import logging
import re
import socket
import struct
import sys
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from ipaddress import IPv4Address, IPv6Address, ip_address

import trio

from router.service.clock import steady_s
from router.service.contract import Came
from router.service.interfaces import interfaces
from router.service.roles.discovery import EVERYBODY, Interface, Interfaces
from router.transport.network_changes import Announced
from router.transport.sockets import words
from router.transport.whole_times import next_whole_s

SCHEME = "multicast"
READ_BYTES_MAX = 2048
BATCH_MAX = 256
PAUSE_S = 0.01
"""Seconds between two reads of a place; the kernel keeps some hundred datagrams meanwhile, and drops the rest of a
flood."""
WATCH_S = 1.0
"""Seconds between two looks at the interfaces after a change, and always where the system announces none."""
CALM_S = 15.0
"""Seconds between two looks without an announcement: of a gateway's link-layer address there is none."""
CHANGED_S = 30.0
"""Seconds after a change for which it is looked often: the gateway may become known only then."""
AGAIN_S = 2.0
_URL = re.compile(r"multicast://(?P<four>[0-9.]+),\[(?P<six>[0-9A-Fa-f:]+)\]:(?P<port>[0-9]{1,5})")
_IS_LINUX = sys.platform == "linux"
_IP_MULTICAST_ALL, _IPV6_MULTICAST_ALL = 49, 29  # Linux's numbers: hear only what this very socket has joined

log = logging.getLogger(__name__)

Heard = Callable[[Came], Awaitable[None]]
Admits = Callable[[Came, float], bool]


class DoorGroups:
    """The groups of a door, and their port."""

    def __init__(self, url: str) -> None:
        found = _URL.fullmatch(url)
        if found is None:
            raise ValueError("it names no groups; write multicast://239.0.0.1,[ff12::1]:4100")
        self.four, self.six = IPv4Address(found["four"]), IPv6Address(found["six"])
        self.port = int(found["port"])
        if not (self.four.is_multicast and self.six.is_multicast and 0 < self.port < 1 << 16):
            raise ValueError("its addresses are not multicast groups, or its port is none")


class _Place:
    """The door at one interface in one family. It is left when `scope` is cancelled."""

    def __init__(self, groups: DoorGroups, index: int, family: socket.AddressFamily) -> None:
        self.index = index
        self.scope = trio.CancelScope()
        self._groups = groups
        self._family = family
        self._held = ExitStack()
        self._own: socket.socket | None = None

    def __str__(self) -> str:
        return f"interface {self.index}, {'IPv4' if self._family is socket.AF_INET else 'IPv6'}"

    def open(self) -> tuple[socket.socket, socket.socket]:
        """Open and return the group's socket and the own one. Raises `OSError`."""
        heard, own = (self._held.enter_context(socket.socket(self._family, socket.SOCK_DGRAM)) for _ in range(2))
        heard.setblocking(False)
        own.setblocking(False)
        heard.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # two nodes on one machine
        if not _IS_LINUX and hasattr(socket, "SO_REUSEPORT"):
            heard.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if self._family is socket.AF_INET:
            self._open_four(heard, own)
        else:
            self._open_six(heard, own)
        self._own = own
        return heard, own

    def close(self) -> None:
        """Close both sockets; it can be opened again."""
        self._own = None
        self._held.close()

    def _open_four(self, heard: socket.socket, own: socket.socket) -> None:
        group, level = self._groups.four, socket.IPPROTO_IP
        heard.bind((str(group), self._groups.port))
        heard.setsockopt(level, socket.IP_ADD_MEMBERSHIP, struct.pack("=4s4si", group.packed, bytes(4), self.index))
        if _IS_LINUX:
            heard.setsockopt(level, _IP_MULTICAST_ALL, 0)
        own.bind(("", 0))
        own.setsockopt(level, socket.IP_MULTICAST_IF, struct.pack("=4s4si", bytes(4), bytes(4), self.index))
        own.setsockopt(level, socket.IP_MULTICAST_TTL, 1)

    def _open_six(self, heard: socket.socket, own: socket.socket) -> None:
        group, level = self._groups.six, socket.IPPROTO_IPV6
        heard.setsockopt(level, socket.IPV6_V6ONLY, 1)
        heard.bind((str(group), self._groups.port, 0, self.index))
        heard.setsockopt(level, socket.IPV6_JOIN_GROUP, struct.pack("=16sI", group.packed, self.index))
        if _IS_LINUX:
            heard.setsockopt(level, _IPV6_MULTICAST_ALL, 0)
        own.setsockopt(level, socket.IPV6_V6ONLY, 1)
        own.bind(("::", 0))
        own.setsockopt(level, socket.IPV6_MULTICAST_IF, self.index)
        own.setsockopt(level, socket.IPV6_MULTICAST_HOPS, 1)

    def send(self, data: bytes, host: str, port: int = 0) -> None:
        """Send a datagram now; if that is not possible it is lost, as it may be anywhere on its way."""
        if self._own is None:
            return
        is_four = self._family is socket.AF_INET
        if host == EVERYBODY:
            host, port = str(self._groups.four if is_four else self._groups.six), self._groups.port
        with suppress(OSError):
            self._own.sendto(data, (host, port) if is_four else (host, port, 0, self.index))


class MulticastDoor:
    """One multicast door. `heard` returns when the rules have handled a datagram; `admits` judges each before that;
    `changed` gets the present interfaces."""

    def __init__(
        self,
        name: str,
        url: str,
        heard: Heard,
        admits: Admits,
        changed: Callable[[Interfaces], None],
    ) -> None:
        self._name = name
        self._groups = DoorGroups(url)
        self._heard = heard
        self._admits = admits
        self._changed = changed
        self._places: dict[tuple[int, socket.AddressFamily], _Place] = {}
        self._at_end: dict[str, bytes] = {}
        self._gateways: dict[str, bytes] = {}
        self._found: tuple[Interface, ...] | None = None
        self._nursery: trio.Nursery

    def __repr__(self) -> str:
        return f"<multicast door {self._name} at {len({index for index, _ in self._places})} interfaces>"

    async def run(self) -> None:
        """Watch the interfaces, and use those named by `attend`, until cancelled."""
        async with trio.open_nursery() as self._nursery:
            await self._watch()

    async def _watch(self) -> None:
        """Look at the interfaces: often after a change, or if the system announces none; else now and then."""
        announced, changed_s = Announced(), trio.current_time()
        try:
            while True:
                now_s = trio.current_time()
                if self._look():
                    changed_s = now_s
                await trio.sleep_until(next_whole_s(WATCH_S))
                is_calm = announced.is_told and now_s - changed_s >= CHANGED_S
                if is_calm and await announced.wait(CALM_S):
                    changed_s = trio.current_time()
        finally:
            announced.close()

    def _look(self) -> bool:
        """Tell the rules of the interfaces if they have changed; return whether they have, or cannot be read now."""
        try:
            found = interfaces(self._gateways)
        except OSError as error:  # for want of descriptors, which others may give back
            log.info("%s: the interfaces cannot be read: %s; it is tried again", self, words(error))
            return True
        self._gateways = {one.gateway_place: one.gateway for one in found if one.gateway}
        if found == self._found:
            return False
        self._found = found
        self._changed(Interfaces(self._name, found))
        return True

    # -- places --------------------------------------------------------------------------------------------

    def attend(self, indexes: tuple[int, ...]) -> None:
        """Use exactly these interfaces; later writes go out there."""
        for key in [key for key in self._places if key[0] not in indexes]:
            self._places.pop(key).scope.cancel()
        for index in indexes:
            for family in (socket.AF_INET, socket.AF_INET6):
                if (index, family) not in self._places:
                    place = self._places[index, family] = _Place(self._groups, index, family)
                    self._nursery.start_soon(self._be_at, place, self._open(place))

    def _open(self, place: _Place) -> tuple[socket.socket, socket.socket] | None:
        try:
            return place.open()
        except OSError as error:
            place.close()
            log.info("%s: not at %s: %s; it is tried again", self, place, words(error))
            return None

    async def _be_at(self, place: _Place, opened: tuple[socket.socket, socket.socket] | None) -> None:
        """Receive datagrams at a place until it is left; write the last words there if the door closes instead."""
        with place.scope:
            try:
                while True:
                    if opened is not None:
                        await self._hear_both(place, *opened)
                        place.close()
                    await trio.sleep(AGAIN_S)
                    opened = self._open(place)
            finally:
                if not place.scope.cancel_called and (last := self._at_end.get(f"{EVERYBODY}%{place.index}")):
                    place.send(last, EVERYBODY)
                place.close()

    async def _hear_both(self, place: _Place, heard: socket.socket, own: socket.socket) -> None:
        """Receive datagrams until an error of one of the sockets."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._hear, place, heard, True)
                nursery.start_soon(self._hear, place, own, False)
        except* OSError as errors:
            said = words(next(one for one in errors.exceptions if isinstance(one, OSError)))
            log.info("%s: failed at %s: %s; it is tried again", self, place, said)

    async def _hear(self, place: _Place, sock: socket.socket, to_group: bool) -> None:
        while True:
            await trio.lowlevel.wait_readable(sock)
            for _ in range(BATCH_MAX):
                try:
                    data, address = sock.recvfrom(READ_BYTES_MAX)
                except BlockingIOError:
                    break
                host = address[0].partition("%")[0]
                came = Came(self._name, f"{host}%{place.index}:{address[1]}", data, to_group)
                if self._admits(came, steady_s()):
                    await self._heard(came)
            await trio.sleep(PAUSE_S)

    # -- writing -------------------------------------------------------------------------------------------

    def write(self, peer: str, data: bytes) -> None:
        """Send a datagram to `192.0.2.7%3:4100`, or to everybody at an interface: `*%3`."""
        host, _, rest = peer.rpartition("%")
        index, _, port = rest.partition(":")
        if host == EVERYBODY:
            families = [socket.AF_INET, socket.AF_INET6]
        else:
            families = [socket.AF_INET if ip_address(host).version == 4 else socket.AF_INET6]
        for family in families:
            if place := self._places.get((int(index), family)):
                place.send(data, host, int(port or 0))

    def write_at_end(self, peer: str, data: bytes) -> None:
        """Write this when the door closes; a later one for the same peer replaces it."""
        self._at_end[peer] = data
