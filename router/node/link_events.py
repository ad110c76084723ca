"""Events from a connection to the message router: a link opened or closed; messages settled or refused; a ping's
measurement."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from router.core.routing.intake import Arrived
from router.core.wire.crypto import PublicKey
from router.core.wire.link_items import Hello, LogHead, Missed
from router.core.wire.reasons import Reason
from router.core.wire.run_claim import RunClaim, RunStopped
from router.node.link_writer import LinkWriter


class Clock(Protocol):
    """Both clocks of this machine, in nanoseconds."""

    def wall_ns(self) -> int: ...
    def mono_ns(self) -> int: ...


class LinkOpened(Struct, frozen=True):
    """A neighbour has proven its key."""

    link_writer: LinkWriter
    key: PublicKey
    owner: bool
    dialled: bool
    hello: Hello


class LinkClosed(Struct, frozen=True):
    """The link has ended; `text` says why."""

    link: int
    text: str


class NeighbourSettled(Struct, frozen=True):
    """The neighbour has settled the first `n` messages that were sent to it."""

    link: int
    n: int


class RefusedOne(Struct, frozen=True):
    """The neighbour has refused the `k`-th message that was sent to it."""

    link: int
    k: int
    reason: Reason
    text: str


class Measured(Struct, frozen=True):
    """A pong came: its round trip, the offset of the neighbour's clock from ours, and the head of its log."""

    link: int
    rtt_ns: int
    offset_ns: int
    head: LogHead | None


class MissedSome(Struct, frozen=True):
    """The neighbour has refused or dropped messages that were for this node."""

    link: int
    missed: Missed


class OwnRunShown(Struct, frozen=True):
    """A neighbour has shown a statement about another run that this node's own key has signed."""

    said: RunClaim | RunStopped


class NeighbourRunStopped(Struct, frozen=True):
    """A neighbour has stated that a run of its key has stopped as a copy."""

    key: PublicKey
    where: str
    said: RunStopped


class NetworkChanged(Struct, frozen=True):
    """Addresses or routes of this machine have changed."""


LinkEvent = (
    LinkOpened
    | LinkClosed
    | NeighbourSettled
    | RefusedOne
    | Measured
    | MissedSome
    | OwnRunShown
    | NeighbourRunStopped
    | NetworkChanged
    | Arrived
)
