"""Events from a connection to the message router: a link opened or closed; messages settled or refused; a ping's
measurement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from router.core.routing.intake import Arrived
from router.core.wire.crypto import PublicKey
from router.core.wire.link_items import Hello, LogHead, Missed
from router.core.wire.reasons import Reason
from router.node.link_writer import LinkWriter


class Clock(Protocol):
    """Both clocks of this machine, in nanoseconds."""

    def wall_ns(self) -> int: ...
    def mono_ns(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Opened:
    """A neighbour has proven its key."""

    link_writer: LinkWriter
    key: PublicKey
    owner: bool
    dialled: bool
    hello: Hello


@dataclass(frozen=True, slots=True)
class Closed:
    """The link has ended; `text` says why."""

    link: int
    text: str


@dataclass(frozen=True, slots=True)
class Settled:
    """The neighbour has settled the first `n` messages that were sent to it."""

    link: int
    n: int


@dataclass(frozen=True, slots=True)
class RefusedOne:
    """The neighbour has refused the `k`-th message that was sent to it."""

    link: int
    k: int
    reason: Reason
    text: str


@dataclass(frozen=True, slots=True)
class Measured:
    """A pong came: its round trip, the offset of the neighbour's clock from ours, and the head of its log."""

    link: int
    rtt_ns: int
    offset_ns: int
    head: LogHead | None


@dataclass(frozen=True, slots=True)
class MissedSome:
    """The neighbour has refused or dropped messages that were for this node."""

    link: int
    missed: Missed


LinkEvent = Opened | Closed | Settled | RefusedOne | Measured | MissedSome | Arrived
