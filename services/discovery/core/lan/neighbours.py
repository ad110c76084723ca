"""The neighbours that were heard: each one's last advertisement, its sources and end, and who gives way (R-D17, R-D19).

Anybody can make keys, and send their datagrams from any address. So a place is kept only by a key that has proven
itself by a link; the others give way to newcomers: first those of the host that has most, of these the one that came
first. Thus each newcomer has a place for some seconds, which is time enough for a link.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from math import inf
from typing import NamedTuple

from msgspec import Struct, field

from router.core.wire.address import IpAddress
from router.core.wire.advert import Advertisement
from router.core.wire.crypto import PublicKey
from router.core.wire.text import counted
from services.discovery.core.lan.networks import Ip

KEYS_MAX = 256
PROVEN_MAX = 192
"""Most keys that keep their places because a link has proven them; the other places are for newcomers."""
SOURCES_MAX = 4
TTL_S_MAX = 60
"""Most seconds that a neighbour counts as present after its last datagram, whatever the datagram says."""
LINK_S = 5.0
"""How long a newcomer keeps its place at least, so that a link can prove its key; places for those that come meanwhile
are kept free (`PROVEN_MAX`)."""
MEETING_S = 60.0
"""How long a neighbour that shares no group keeps its place from others that links have proven, so that it can meet
this node."""
_HOSTS_BYTES = 8
"""Length of the part of an IPv6 address that its host cannot choose: on one link all hosts have it in common."""


class Source(NamedTuple):
    """The source of a datagram; `at` is the index of the interface on which it came."""

    ip: Ip
    at: int

    @property
    def host(self) -> tuple[bytes, int]:
        """Return what counts as one host: an IPv4 address, or an IPv6 network, in which one host has any number of
        addresses."""
        return self.ip.packed[:_HOSTS_BYTES], self.at

    def address(self, port: int) -> IpAddress:
        """Return the address of a router that listens at this source's host and the given port."""
        if self.ip.version == 6 and self.ip.is_link_local:
            return IpAddress(type(self.ip)(f"{type(self.ip)(self.ip.packed)}%{self.at}"), port)
        return IpAddress(self.ip, port)


def source_of(peer: str) -> Source:
    """Return address and interface of a datagram's sender, as its door names it: `192.0.2.7%3:4100`."""
    return _source(peer.rpartition(":")[0])


@lru_cache(maxsize=1024)
def _source(place: str) -> Source:
    host, _, index = place.rpartition("%")
    return Source(ip_address(host), int(index))


def is_over_ipv6(peer: str) -> bool:
    """Whether that sender's address is one of IPv6, told without reading it."""
    return peer.count(":") > 1


