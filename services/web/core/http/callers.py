"""Where requests come from: the other end of the connection, or what a proxy in front of the node says of it."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

THIS_MACHINE = "unix"
"""How settings name whoever connects to a Unix socket."""
HOPS_MAX = 32
"""Proxies through which a request may have come; what stands before them in X-Forwarded-For is not looked at."""
_SHARED_BITS = 64
"""The bits of an IPv6 address that one machine's have in common."""

Network = IPv4Network | IPv6Network


class Callers:
    """Tells callers apart. `proxies`: the addresses and networks, and "unix", whose X-Forwarded-For counts."""

    def __init__(self, proxies: Sequence[str]) -> None:
        self._is_unix = THIS_MACHINE in proxies
        self._networks = networks_of(proxies)

    def __repr__(self) -> str:
        return f"<callers behind {len(self._networks) + self._is_unix} proxies>"

    def is_proxy(self, ip: str) -> bool:
        """Whether this address is a proxy's; "": the other end of a Unix socket."""
        if not ip or not self._networks:
            return self._is_unix and not ip
        try:
            found = ip_address(ip.partition("%")[0])
        except ValueError:
            return False
        return any(found.version == one.version and found in one for one in self._networks)

    def caller(self, ip: str, forwarded: str) -> str:
        """Return where a request comes from: the last address in X-Forwarded-For that is no proxy's, if a proxy
        connects; whatever stands before it anybody may have written."""
        found = ip
        for one in reversed(forwarded.rsplit(",", HOPS_MAX)[-HOPS_MAX:] if forwarded else []):
            said = ip_of(one.strip())
            if not self.is_proxy(found) or not said:
                break
            found = said
        return found


def networks_of(proxies: Sequence[str]) -> tuple[Network, ...]:
    """Return the networks among the names of proxies. Raises `ValueError`."""
    return tuple(ip_network(one, strict=False) for one in proxies if one != THIS_MACHINE)


def ip_of(address: str) -> str:
    """Return the IP address in IP, IP:PORT or [IP]:PORT; "" if there is none."""
    inside = address[1:].partition("]")[0] if address.startswith("[") else address
    for one in (inside, address.rpartition(":")[0]):
        try:
            found = ip_address(one.partition("%")[0])
            return str(getattr(found, "ipv4_mapped", None) or found)
        except ValueError:
            continue
    return ""


def counted_as(ip: str) -> str:
    """Return what the addresses of one client have in common."""
    try:
        found = ip_address(ip)
    except ValueError:
        return ip
    return ip if found.version == 4 else str(ip_network((found, _SHARED_BITS), strict=False))
