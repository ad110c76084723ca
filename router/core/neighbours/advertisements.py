"""The address book: advertisements of other routers, as this node's discovery service announces them (R-C26).

The body `[1, PEER_ADVERTISEMENT]` of a multicast in the group of that service's own key reaches this router as the
value `Advertised`, and is settled when everything decided about it is committed. A unicast that begins alike is a JOIN.

An advertised router is a neighbour beside the configuration: it may be named as the next router, and is dialled when
messages wait for it. Its services' names are routes that displace nothing (R-D24).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

import cbor2

from router.core.wire.address import AddressSource, refusal_of
from router.core.wire.advert import Advertisement, Succession, decode_advertisement, succession
from router.core.wire.codec import Malformed
from router.core.wire.reasons import ADVERT_STALE, Reason

SAMPLED = "sampled"
"""The source that the list of neighbours shows for one that is known by its advertisement alone."""


class Advertised(NamedTuple):
    """The body of an advertisement as it was announced, and the service that announced it."""

    service: bytes
    body: bytes


class Entry(NamedTuple):
    """An advertisement, the service that announced it, and the Unix second from which it no longer counts."""

    by: bytes
    advert: Advertisement
    until_s: int

    @property
    def router(self) -> bytes:
        return self.advert.router

    def urls(self, *, on_loopback: bool) -> tuple[str, ...]:
        """Return where it may be dialled, of the addresses that anybody may name (R-D12)."""
        named = self.advert.addresses
        return tuple(
            one.url for one in named if refusal_of(one, AddressSource.ANYBODY, on_loopback=on_loopback) is None
        )

    def encoded(self) -> bytes:
        return cbor2.dumps([self.until_s, self.advert.message])


class Advertisements:
    """The newest advertisement of each router, at most `most`: of those not connected, the one heard least recently is
    replaced. The discovery service checks signatures and times."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._by_router: dict[bytes, Entry] = {}
        self._by_service: dict[bytes, dict[bytes, None]] = {}  # by the key of a service, who names it, in this order

    def __repr__(self) -> str:
        return f"<advertisements of {len(self._by_router)} routers, of at most {self._most}>"

    def __len__(self) -> int:
        return len(self._by_router)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._by_router.values())

    def get(self, router: bytes) -> Advertisement | None:
        found = self._by_router.get(router)
        return None if found is None else found.advert

    def router_of(self, service: bytes) -> bytes | None:
        """Return the router that names this service as its own; if there are several, the first one."""
        return next(iter(self._by_service.get(service, ())), None)

    def load(self, by: bytes, value: bytes) -> None:
        """Restore an entry from its row in the store."""
        until_s, message = cbor2.loads(value)
        self._enter(Entry(by, decode_advertisement(message), until_s))

    def read(self, said: Advertised, now_s: int) -> Entry | tuple[Reason, str]:
        """Return the entry that an advertisement makes, or why it is refused."""
        try:
            heard = decode_advertisement(said.body)
        except Malformed as error:
            return Reason.MALFORMED, str(error)
        found = succession(heard, self.get(heard.router))
        if found in (Succession.OLDER, Succession.CONFLICTING):
            return ADVERT_STALE, found.value
        return Entry(said.service, heard, heard.deadline_s(now_s))

    def is_news(self, entry: Entry) -> bool:
        """Whether an advertisement differs from the known one, which may only have been heard again."""
        return self.get(entry.router) != entry.advert

    def hear(self, entry: Entry, is_connected: Callable[[bytes], bool]) -> list[Entry]:
        """Enter an advertisement as the latest; return the entries that it replaces."""
        self._forget(entry.router, stays=entry.advert.services.values())
        gone = []
        while len(self._by_router) >= self._most:
            away = (one for key, one in self._by_router.items() if not is_connected(key))
            gone.append(next(away, None) or next(iter(self)))
            self._forget(gone[-1].router)
        self._enter(entry)
        return gone

    def take_over(self, now_s: int) -> list[Entry]:
        """Forget and return the entries whose time has passed."""
        over = [one for one in self if one.until_s <= now_s]
        for one in over:
            self._forget(one.router)
        return over

    def _enter(self, entry: Entry) -> None:
        self._by_router[entry.router] = entry
        for service in entry.advert.services.values():
            self._by_service.setdefault(service, {})[entry.router] = None

    def _forget(self, router: bytes, stays: Collection[bytes] = ()) -> None:
        """Forget a router, except its place among the routers that name the services in `stays`."""
        entry = self._by_router.pop(router, None)
        for service in entry.advert.services.values() if entry is not None else ():
            if service not in stays:
                del self._by_service[service][router]
                if not self._by_service[service]:
                    del self._by_service[service]
