"""The knowledge of other routers that the parts of the pub/sub service share: advertisements, and connections."""

from __future__ import annotations

from collections.abc import Iterator

from router.core.service.adverts import Adverts, verified
from router.core.wire.address import AddressSource, refusal_of
from router.core.wire.advert import Advertisement
from router.core.wire.crypto import PublicKey
from router.service import contract as c
from services.pubsub.core.known import SERVICE, Neighbour
from services.pubsub.core.rings.overlay import Overlay

ADVERTS_MAX = 2_048
LEARNED_S = 2 * 3600


class Others:
    """`adverts`: verified advertisements; `linked`: the public pub/sub services of routers that are connected.

    `overlay`: the rings, once the service has started; None on a leaf."""

    __slots__ = ("adverts", "linked", "overlay")

    def __init__(self) -> None:
        self.adverts = Adverts(SERVICE, ADVERTS_MAX)
        self.linked: dict[PublicKey, PublicKey] = {}
        self.overlay: Overlay | None = None

    def __repr__(self) -> str:
        return f"<{len(self.linked)} routers with a pub/sub service are connected, {self.adverts!r}>"

    def service_of(self, router: PublicKey) -> PublicKey | None:
        """Return the public pub/sub service of a router, by its link or its advertisement."""
        return self.linked.get(router) or self.adverts.service_of(router)

    def neighbour(self, router: PublicKey) -> Neighbour | None:
        """Return a router as a member of rings; None if it has no known public pub/sub service."""
        service, advert = self.service_of(router), self.adverts.newest(router)
        prefix = None if advert is None else verified(advert, 0).prefix
        return None if service is None else Neighbour(router, service, prefix)

    def learn(self, router: PublicKey, now: c.Now) -> Iterator[c.Deed]:
        """Make a router known to this node's router by the addresses in its advertisement, if there is one."""
        advert = self.adverts.newest(router)
        if advert is None:
            return
        on_loopback = self.adverts.is_on_loopback
        urls = [
            one.url
            for one in advert.addresses
            if refusal_of(one, AddressSource.ANYBODY, on_loopback=on_loopback) is None
        ]
        until_s = min(advert.deadline_s(int(now.wall_s)), int(now.wall_s) + LEARNED_S)
        if urls:
            yield c.AddNeighbour(router, tuple(urls), until_s)

    def named(self, advert: Advertisement) -> Neighbour | None:
        """Return the member that an advertisement names, None if its router has no public pub/sub service."""
        service = advert.services.get(SERVICE)
        return None if service is None else Neighbour(advert.router, service, verified(advert, 0).prefix)
