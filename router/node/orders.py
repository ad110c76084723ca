"""The operator's orders to a running node, which the message router takes like other events."""

from __future__ import annotations

from msgspec import Struct

from router.core.control.redeeming import UnansweredInvitation
from router.core.neighbours.directory import Neighbour
from router.service.verbs.verb import News


class ClearQueue(Struct, frozen=True):
    """Drop a recipient's queue."""

    recipient: bytes


class Reconfigured(Struct, frozen=True):
    """Replace the neighbours by those of the configuration, and the invitations to redeem and their inviters by those
    of the home; all were read again."""

    neighbours: tuple[Neighbour, ...]
    offers: tuple[UnansweredInvitation, ...] = ()
    inviters: frozenset[bytes] = frozenset()


class ServiceNews(Struct, frozen=True):
    """Tell a service of this node the result of its request."""

    service: bytes
    news: News


class ClockConfirmed(Struct, frozen=True):
    """Trust this machine's clock, which the operator says is right."""


Order = ClearQueue | Reconfigured | ServiceNews | ClockConfirmed
