"""Gather facts about ports, addresses and the LAN, such as which key answers at a URL, in bounded time."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

import trio

from router.core.wire.address import TransportAddress
from router.core.wire.crypto import SigningKey
from router.doctor.finding import AdvertisedAddress, DialResult, InterfaceCheck
from router.transport import contract as transport
from router.transport.contract import ConnectFailed, ListenFailed, Stream
from router.transport.sockets import words

DIAL_S = 5.0
RESOLVE_S = 5.0
ECHO_S = 1.0
GROUP = "239.255.85.80"
"""The multicast group of the LAN's datagrams (R-D17)."""
_UP, _LOOPBACK, _POINT_TO_POINT, _MULTICAST = 0x1, 0x8, 0x10, 0x1000


async def why_not_free(url: str, key: SigningKey) -> str:
    """Return why nobody can listen at a URL now, found by trying; "" if it is possible."""
    why = ""
    try:
        with trio.move_on_after(DIAL_S):
            async with trio.open_nursery() as nursery:
                await nursery.start(transport.load(transport.scheme_of(url)).listen, url, key, _hang_up)
                nursery.cancel_scope.cancel()
    except* ListenFailed as failed:
        why = str(failed.exceptions[0])
    return why


async def _hang_up(stream: Stream) -> None:
    await stream.aclose()


async def dial(url: str) -> DialResult:
    """Dial with a throwaway key, and return which key answered, or why none did."""
    began = trio.current_time()
    try:
        stream = await transport.dial(transport.seen_here(url), SigningKey(os.urandom(32)), None, timeout_s=DIAL_S)
    except ConnectFailed as error:
        return DialResult(url, why=error.text)
    except transport.InvalidUrl as error:
        return DialResult(url, why=str(error))
    took_s = trio.current_time() - began
    key = stream.peer.hex() if stream.peer is not None else ""
    with trio.move_on_after(ECHO_S):
        await stream.aclose()
    return DialResult(url, key, "", took_s)


async def probe_address(address: TransportAddress, *, dials: bool) -> AdvertisedAddress:
    """Return the IP addresses of an advertised address, and the key that answers when it is dialled."""
    ips: tuple[IPv4Address | IPv6Address, ...] = ()
    unresolved = "its name was not resolved in time"
    with trio.move_on_after(RESOLVE_S):
        ips, unresolved = await _resolved(str(address.host))
    found = await dial(address.url) if dials and ips else None
    return AdvertisedAddress(address, ips, unresolved, found)


async def _resolved(host: str) -> tuple[tuple[IPv4Address | IPv6Address, ...], str]:
    try:
        rows = await trio.socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        return (), f"the name {host} is not known ({words(error)})"
    return tuple(dict.fromkeys(ip_address(str(row[4][0]).partition("%")[0]) for row in rows)), ""


# -- the LAN ---------------------------------------------------------------------------------------------------------


def tunnel() -> str:
    """Return the interface of the IPv4 default route if it carries no multicast, as that of a VPN; else ""."""
    with suppress(OSError):
        for line in Path("/proc/net/route").read_text().splitlines()[1:]:
            name, destination, _, flags, *_ = line.split("\t")
            if destination == "00000000" and int(flags, 16) & _UP:
                return name if _flags(name) & _POINT_TO_POINT or not _flags(name) & _MULTICAST else ""
    return ""


def _flags(name: str) -> int:
    try:
        return int(Path(f"/sys/class/net/{name}/flags").read_text(), 16)
    except (OSError, ValueError):
        return 0


async def probe_interfaces() -> tuple[InterfaceCheck, ...]:
    """Return the interfaces that carry multicast, and whether a datagram sent to the LAN's group comes back on each."""
    found = list[InterfaceCheck]()
    async with trio.open_nursery() as nursery:
        for number, name in _lan_interfaces():
            nursery.start_soon(_echo, number, name, found)
    return tuple(sorted(found, key=lambda one: one.name))


def _lan_interfaces() -> Iterator[tuple[int, str]]:
    for number, name in socket.if_nameindex():
        flags = _flags(name)
        if flags & _UP and flags & _MULTICAST and not flags & (_LOOPBACK | _POINT_TO_POINT):
            yield number, name


async def _echo(number: int, name: str, found: list[InterfaceCheck]) -> None:
    """Send a datagram to the LAN's group on one interface, at a port of our own, and wait for it there."""
    why = "no datagram came back: a firewall on this machine may drop them"
    try:
        with trio.socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, trio.move_on_after(ECHO_S):
            await sock.bind(("", 0))
            joined = struct.pack("@4s4si", socket.inet_aton(GROUP), bytes(4), number)
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, joined)
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, struct.pack("@4s4si", b"", b"", number))
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 0)  # not onto the network: to this machine only
            text = os.urandom(16)
            await sock.sendto(text, (GROUP, sock.getsockname()[1]))
            while (await sock.recv(64)) != text:
                continue
            why = ""
    except OSError as error:
        why = words(error)
    found.append(InterfaceCheck(name, not why, why))


def is_on_loopback(urls: Sequence[str]) -> bool:
    """Whether what listens at these URLs is reached from its own machine only; False if nothing listens."""
    hosts = [transport.place_of(url)[0] for url in urls]
    return bool(hosts) and all(_is_loopback(host) for host in hosts)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def ports_of(urls: Sequence[str]) -> frozenset[int]:
    """Return the TCP ports in the URLs on which a node listens."""
    found = set[int]()
    for url in urls:
        with suppress(transport.InvalidUrl):
            found.add(transport.place_of(url)[1])
    return frozenset(found)
