"""The local network of each interface, its names, and the operator's permission to be heard there (R-D18)."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface

from blake3 import blake3
from msgspec import Struct

from router.core.wire.crypto import PublicKey
from router.service.roles.discovery import Interface

LABEL = b"upsycle network 1"
ID_BYTES = 8
_NEEDED = frozenset(("up", "running", "multicast"))
_FOREIGN = frozenset(("loopback", "pointopoint"))

Ip = IPv4Address | IPv6Address
OFF, ALLOWED, EVERYWHERE = "off", "allowed", "everywhere"


class Network(Struct, frozen=True):
    """A network by its id, which is the same for all machines behind its gateway, and its name for people."""

    id: str
    name: str


class Permit(Struct, frozen=True):
    """Where the operator allows this node to be heard: in the networks with these ids, everywhere, or nowhere."""

    mode: str = OFF
    networks: frozenset[str] = frozenset()
    groups: tuple[PublicKey | str, ...] = ()
    port: int = 0

    def allows(self, one: Interface) -> bool:
        """Whether datagrams may be sent on this interface."""
        if not is_local(one) or self.mode == OFF:
            return False
        network = network_of(one)
        return self.mode == EVERYWHERE or (network is not None and network.id in self.networks)


def is_local(one: Interface) -> bool:
    """Whether datagrams for everybody nearby may be sent on this interface, if its network is allowed."""
    return one.flags >= _NEEDED and not one.flags & _FOREIGN and bool(one.addresses)


def network_of(one: Interface) -> Network | None:
    """Return the interface's network: named by its gateway, or without one by name and prefixes.

    None: there is a gateway, but the system has not learned its link-layer address yet."""
    if one.gateway_place and not one.gateway:
        return None
    found = one.gateway or b"\0".join([one.name.encode(), *(str(prefix).encode() for prefix in _prefixes(one))])
    return Network(blake3(LABEL + found).digest()[:ID_BYTES].hex(), _name(one))


def on_link(one: Interface, source: Ip) -> bool:
    """Whether that source is directly on the interface's link, without a router in between."""
    if source.version == 6 and source.is_link_local:
        return True
    plain = _without_zone(source)
    return any(plain.version == at.version and plain in at.network for at in one.addresses)


def _without_zone(source: Ip) -> Ip:
    return IPv6Address(source.packed) if isinstance(source, IPv6Address) else source


def _prefixes(one: Interface) -> list[str]:
    """Return the prefixes that name a network without a gateway: those of IPv4 if there are any, since IPv6 addresses
    come some seconds later than the interface."""
    four = [at for at in one.addresses if isinstance(at, IPv4Interface)]
    chosen: list[IPv4Interface | IPv6Interface] = [*four] if four else [*one.addresses]
    return sorted({str(at.network) for at in chosen})


def _name(one: Interface) -> str:
    return " ".join([one.name, *_prefixes(one)[:1]])
