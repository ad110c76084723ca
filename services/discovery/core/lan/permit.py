"""The operator's permission for this node to be heard (D18)."""

from __future__ import annotations

from msgspec import Struct

from router.core.wire.crypto import PublicKey
from router.service.roles.discovery import Interface
from services.discovery.core.lan.networks import is_local, network_of

OFF, ALLOWED, EVERYWHERE = "off", "allowed", "everywhere"


class Permit(Struct, frozen=True):
    """Where the operator allows this node to be heard: in the networks with these ids, everywhere, or nowhere."""

    mode: str = OFF
    networks: frozenset[str] = frozenset()
    groups: tuple[PublicKey | str, ...] = ()
    port: int = 0

    def allows(self, one: Interface) -> bool:
        """Whether datagrams may be sent on this interface."""
        if not is_local(one) or self.mode == OFF:
            return False
        network = network_of(one)
        return self.mode == EVERYWHERE or (network is not None and network.id in self.networks)
