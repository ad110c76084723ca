"""Discovery's knowledge of this node and others, shared by its parts: each advertisement here is verified."""

from __future__ import annotations

from router.core.service.adverts import KNOWN_MAX, Adverts
from router.core.wire.advert import Advertisement
from router.core.wire.crypto import PublicKey

SERVICE = "discovery"


class Known(Adverts):
    """The router of this node (`router`, once the service has started), its advertisement (`own`), those of routers on
    allowed local networks (`nearby`), and the newest one of each other router. `on_lan`: some network is allowed;
    `agreed`: the routers there that share groups with this node, in their order; `linked`: the discovery services of
    configured and invited routers that are connected."""

    def __init__(self, most: int = KNOWN_MAX) -> None:
        super().__init__(SERVICE, most)
        self.router: PublicKey | None = None
        self.nearby: dict[PublicKey, Advertisement] = {}
        self.on_lan = False
        self.agreed: dict[PublicKey, None] = {}
        self.linked: dict[PublicKey, PublicKey] = {}

    def service_of(self, router: PublicKey) -> PublicKey | None:
        """Return a router's discovery service, as its link or else its advertisement names it."""
        return self.linked.get(router) or super().service_of(router)

    def link(self, router: PublicKey, service: PublicKey | None) -> None:
        """Record that a configured or invited router with this service is connected; None: it is not any more."""
        self.linked.pop(router, None)
        if service is not None:
            self.linked[router] = service
