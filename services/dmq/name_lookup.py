"""Look up the names of other nodes, in threads: no name holds up who asks.

A name with a port is looked up for its addresses; one without a port for its SRV records (RFC 2782), which name hosts
and ports: CIP-0155's registry has `_dmq._mithril._cardano._tcp` for a dmq-node, mithril's guide `_mithril._tcp`.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import NamedTuple

from dns.exception import DNSException
from dns.rdatatype import RdataType
from dns.rdtypes.IN.SRV import SRV
from dns.resolver import Resolver

from .core.peers.topology import AccessPoint
from .core.protocols.peer_sharing import PeerAddress

LOOKUPS_MAX = 4
"""Names that are looked up at once."""
NAMES_S = 300.0
"""Seconds after which a name is looked up again."""
SRV_S = 10.0
"""Seconds after which an answer about SRV records is waited for no more."""
SRV_MAX = 64
"""Most SRV records of one name that are used, in the order in which clients are to try them."""
ADDRESSES_MAX = 16
"""Most addresses of one name that are used."""


class _Lookup(NamedTuple):
    future: Future[tuple[PeerAddress, ...]]
    began_s: float


class NameLookup:
    """Looks names up again and again. `services`: those whose SRV records stand for a name without a port, the first of
    which that has some counts."""

    def __init__(self, services: Sequence[str]) -> None:
        self._services = tuple(services)
        self._threads = ThreadPoolExecutor(LOOKUPS_MAX, "lookup")
        self._lookups: dict[AccessPoint, _Lookup] = {}
        self._found: dict[AccessPoint, tuple[PeerAddress, ...]] = {}

    def __repr__(self) -> str:
        return f"<NameLookup of {len(self._lookups)} names>"

    def addresses(self, point: AccessPoint) -> Sequence[PeerAddress]:
        """Return the addresses of a point, as far as they are known; begin to look its name up if it is time for
        that."""
        if point.is_address:
            return (PeerAddress(*point),)
        lookup = self._lookups.get(point)
        if lookup is None or (lookup.future.done() and time.monotonic() - lookup.began_s > NAMES_S):
            future = self._threads.submit(looked_up, point, self._services)
            lookup = self._lookups[point] = _Lookup(future, time.monotonic())
        if lookup.future.done() and (found := lookup.future.result()):
            self._found[point] = found
        return self._found.get(point, ())


def looked_up(
    point: AccessPoint, services: Sequence[str], resolver: Callable[[], Resolver] = Resolver
) -> tuple[PeerAddress, ...]:
    """Return the addresses of a name, in the order in which they are to be tried; none if it cannot be looked up.
    `resolver` is made for each name: where a machine asks changes with its network."""
    if point.port:
        found = _of_host(point.host, point.port)
    else:
        found = chain.from_iterable(_of_host(*one) for one in _hosts(point.host, services, resolver))
    return tuple(islice(dict.fromkeys(found), ADDRESSES_MAX))


def _hosts(name: str, services: Sequence[str], resolver: Callable[[], Resolver]) -> list[tuple[str, int]]:
    """Return the hosts and ports in the SRV records of a name under the first service that has some."""
    for service in services:
        try:
            answer = resolver().resolve(f"{service}.{name}", RdataType.SRV, lifetime=SRV_S, search=False)
        except (DNSException, OSError, UnicodeError):
            continue
        # Always in one order, where RFC 2782 draws lots by weight: another order would be another topology.
        records = sorted(
            (one for one in answer if isinstance(one, SRV)), key=lambda one: (one.priority, -one.weight, one)
        )
        hosts = [(one.target.to_text(), one.port) for one in records[:SRV_MAX]]
        if found := [(host, port) for host, port in hosts if host != "." and port]:
            return found
    return []


def _of_host(host: str, port: int) -> Iterator[PeerAddress]:
    try:
        found = socket.getaddrinfo(host.rstrip("."), port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return
    yield from (PeerAddress(str(place[0]), int(place[1])) for *_, place in found)
