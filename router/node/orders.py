"""The operator's orders to a running node, which the message router takes like other events."""

from __future__ import annotations

from dataclasses import dataclass

from router.core.routing.directory import Neighbour
from router.core.routing.redeeming import Offer


@dataclass(frozen=True, slots=True)
class ClearQueue:
    """Drop a recipient's queue."""

    recipient: bytes


@dataclass(frozen=True, slots=True)
class Reconfigured:
    """Replace the neighbours by those of the configuration, and the invitations to redeem and their inviters by those
    of the home; all were read again."""

    neighbours: tuple[Neighbour, ...]
    offers: tuple[Offer, ...] = ()
    inviters: frozenset[bytes] = frozenset()


@dataclass(frozen=True, slots=True)
class ServiceNews:
    """Tell a service of this node the result of its request."""

    service: bytes
    word: str
    argument: str


@dataclass(frozen=True, slots=True)
class ClockConfirmed:
    """Trust this machine's clock, which the operator says is right."""
