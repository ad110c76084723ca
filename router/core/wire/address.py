"""Transport addresses: where a router can be reached (R-D3, R-D5, R-D12).

    [1 ip port] TLS over TCP      [3 name port] the same by DNS name      [4 url] WebSocket
    [5 [+ address]] up to eight of these, in the order in which to try them, not nested

An address of an unknown kind is ignored, and the item that contains it is kept. Reading checks the form only; whether
an address counts depends on its source: `refusal_of`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any

from msgspec import Struct

from . import shape
from .codec import Malformed
from .reasons import ADVERT_ADDRESS, Reason
from .text import BadText, clean

ADDRESSES_MAX = 8
ADDRESS_ITEMS_MAX = 64  # of a whole `addr`: 3 + 8 * 4 in the known kinds; the rest is for kinds of later versions
HOST_BYTES_MAX = 253
PORT_MAX = 65_535
TLS, WSS = "tls", "wss"

Ip = IPv4Address | IPv6Address


class IpAddress(Struct, frozen=True):
    """An IP address and port, for TLS over TCP. The zone of a link-local address (`fe80::1%eth0`) is not encoded."""

    ip: Ip
    port: int

    def __str__(self) -> str:
        return f"{self.ip}:{self.port}" if self.ip.version == 4 else f"[{self.ip}]:{self.port}"

    @property
    def host(self) -> Ip:
        return self.ip

    @property
    def url(self) -> str:
        return f"{TLS}://{self}"

    def encoded(self) -> list[Any]:
        return [1, self.ip.packed, self.port]


class NamedAddress(Struct, frozen=True):
    """A DNS name and port, for TLS over TCP. The address that the name resolves to is judged separately."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{TLS}://{self}"

    def encoded(self) -> list[Any]:
        return [3, self.host, self.port]


class WebSocketAddress(Struct, frozen=True):
    """The URL of a WebSocket, `wss://host/path`."""

    url: str

    def __str__(self) -> str:
        return self.url

    @property
    def host(self) -> Ip | str:
        return _host(_parts_of(self.url))

    @property
    def is_plain(self) -> bool:
        """Whether it is without TLS, so that others on the way can read what is not sealed."""
        return str(_parts_of(self.url)["scheme"]) != WSS

    def encoded(self) -> list[Any]:
        return [4, self.url]


TransportAddress = IpAddress | NamedAddress | WebSocketAddress


# -- in CBOR -----------------------------------------------------------------------------------------------


def encoded_addresses(addresses: Iterable[TransportAddress]) -> list[Any]:
    """Return the value of an `addr` field: a single address by itself, several as a list."""
    plain = [one.encoded() for one in addresses]
    if not 1 <= len(plain) <= ADDRESSES_MAX:
        raise ValueError(f"1 to {ADDRESSES_MAX} addresses are named, not {len(plain)}")
    read_addresses([5, plain], "an address of ours")
    return plain[0] if len(plain) == 1 else [5, plain]


def read_addresses(value: Any, name: str) -> tuple[TransportAddress, ...]:
    """Return the addresses of known kinds in an `addr` field, in their order; raise `Malformed` if it is no such
    field."""
    if type(value) is list and value[:1] == [5]:
        rows = shape.array(shape.array(value, name, 2, 2)[1], name, 1, ADDRESSES_MAX)
        found = [_read(row, name) for row in rows]
    else:
        found = [_read(value, name)]
    return tuple(one for one in found if one is not None)


def read_address(value: Any, name: str) -> TransportAddress:
    """Return the address that `value` encodes; raise `Malformed` unless it is a single one of a known kind."""
    found = _read(value, name)
    if found is None:
        raise Malformed(f"{name} is of a kind that is not known")
    return found


def _read(value: Any, name: str) -> TransportAddress | None:
    if type(value) is not list or not value:
        raise Malformed(f"{name} is not an address")
    match shape.uint(value[0], f"the kind of {name}"):
        case 1:
            _, ip, port = shape.array(value, name, 3, 3)
            return IpAddress(_ip(ip, name), _port(port, name))
        case 3:
            _, host, port = shape.array(value, name, 3, 3)
            return NamedAddress(_name(_text(host, name), name), _port(port, name))
        case 4:
            _, url = shape.array(value, name, 2, 2)
            return _web_socket(_text(url, name), name)
        case 5:
            raise Malformed(f"{name} is a list of addresses where one address stands")
        case _:
            return None


