"""Look up the names of other nodes, in threads: no name holds up who asks.

A name with a port is looked up for its addresses; one without a port for its SRV records (RFC 2782), which name hosts
and ports: CIP-0155's registry has `_dmq._mithril._cardano._tcp` for a dmq-node, mithril's guide `_mithril._tcp`.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import NamedTuple

from dns.exception import DNSException
from dns.rdatatype import RdataType
from dns.rdtypes.IN.SRV import SRV
from dns.resolver import NXDOMAIN, NoAnswer, Resolver

from .core.peers.topology import AccessPoint
from .core.protocols.peer_sharing import PeerAddress

LOOKUPS_MAX = 4
"""Names that are looked up at once."""
NAMES_S = 300.0
AGAIN = "5 minutes"
"""Seconds after which a name is looked up again at the latest, and as operators read it."""
FIRST_S = 30.0
"""Seconds after which a name without an address is looked up again at first; the pause doubles."""
CAUSE_CHARS_MAX = 110
"""Most characters of why names have no address."""
SRV_S = 10.0
"""Seconds after which an answer about SRV records is waited for no more."""
SRV_MAX = 64
"""Most SRV records of one name that are used, in the order in which clients are to try them."""
ADDRESSES_MAX = 16
"""Most addresses of one name that are used."""


class FoundName(NamedTuple):
    """The addresses of a name, in the order in which they are to be tried; with none of them the cause."""

    addresses: tuple[PeerAddress, ...] = ()
    cause: str = "it is being looked up"


class _Lookup(NamedTuple):
    future: Future[FoundName]
    next_s: float
    pause_s: float


class NameLookup:
    """Looks names up again and again, as many as its caller keeps. `services`: those whose SRV records stand for a name
    without a port, the first of which that has some counts."""

    def __init__(self, services: Sequence[str]) -> None:
        self._services = tuple(services)
        self._threads = ThreadPoolExecutor(LOOKUPS_MAX, "lookup")
        self._lookups: dict[AccessPoint, _Lookup] = {}
        self._found: dict[AccessPoint, FoundName] = {}

    def __repr__(self) -> str:
        return f"<NameLookup of {len(self._lookups)} names>"

    def hurry(self) -> None:
        """Look names without an address up again when they are asked for next, instead of after a pause."""
        for point in [one for one in self._lookups if not self._known(one).addresses]:
            if self._lookups[point].future.done():
                del self._lookups[point]

    def keep(self, points: Iterable[AccessPoint]) -> None:
        """Forget all names but those of these points: what has left the files is looked up no more."""
        kept = frozenset(points)
        self._lookups = {point: one for point, one in self._lookups.items() if point in kept}
        self._found = {point: one for point, one in self._found.items() if point in kept}

    def find(self, point: AccessPoint) -> FoundName:
        """Return the addresses of a point, as far as they are known; begin to look its name up if it is time for
        that."""
        if point.is_address:
            return FoundName((PeerAddress(*point),))
        lookup = self._lookups.get(point)
        if lookup is None or (lookup.future.done() and time.monotonic() >= lookup.next_s):
            is_known = bool(self._known(point).addresses)
            pause_s = NAMES_S if is_known else min(NAMES_S, 2 * lookup.pause_s if lookup else FIRST_S)
            future = self._threads.submit(looked_up, point, self._services)
            lookup = self._lookups[point] = _Lookup(future, time.monotonic() + pause_s, pause_s)
        if lookup.future.done():
            found = lookup.future.result()
            if found.addresses or not self._known(point).addresses:
                self._found[point] = found
        return self._known(point)

    def _known(self, point: AccessPoint) -> FoundName:
        return self._found.get(point, FoundName())


def looked_up(point: AccessPoint, services: Sequence[str], resolver: Callable[[], Resolver] = Resolver) -> FoundName:
    """Return the addresses of a name, or why it has none. `resolver` is made for each name: where a machine asks
    changes with its network."""
    causes: list[str] = []
    hosts = [(point.host, point.port)] if point.port else _hosts(point.host, services, resolver, causes)
    found = islice(dict.fromkeys(chain.from_iterable(_of_host(*one, causes) for one in hosts)), ADDRESSES_MAX)
    addresses = tuple(found)
    cause = f" ({'; '.join(dict.fromkeys(causes))[:CAUSE_CHARS_MAX]})" if causes else ""
    return FoundName(addresses, f"no address is known for it{cause}; it is looked up again within {AGAIN}")


def _hosts(
    name: str, services: Sequence[str], resolver: Callable[[], Resolver], causes: list[str]
) -> list[tuple[str, int]]:
    """Return the hosts and ports in the SRV records of a name under the first service that has some."""
    for service in services:
        try:
            answer = resolver().resolve(f"{service}.{name}", RdataType.SRV, lifetime=SRV_S, search=False)
        except (NXDOMAIN, NoAnswer):
            causes.append(f"no SRV record under {service}")
            continue
        except (DNSException, OSError, UnicodeError):
            causes.append("no name server answers")
            continue
        # Always in one order, where RFC 2782 draws lots by weight: another order would be another topology.
        records = sorted(
            (one for one in answer if isinstance(one, SRV)), key=lambda one: (one.priority, -one.weight, one)
        )
        hosts = [(one.target.to_text(), one.port) for one in records[:SRV_MAX]]
        if found := [(host, port) for host, port in hosts if host != "." and port]:
            return found
        causes.append("its SRV records name no host")
    if not services:
        causes.append("srv_services is empty, so names without a port are not looked up")
    return []


def _of_host(host: str, port: int, causes: list[str]) -> Iterator[PeerAddress]:
    try:
        found = socket.getaddrinfo(host.rstrip("."), port, type=socket.SOCK_STREAM)
    except OSError as error:
        causes.append(error.strerror or str(error))
        return
    except UnicodeError:
        causes.append("it is no name of a host")
        return
    yield from (PeerAddress(str(place[0]), int(place[1])) for *_, place in found)