class Neighbour(Struct, eq=False):
    """A router nearby. `ends_s`: the monotonic second at which it counts as away; 0: it is away.

    `outdated`: the sources that have not sent its last advertisement yet. `ask_s`: when to ask whether it is still
    there; `peer`: the source of its last datagram.

    `proven_s`: when a link proved its key, None if none did, or another key needed its place; `ip`: where that link
    led; `is_linked`: it is connected.

    `dial_s`: when to dial it, None if no dial is due; `is_in_line`: this time has come, and others are dialled first;
    `failures`: how many dials in a row failed; `let_in`: False if it has refused this node.

    `name`: what it calls itself. `until_s`: the Unix second until which it was reported to the router, with `urls` and
    `reported_name`."""

    advert: Advertisement
    sources: dict[Source, float] = field(default_factory=dict)
    outdated: set[Source] = field(default_factory=set)
    entered_s: float = 0.0
    ends_s: float = 0.0
    heard_s: float = 0.0
    ask_s: float = 0.0
    peer: str = ""
    proven_s: float | None = None
    ip: Ip | None = None
    is_linked: bool = False
    dial_s: float | None = None
    is_in_line: bool = False
    failures: int = 0
    let_in: bool = True
    name: str = ""
    urls: tuple[str, ...] = ()
    reported_name: str = ""
    until_s: int = 0

    @property
    def key(self) -> PublicKey:
        return self.advert.router

    @property
    def is_here(self) -> bool:
        return self.ends_s > 0

    @property
    def is_proven(self) -> bool:
        return self.proven_s is not None

    @property
    def due_s(self) -> float:
        """Return when it is to be dialled, unless it is in line, or asked, or counts as away."""
        here_s = min(self.ask_s, self.ends_s) if self.ends_s else inf
        return here_s if self.dial_s is None or self.is_in_line else min(here_s, self.dial_s)

    def is_at(self, source: Source) -> bool:
        """Whether it was heard from there last, or a link has proven it there."""
        return source in self.sources or source.ip == self.ip

    @property
    def host(self) -> tuple[bytes, int] | None:
        """Return what counts as its host; None while it is away."""
        if len(self.sources) > 1:
            return self._in_order()[0].host
        return next((one.host for one in self.sources), None)

    def came_from(self, source: Source, now_s: float, stale_s: float) -> bool:
        """Record a source; beyond a few, it takes the place of one that was silent for `stale_s`, or has not sent the
        last advertisement, or else is dropped.

        Who copies a datagram can send it from any address, but not before it was sent. The address where a link has
        proven the key stays, and is taken in any case."""
        if source not in self.sources and len(self.sources) >= SOURCES_MAX:
            others = [one for one in self.sources if one.ip != self.ip]  # none if all are the proven address, on links
            oldest = min(others or self.sources, key=lambda one: (one not in self.outdated, self.sources[one]))
            is_over = oldest in self.outdated or self.sources[oldest] <= now_s - stale_s
            if not is_over and source.ip != self.ip:
                return False
            del self.sources[oldest]
        self.sources[source] = now_s
        self.outdated.discard(source)
        return True

    def reached_at(self) -> tuple[str, ...]:
        """Return the URLs of the places where it was heard: each source's host, with the port that it names; where a
        link has proven it first, then IPv4."""
        ports = [one.port for one in self.advert.addresses if isinstance(one, IpAddress) and one.ip.is_unspecified]
        return tuple(one.address(port).url for port in ports[:1] for one in self._in_order())

    def _in_order(self) -> list[Source]:
        return sorted(self.sources, key=lambda one: (one.ip != self.ip, one.ip.version, one.at, one.ip.packed))