def _ip(value: Any, name: str) -> Ip:
    raw = shape.octets(value, name, 4, 16)
    if len(raw) not in (4, 16):
        raise Malformed(f"{name} has an IP address of {len(raw)} bytes instead of 4 or 16")
    return IPv4Address(raw) if len(raw) == 4 else IPv6Address(raw)


def _port(value: Any, name: str) -> int:
    if not (port := shape.uint(value, f"the port of {name}", PORT_MAX)):
        raise Malformed(f"the port of {name} is 0; ports go from 1 to {PORT_MAX}")
    return port


def _text(value: Any, name: str) -> str:
    if type(value) is not str or not 1 <= len(value.encode()) <= HOST_BYTES_MAX:
        raise Malformed(f"{name} is not a text of 1 to {HOST_BYTES_MAX} bytes")
    return value


# -- as text -----------------------------------------------------------------------------------------------

_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_NAME = re.compile(rf"(?:{_LABEL}\.)*(?![0-9]+\.?\Z|0[xX][0-9A-Fa-f]*\.?\Z){_LABEL}\.?")
_URL = re.compile(
    r"(?P<scheme>[a-z]+)://(?:\[(?P<six>[0-9A-Fa-f:.]{2,45}(?:%[\w.-]{1,32})?)\]|(?P<name>[\w.-]{1,253}))"
    r"(?::(?P<port>[1-9][0-9]{0,4}))?(?P<path>[/?][!-\"$-~]*)?",
    re.ASCII,
)
_USUAL_PORTS = {"ws": 80, WSS: 443}
_FORM = f"{TLS}://host:4101, {TLS}://[2001:db8::1]:4101 or {WSS}://host/path"


def parse_address(text: str) -> TransportAddress:
    """Return the address of a URL that can be advertised; else raise `BadText`."""
    try:
        parts = _parts_of(text)
        if parts["scheme"] != TLS:
            return _web_socket(_text(text, "it"), "it")
        if parts["port"] is None or parts["path"] is not None:
            raise Malformed("it needs a port, and nothing behind it")
        host, port = _host(parts), int(parts["port"])
        return NamedAddress(host, port) if isinstance(host, str) else IpAddress(host, port)
    except Malformed as error:
        said = f'"{clean(text, 100)}" is not an address for others: {error}'
        raise BadText(f"{said}. Write {_FORM}.") from None


def ip_address_of(url: str) -> IpAddress | None:
    """Return IP address and port of a URL to dial, None if it names none. Raises `BadText` if it leads to no other
    machine."""
    try:
        parts = _parts_of(url)
        host = _host(parts)
    except Malformed as error:
        raise BadText(f'"{clean(url, 100)}" is not an address for others: {error}.') from None
    port = int(parts["port"] or _USUAL_PORTS.get(parts["scheme"], 0))
    return IpAddress(host, port) if port and not isinstance(host, str) else None


def lacks_zone(host: str) -> bool:
    """Whether this is a link-local IPv6 address without its interface, as `fe80::1` instead of `fe80::1%eth0`: each
    network of a machine has that one, so nobody can tell where it is."""
    try:
        ip = ip_address(host)
    except ValueError:
        return False
    return isinstance(ip, IPv6Address) and ip.is_link_local and ip.scope_id is None


def is_host(text: str) -> bool:
    """Whether this is an IP address, without brackets, or a name that DNS knows; one in other letters than ASCII counts
    by its form there."""
    try:
        ip_address(text)
    except ValueError:
        pass
    else:
        return True
    try:
        name = text.encode("idna").decode("ascii")
    except UnicodeError:
        return False
    return len(name) <= HOST_BYTES_MAX and _NAME.fullmatch(name) is not None


