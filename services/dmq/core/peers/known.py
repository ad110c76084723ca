"""What is known of each peer, and which addresses may be dialled and shared at all."""

from __future__ import annotations

import ipaddress
from collections import deque
from enum import IntEnum
from functools import lru_cache
from math import inf

from msgspec import Struct, field

from ..protocols.node_handshake import Agreement
from ..protocols.peer_sharing import PeerAddress

PREFIX_BITS = {4: 24, 6: 56}
"""What counts as one place of the network, for IPv4 and IPv6."""
GLOBAL_IPV6 = ipaddress.IPv6Network("2000::/3")
FIRST_S = 3600.0
"""For how long it counts that a peer was the first to announce a message."""
_SLICES = 12


class PeerState(IntEnum):
    """`COLD`: not connected. `WARM`: connected. `HOT`: pulled from. The others are on the way to the one before."""

    COLD, DIALLING, CLOSING, WARM, HOT = range(5)


class PeerSource(IntEnum):
    """Where an address is from, the most trusted first: the topology's roots, the ledger, what was shared, and who has
    dialled in. The last two are strangers, the others were named by somebody."""

    LOCAL, PUBLIC, LEDGER, SHARED, INBOUND = range(5)


class RootGroup(Struct, frozen=True):
    """Roots of the topology: how many of them are to be hot, and connected; `is_local` False: public ones, of which as
    many are used as the targets want."""

    addresses: tuple[PeerAddress, ...]
    hot: int = 1
    warm: int = 1
    advertise: bool = False
    behind_firewall: bool = False
    initiator_only: bool = False
    is_local: bool = True


class KnownPeer(Struct, eq=False):
    """A peer, by the address at which it listens, as far as that is known.

    `dial_s`: not before then it is dialled again; `rests_s`: not before then it is hot again; `has_answered`: it was
    reached there by us; `was_hot`: it was pulled from over this connection; `firsts`: how many messages it was the
    first to announce, by slices of `FIRST_S`."""

    address: PeerAddress
    source: PeerSource
    group: RootGroup | None = None
    state: PeerState = PeerState.COLD
    is_inbound: bool = False
    agreement: Agreement | None = None
    since_s: float = -inf
    failures: int = 0
    dial_s: float = -inf
    rests_s: float = -inf
    asked_s: float = -inf
    is_asked: bool = False
    has_answered: bool = False
    was_hot: bool = False
    firsts: deque[tuple[int, int]] = field(default_factory=deque)

    @property
    def is_stranger(self) -> bool:
        return self.source >= PeerSource.SHARED

    @property
    def is_visitor(self) -> bool:
        """Whether nothing is known of it but the connection that it has begun."""
        return self.source is PeerSource.INBOUND and self.is_connected and self.is_inbound

    @property
    def is_connected(self) -> bool:
        return self.state >= PeerState.WARM

    @property
    def may_be_hot(self) -> bool:
        """Whether we may pull from it: the connection runs both ways, or we have dialled."""
        return self.agreement is not None and (self.agreement.is_duplex or not self.is_inbound)

    def was_first(self, now_s: float) -> None:
        """Count a message that it was the first to announce, and that was taken."""
        current = int(now_s * _SLICES / FIRST_S)
        count = self.firsts.pop()[1] if self.firsts and self.firsts[-1][0] == current else 0
        self.firsts.append((current, count + 1))
        while self.firsts[0][0] <= current - _SLICES:
            self.firsts.popleft()

    def earliness(self, now_s: float) -> int:
        """Return how many messages it was the first to announce, in the last hour."""
        current = int(now_s * _SLICES / FIRST_S)
        return sum(count for of, count in self.firsts if of > current - _SLICES)


@lru_cache(4096)
def prefix(ip: str) -> str:
    """Return the place of the network that an address belongs to."""
    found = ipaddress.ip_address(ip)
    found = getattr(found, "ipv4_mapped", None) or found
    return str(ipaddress.ip_network((found, PREFIX_BITS[found.version]), strict=False))


@lru_cache(4096)
def is_public(address: PeerAddress) -> bool:
    """Whether anybody may be told this address, and anybody's word is enough to dial it: not private, not of this
    machine, not of nobody, no IPv4 address in the form of IPv6, and with a port."""
    try:
        found = ipaddress.ip_address(address.ip)
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address) and (found not in GLOBAL_IPV6 or found.sixtofour is not None):
        return False
    return found.is_global and not found.is_multicast and 0 < address.port < 1 << 16
