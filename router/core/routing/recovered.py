"""What deciding needs from the store to go on where it stopped."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from router.core.wire.link_items import Missed

from .groups import Subscription
from .purges import Purge
from .routes import Route


class Backlog(NamedTuple):
    """What the store still owes somebody from earlier: totals by signer and neighbour (first bytes of their keys)."""

    recipient: bytes
    signer_tag: bytes
    neighbour_tag: bytes
    messages: int
    bytes: int


class Holding(NamedTuple):
    """What the store holds for somebody of what that neighbour brought, each message once."""

    neighbour_tag: bytes
    messages: int
    bytes: int


class Belief(NamedTuple):
    """What was thought of the wall clock when the store was last written: the time that verdicts went by, what the
    clock showed, both Unix nanoseconds, and a word of `router.node.wall_clock.State`."""

    judged_ns: int
    shown_ns: int
    state: str


@dataclass(slots=True)
class Recovered:
    """What the store holds when the node starts."""

    epoch: bytes = bytes(8)
    next_arrival: int = 1
    index_entries: int = 0
    index_shares: dict[bytes, int] = field(default_factory=dict)
    clock: Belief | None = None
    held: list[Holding] = field(default_factory=list)
    subscriptions: list[Subscription] = field(default_factory=list)
    routes: list[Route] = field(default_factory=list)
    locals: list[bytes] = field(default_factory=list)
    backlog: list[Backlog] = field(default_factory=list)
    purges: list[Purge] = field(default_factory=list)
    away: dict[bytes, int] = field(default_factory=dict)
    missed: list[tuple[bytes, Missed]] = field(default_factory=list)
    book: list[tuple[bytes, bytes]] = field(default_factory=list)