def _parts_of(url: str) -> re.Match[str]:
    found = _URL.fullmatch(url[: HOST_BYTES_MAX + 1])
    if found is None:
        raise Malformed("it is not the URL of a host")
    if found["scheme"] not in (TLS, "ws", WSS):
        raise Malformed("no other machine reaches a router by that scheme")
    if found["port"] is not None and int(found["port"]) > PORT_MAX:
        raise Malformed(f"port {found['port']} is too large; ports go up to {PORT_MAX}")
    return found


def _host(parts: re.Match[str]) -> Ip | str:
    said = parts["six"] or parts["name"]
    try:
        ip = ip_address(said)
    except ValueError:
        return _name(said, "its host")
    if (ip.version == 6) != (parts["six"] is not None):
        raise Malformed("its host is not an IPv4 address, an IPv6 address in brackets, or a name")
    return ip


def _web_socket(url: str, name: str) -> WebSocketAddress:
    parts = _parts_of(url)
    if parts["scheme"] == TLS:
        raise Malformed(f"{name} is not the URL of a WebSocket")
    _host(parts)
    return WebSocketAddress(url)


def _name(text: str, name: str) -> str:
    if not _NAME.fullmatch(text):
        raise Malformed(f"{name} is not a name that DNS knows (letters, digits, hyphens and dots)")
    return text


# -- who may name what (R-D12) -----------------------------------------------------------------------------


class AddressSource(Enum):
    """The source of an address."""

    ANYBODY = "an advertisement that was passed on"
    DATAGRAM = "what a datagram on the LAN says"
    SENDER = "where a datagram on the LAN came from"
    INVITATION = "an invitation"
    HINT = "an app of this node"
    NEIGHBOUR = "a neighbour about itself"
    OPERATOR = "the operator"


class Reach(Enum):
    """From where an address can be reached; the value completes a sentence that begins with the address."""

    PUBLIC = "is public"
    PRIVATE = "lies in a private network, and counts only if the LAN, an invitation, an app or the operator names it"
    LINK_LOCAL = "is link-local, and counts only as the source of a datagram"
    LOOPBACK = "leads back to the machine that dials it, and counts only where the node listens on loopback itself"
    UNSPECIFIED = "names no host, which only a datagram on the LAN may do: it means the source of the datagram"
    NOBODY = "is a multicast, broadcast or reserved address, at which no router can be"


_REMEDY = "; name an address in node.advertise at which others reach that node"
_MAY_NAME: dict[Reach, frozenset[AddressSource]] = {
    Reach.PUBLIC: frozenset(AddressSource),
    Reach.PRIVATE: frozenset(AddressSource) - {AddressSource.ANYBODY},
    Reach.LINK_LOCAL: frozenset((AddressSource.SENDER,)),
    Reach.LOOPBACK: frozenset(),
    Reach.UNSPECIFIED: frozenset((AddressSource.DATAGRAM,)),
    Reach.NOBODY: frozenset(),
}


def refusal_of(
    address: TransportAddress, source: AddressSource, *, on_loopback: bool = False
) -> tuple[Reason, str] | None:
    """Return why an address does not count if `source` names it, or None if it counts.

    `on_loopback`: this node listens on loopback itself.
    """
    reach = reach_of(address.host)
    if source in _MAY_NAME[reach] or (reach is Reach.LOOPBACK and on_loopback):
        return None
    return ADVERT_ADDRESS, f"{address} {reach.value}{_REMEDY}"


def addresses_of_node(urls: Iterable[str]) -> tuple[TransportAddress, ...]:
    """Return the addresses among these URLs at which others reach the node that listens there or advertises them.

    Loopback addresses count only if there is no other; a URL for every interface gives no address.
    """
    found = list[TransportAddress]()
    for url in urls:
        try:
            found.append(parse_address(url))
        except BadText:
            continue  # of this machine only, as a Unix socket
    far = tuple(one for one in found if refusal_of(one, AddressSource.OPERATOR) is None)
    return (far or tuple(one for one in found if reach_of(one.host) is Reach.LOOPBACK))[:ADDRESSES_MAX]


