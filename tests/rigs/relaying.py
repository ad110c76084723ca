"""The pub/sub service as it ships, in a group whose neighbours are given by settings instead of meetings."""

from __future__ import annotations

from router.core.wire.crypto import PublicKey
from router.service import contract as c
from router.service.roles import overlay as o
from services.pubsub.core.known import Neighbour
from services.pubsub.rules import PubSub
from services.pubsub.settings import Settings as PubSubSettings

ROLE = "overlay"


class Settings(PubSubSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Keys in hexadecimal: of a group, and of `routers` on its ring: the next node, the previous one, others."""

    group: str
    routers: tuple[str, ...] = ()


class Relaying(PubSub):
    """Relays as `PubSub` does."""

    def __init__(self, setup: c.Setup) -> None:
        super().__init__(setup)
        self._group = PublicKey(bytes.fromhex(setup.settings.group))
        self._routers = [PublicKey(bytes.fromhex(one)) for one in setup.settings.routers]

    def hear(self, heard: c.Heard, now: c.Now) -> list[c.Deed]:
        deeds = super().hear(heard, now)
        if isinstance(heard, c.Started):
            deeds += super().hear(o.Wanted(self._group, True), now)
            self._stand_on_the_ring()
        return deeds

    def _stand_on_the_ring(self) -> None:
        topic = self.known.topics[self._group]
        topic.t.update({one: bytes(16) for one in self._routers})
        neighbours = [Neighbour(one, one) for one in self._routers]
        topic.show(tuple(neighbours[:1]), tuple(neighbours[1:2]), tuple(neighbours[2:]))