class Neighbours:
    """The routers that were heard, at most 256, and to which of them each datagram belongs. `agreed`: the routers that
    share groups with this node."""

    def __init__(self, agreed: Collection[PublicKey] = ()) -> None:
        self._all: dict[bytes, Neighbour] = {}
        self._said: dict[bytes, Neighbour] = {}
        self._agreed = agreed

    def __repr__(self) -> str:
        return f"<neighbours: {sum(one.is_here for one in self)} here of {len(self)}>"

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Neighbour]:
        return iter(self._all.values())

    def get(self, key: bytes) -> Neighbour | None:
        return self._all.get(key)

    def is_proven(self, key: bytes) -> bool:
        """Whether a link has proven this key, lately or before it shared groups with this node."""
        one = self._all.get(key)
        return (one is not None and one.is_proven) or key in self._agreed

    def is_new(self, key: PublicKey) -> bool:
        """Whether a datagram of this key makes it a newcomer: it is not known, or is away and no link has proven it."""
        one = self._all.get(key)
        return (one is None or not one.is_here) and not self.is_proven(key)

    def who_said(self, data: bytes) -> Neighbour | None:
        """Return the router whose last datagram had exactly these bytes, which were verified when they first came."""
        return self._said.get(data)

    @property
    def is_full(self) -> bool:
        return len(self._all) >= KEYS_MAX

    def enter(self, advert: Advertisement, now_s: float) -> Neighbour:
        """Record a router's latest advertisement."""
        one = self._all.get(advert.router)
        if one is None:
            one = self._all[advert.router] = Neighbour(advert, entered_s=now_s)
        else:
            one.entered_s = one.entered_s if one.is_here else now_s
            del self._said[one.advert.message]
            one.advert = advert
            one.outdated = set(one.sources)
        self._said[advert.message] = one
        return one

    def remove(self, one: Neighbour) -> None:
        del self._all[one.key]
        del self._said[one.advert.message]

    # -- who keeps a place -----------------------------------------------------------------------------------

    def least(self, now_s: float) -> Neighbour:
        """Return the router that gives way to a newcomer: of those that no link has proven one that is away, else one
        of the host that has most of them; there is one while the places are full.

        It is none that came lately, or whoever names a newcomer's address as its own would push that one out."""
        claimed = [one for one in self if not one.is_proven]
        crowds = Counter(one.host for one in claimed)

        def rank(one: Neighbour) -> tuple[bool, bool, bool, int, float]:
            is_late = one.is_here and one.entered_s > now_s - LINK_S
            return is_late, one.key in self._agreed, one.is_here, -crowds[one.host] * one.is_here, one.entered_s

        return min(claimed, key=rank)

    def prove(self, one: Neighbour, ip: str, now_s: float) -> None:
        """Record that a link has proven a key, so that it keeps its place. If too many do, another one no longer does,
        unless each of them is present and shares groups, or may still meet this node."""
        if ip:
            found = ip_address(ip.partition("%")[0])
            one.ip = (isinstance(found, IPv6Address) and found.ipv4_mapped) or found
        if one.proven_s is not None:
            return
        proven = [other for other in self if other.is_proven]
        if len(proven) >= PROVEN_MAX:
            least = self._least_proven(proven, now_s)
            if least is None:
                return
            least.proven_s = None
        one.proven_s = now_s

    def _least_proven(self, proven: list[Neighbour], now_s: float) -> Neighbour | None:
        def shares(one: Neighbour) -> bool:
            return one.key in self._agreed

        free = [
            one
            for one in proven
            if not (one.is_here and shares(one)) and (one.proven_s or 0.0) <= now_s - MEETING_S * one.is_here
        ]
        crowds = Counter(one.host for one in proven)
        return min(free, key=lambda one: (shares(one), one.is_here, -crowds[one.host], one.heard_s), default=None)

    def crowd(self) -> Crowd:
        """Return how many places are taken by routers that are here, and by whom."""
        here = [one for one in self if one.is_here]
        hosts = Counter(one.host for one in here)
        [(_, most)] = hosts.most_common(1) or [(None, 0)]
        first = next((str(source.ip) for one in here if hosts[one.host] == most for source in one.sources), "")
        return Crowd(len(here), sum(one.is_proven for one in here), len(hosts), first, most)


class Crowd(Struct, frozen=True):
    """The places that routers here have taken. `proven`: those that a link has proven; `hosts`: how many hosts they are
    at, all addresses of an IPv6 network counting as one; `first`: an address of the host that has most, `of_first`: its
    places."""

    taken: int
    proven: int
    hosts: int
    first: str
    of_first: int

    def why_full(self, waiting: int = 0) -> str:
        """Return who has taken all places for nodes nearby, as `router lan list` and `router doctor` print it; "" if
        there is room. `waiting`: new nodes that wait for a place."""
        if self.taken < KEYS_MAX:
            return ""
        said, claimed = f"all {KEYS_MAX} places for nodes nearby are taken", self.taken - self.proven
        said = f"{said}, by {counted(self.hosts, 'host')}"
        if claimed:
            said = f"{said} ({claimed} by keys that have never connected and give way to newcomers)"
        if waiting:
            said = f"{said}, and {waiting} more wait"
        return f"{said}; if so many nodes are not here, look for {self._suspect()}"

    def _suspect(self) -> str:
        if self.of_first < self.taken / 4:
            return "a machine that sends from false addresses to UDP port 4100, by the counters of the switch"
        others = " and other IPv6 addresses" if ":" in self.first else ""
        return f"the machine that sends from {self.first}{others}, which has {self.of_first}"