def reach_of(host: Ip | str) -> Reach:
    """Return from where this host can be reached, as far as its name or number shows."""
    if isinstance(host, IPv4Address):
        return _reach_of_four(host)
    if isinstance(host, IPv6Address):
        return _reach_of_six(host)
    name = host.lower().removesuffix(".")
    if name == "localhost" or name.endswith(".localhost"):
        return Reach.LOOPBACK
    return Reach.PRIVATE if "." not in name or name.endswith(_PRIVATE_NAMES) else Reach.PUBLIC


def leads_back(host: str, own: str) -> bool:
    """Whether who dials `host` on this machine reaches what listens at `own` here; "" is every interface. Names other
    than localhost are not resolved."""
    if host == own:
        return True
    there, here = (reach_of(_ip_or_name(one)) for one in (host, own or "0.0.0.0"))
    return there is Reach.LOOPBACK and here in (Reach.LOOPBACK, Reach.UNSPECIFIED)


def is_loopback(host: str) -> bool:
    """Whether who dials this host reaches the machine that it dials from, as far as its name or number shows."""
    return bool(host) and reach_of(_ip_or_name(host)) is Reach.LOOPBACK


def _ip_or_name(text: str) -> Ip | str:
    try:
        return ip_address(text)
    except ValueError:
        return text


def public_prefix(address: TransportAddress) -> bytes | None:
    """Return the network of a public IP address, its /24 or /56; None for private addresses and names.

    The owner of one address often has its whole network, so limits per address apply per network as well.
    """
    host = address.host
    if isinstance(host, str) or reach_of(host) is not Reach.PUBLIC:
        return None
    ip = _within(host) or host
    return ip.packed[:3] if ip.version == 4 else ip.packed[:7]


def network_text(ip: Ip) -> str:
    """Return the network of an IP address, its /24 or /56, as text: `192.0.2.0/24`."""
    if ip.version == 4:
        return f"{IPv4Address(int(ip) & ~0xFF)}/24"
    return f"{IPv6Address(int(ip) >> 72 << 72)}/56"


def _within(ip: Ip) -> IPv4Address | None:
    """Return the IPv4 address embedded in an IPv6 address, None if there is none."""
    if isinstance(ip, IPv4Address):
        return None
    return ip.ipv4_mapped or ip.sixtofour or (IPv4Address(ip.packed[12:]) if ip in _TRANSLATED else None)


_PRIVATE_NAMES = (".local", ".internal", ".home.arpa")
_PRIVATE_FOUR = tuple(map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")))
_THIS_NETWORK = IPv4Network("0.0.0.0/8")
_PRIVATE_SIX = tuple(map(IPv6Network, ("fc00::/7", "fec0::/10")))
_TRANSLATED = IPv6Network("64:ff9b::/96")


_OF_NO_OTHER = {0: Reach.UNSPECIFIED, 1: Reach.LOOPBACK}  # Python's own words count mapped addresses since 3.13


def _reach_of_four(ip: IPv4Address) -> Reach:
    if ip.is_unspecified:
        return Reach.UNSPECIFIED
    if ip.is_multicast or ip.is_reserved or ip in _THIS_NETWORK:
        return Reach.NOBODY
    if ip.is_loopback:
        return Reach.LOOPBACK
    if ip.is_link_local:
        return Reach.LINK_LOCAL
    return Reach.PRIVATE if any(ip in one for one in _PRIVATE_FOUR) else Reach.PUBLIC


def _reach_of_six(ip: IPv6Address) -> Reach:
    if int(ip) in _OF_NO_OTHER:
        return _OF_NO_OTHER[int(ip)]
    within = _within(ip)
    if within is not None:  # it leads to that IPv4 address; 0.0.0.0 would be the machine that dials it
        reach = _reach_of_four(within)
        return Reach.NOBODY if reach is Reach.UNSPECIFIED else reach
    if ip.is_link_local:
        return Reach.LINK_LOCAL
    if any(ip in one for one in _PRIVATE_SIX):
        return Reach.PRIVATE
    return Reach.NOBODY if ip.is_multicast or ip.is_reserved else Reach.PUBLIC
