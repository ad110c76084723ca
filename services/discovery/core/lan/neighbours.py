"""The neighbours that were heard: each one's last advertisement, its sources, and its end (D17, D19)."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from typing import NamedTuple

from msgspec import Struct, field

from router.core.wire.address import IpAddress
from router.core.wire.advert import Advertisement
from router.core.wire.crypto import PublicKey
from services.discovery.core.lan.networks import Ip

KEYS_MAX = 256
SOURCES_MAX = 4
TTL_S_MAX = 60
"""Most seconds that a neighbour counts as present after its last datagram, whatever the datagram says."""


class Source(NamedTuple):
    """The source of a datagram; `at` is the index of the interface on which it came."""

    ip: Ip
    at: int

    def address(self, port: int) -> IpAddress:
        """Return the address of a router that listens at this source's host and the given port."""
        if self.ip.version == 6 and self.ip.is_link_local:
            return IpAddress(type(self.ip)(f"{type(self.ip)(self.ip.packed)}%{self.at}"), port)
        return IpAddress(self.ip, port)


def source_of(peer: str) -> Source:
    """Return address and interface of a datagram's sender, as its door names it: `192.0.2.7%3:4100`."""
    host, _, index = peer.rpartition(":")[0].rpartition("%")
    return Source(ip_address(host), int(index))


class Neighbour(Struct, eq=False):
    """A router nearby. `ends_s`: the monotonic second at which it counts as away; 0: it is away.

    `ask_s`: when to ask whether it is still there; `peer`: the source of its last datagram.

    `dial_s`: when to dial it, None if no dial is due; `failures`: how many dials in a row failed; `let_in`: False if it
    has refused this node. `until_s`: the Unix second until which it was reported to the router, with `urls`."""

    advert: Advertisement
    sources: dict[Source, float] = field(default_factory=dict)
    ends_s: float = 0.0
    heard_s: float = 0.0
    ask_s: float = 0.0
    peer: str = ""
    dial_s: float | None = None
    failures: int = 0
    let_in: bool = True
    urls: tuple[str, ...] = ()
    until_s: int = 0

    @property
    def key(self) -> PublicKey:
        return self.advert.router

    @property
    def is_here(self) -> bool:
        return self.ends_s > 0

    def came_from(self, source: Source, now_s: float, stale_s: float) -> bool:
        """Record a source; beyond a few, one that was silent for `stale_s` is replaced, or else the new one is
        dropped."""
        if source not in self.sources and len(self.sources) >= SOURCES_MAX:
            oldest = min(self.sources, key=self.sources.__getitem__)
            if self.sources[oldest] > now_s - stale_s:
                return False
            del self.sources[oldest]
        self.sources[source] = now_s
        return True

    def reached_at(self) -> tuple[str, ...]:
        """Return the URLs of the places where it was heard, IPv4 first: each source's host, with the port that it
        names."""
        ports = [one.port for one in self.advert.addresses if isinstance(one, IpAddress) and one.ip.is_unspecified]
        places = sorted(self.sources, key=lambda one: (one.ip.version, one.at, one.ip.packed))
        return tuple(one.address(port).url for port in ports[:1] for one in places)


class Neighbours:
    """The routers that were heard, at most 256, and to which of them each datagram belongs."""

    def __init__(self) -> None:
        self._all: dict[PublicKey, Neighbour] = {}
        self._said: dict[bytes, Neighbour] = {}

    def __repr__(self) -> str:
        return f"<neighbours: {sum(one.is_here for one in self)} here of {len(self)}>"

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Neighbour]:
        return iter(self._all.values())

    def get(self, key: PublicKey) -> Neighbour | None:
        return self._all.get(key)

    def who_said(self, data: bytes) -> Neighbour | None:
        """Return the router whose last datagram had exactly these bytes, which were verified when they first came."""
        return self._said.get(data)

    @property
    def is_full(self) -> bool:
        return len(self._all) >= KEYS_MAX

    def enter(self, advert: Advertisement) -> Neighbour:
        """Record a router's latest advertisement."""
        one = self._all.get(advert.router)
        if one is None:
            one = self._all[advert.router] = Neighbour(advert)
        else:
            del self._said[one.advert.message]
            one.advert = advert
        self._said[advert.message] = one
        return one

    def least(self) -> Neighbour | None:
        """Return the router that is away and was silent longest; None if all are present."""
        return min((one for one in self if not one.is_here), key=lambda one: one.heard_s, default=None)

    def remove(self, one: Neighbour) -> None:
        del self._all[one.key]
        del self._said[one.advert.message]
