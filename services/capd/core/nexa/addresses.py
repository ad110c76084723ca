"""Records of neighbours' addresses: points for what they should not have sent, bans, connections, and allowances.

A hundred points ban an address for four hours, and end the connection; points fade as in the reference. Loopback
addresses are never banned: all programs of the machine share them.
"""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address, ip_network

from msgspec import Struct, field

from router.core.link.allowance import Allowance

from .limits import NexaLimits

POINTS_MAX = 100.0
BAN_S = 4 * 3600.0
_FADES = 1.0 - 1.0 / 14_400


class _Address(Struct):
    allowance: Allowance
    points: float = 0.0
    at_s: float = 0.0
    banned_until_s: float = 0.0
    connections: set[str] = field(default_factory=set)
    subscriptions: int = 0


class Addresses:
    """The addresses of neighbours; of those without a connection, the one seen longest ago is forgotten first."""

    def __init__(self, limits: NexaLimits) -> None:
        self._limits = limits
        self._known: dict[str, _Address] = {}

    @property
    def units_per_s(self) -> float:
        """Return the units a second that one address may use."""
        return self._limits.units_per_s * self._limits.address_share

    def __repr__(self) -> str:
        return f"<Addresses: {len(self._known)} known>"

    def opened(self, host: str, name: str) -> None:
        """Add a connection of an address."""
        self._of(host).connections.add(name)

    def closed(self, host: str, name: str) -> None:
        """Remove a connection of an address."""
        self._of(host).connections.discard(name)

    def connections(self, host: str) -> int:
        """Return the number of connections that an address has."""
        found = self._known.get(host)
        return 0 if found is None else len(found.connections)

    def charge(self, host: str, points: float, now_s: float) -> bool:
        """Add points to an address; return whether they have reached `POINTS_MAX`, which also bans it."""
        one = self._of(host)
        one.points = one.points * _FADES ** (now_s - one.at_s) + points
        one.at_s = now_s
        if one.points < POINTS_MAX:
            return False
        self.ban(host, now_s)
        return True

    def points(self, host: str, now_s: float) -> float:
        """Return the points of an address."""
        found = self._known.get(host)
        return 0.0 if found is None else found.points * _FADES ** (now_s - found.at_s)

    def ban(self, host: str, now_s: float) -> None:
        """Refuse connections of an address for `BAN_S`, unless it is loopback, and reset its points."""
        one = self._of(host)
        one.points = 0.0
        if not is_loopback(host):
            one.banned_until_s = now_s + BAN_S

    def is_banned(self, host: str, now_s: float) -> bool:
        found = self._known.get(host)
        return found is not None and now_s < found.banned_until_s

    def banned(self, now_s: float) -> dict[str, int]:
        """Return the seconds for which addresses are still banned."""
        return {
            host: int(one.banned_until_s - now_s) for host, one in self._known.items() if now_s < one.banned_until_s
        }

    def take(self, host: str, units: int, now_s: float) -> bool:
        """Take units of work from the allowance of an address; return whether there were enough."""
        return self._of(host).allowance.take(units, now_s)

    def subscribe(self, host: str, count: int) -> bool:
        """Add to the standing queries of an address, or subtract; return False, and change nothing, if they would be
        too many."""
        one = self._of(host)
        if count > 0 and one.subscriptions + count > self._limits.subscriptions_of_address:
            return False
        one.subscriptions += count
        return True

    def _of(self, host: str) -> _Address:
        found = self._known.pop(host, None)
        if found is None:
            self._forget()
            burst = self._limits.units_burst * self._limits.address_share
            found = _Address(Allowance(self.units_per_s, burst))
        self._known[host] = found
        return found

    def _forget(self) -> None:
        """Make room for one more address: forget the first one without a connection, if possible one that was never
        banned."""
        if len(self._known) < self._limits.addresses_max:
            return
        idle = [host for host, one in self._known.items() if not one.connections]
        unbanned = [host for host in idle if not self._known[host].banned_until_s]
        if idle:
            del self._known[(unbanned or idle)[0]]


def host_of(address: str) -> str:
    """Return what counts as one address in HOST:PORT: for IPv4 mapped into IPv6, the IPv4 address; for IPv6, the
    network of 64 bits, since one machine may take all of its addresses."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        found = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if not isinstance(found, IPv6Address) or found.is_loopback:
        return str(found)
    return str(found.ipv4_mapped or ip_network((int(found), 64), strict=False))


def network_of(host: str) -> str:
    """Return a result of `host_of` as a network, such as 192.0.2.1/32; return it unchanged if it is no address."""
    try:
        return str(ip_network(host))
    except ValueError:
        return host


def is_loopback(host: str) -> bool:
    """Whether a host is a loopback address; an empty one, of a stream without an address, counts as such."""
    try:
        return not host or ip_address(host).is_loopback
    except ValueError:
        return False
