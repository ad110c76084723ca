"""What a connection tells the message router: a link came up or went, what was settled, refused, measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from router.core.routing.intake import Arrived
from router.core.wire.crypto import PublicKey
from router.core.wire.link_items import Hello, LogHead
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
    """The link is gone; `text` says why."""

    link: int
    text: str


@dataclass(frozen=True, slots=True)
class Settled:
    """The neighbour settled the first `n` of what was handed to it."""

    link: int
    n: int


@dataclass(frozen=True, slots=True)
class RefusedOne:
    """The neighbour refused the `k`-th of what was handed to it."""

    link: int
    k: int
    reason: Reason
    text: str


@dataclass(frozen=True, slots=True)
class Measured:
    """A ping came back: round trip and the neighbour's clock against ours, and how far its log reached."""

    link: int
    rtt_ns: int
    offset_ns: int
    head: LogHead | None


LinkEvent = Opened | Closed | Settled | RefusedOne | Measured | Arrived
