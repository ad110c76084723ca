"""The operator's orders to a running node, which the message router takes in like other events."""

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
    """Replace the neighbours by those of the configuration, and the invitations to redeem, and the keys that have
    answered some before, by those that the home holds; all were read again."""

    neighbours: tuple[Neighbour, ...]
    offers: tuple[Offer, ...] = ()
    inviters: frozenset[bytes] = frozenset()


@dataclass(frozen=True, slots=True)
class ServiceNews:
    """Tell a service of this node what has become of what it asked for."""

    service: bytes
    word: str
    argument: str


@dataclass(frozen=True, slots=True)
class ClockConfirmed:
    """Believe this machine's clock, which the operator says is right."""
