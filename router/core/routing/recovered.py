"""The state that the deciding core reads from the store at a start, to continue where it stopped."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct, field

from router.core.log.life import Life
from router.core.wire.link_items import Missed

from .groups import Subscription
from .purges import Purge
from .routes import Route


class Backlog(NamedTuple):
    """The total that a recipient is still owed of one signer and neighbour (the first bytes of their keys)."""

    recipient: bytes
    signer_tag: bytes
    neighbour_tag: bytes
    messages: int
    bytes: int


class Holding(NamedTuple):
    """The total of messages in the store that one neighbour brought and that are still owed, each counted once."""

    neighbour_tag: bytes
    messages: int
    bytes: int


class Belief(NamedTuple):
    """The judgement of the wall clock when the store was last written.

    `judged_ns`: the time used for verdicts; `shown_ns`: the time that the clock showed, both in Unix nanoseconds;
    `state`: a word of `router.node.wall_clock.ClockState`; `earlier_ns`: the later time that an earlier run trusted, 0
    if there is none."""

    judged_ns: int
    shown_ns: int
    state: str
    earlier_ns: int = 0


class Recovered(Struct):
    """The contents of the store when the node starts."""

    epoch: bytes = bytes(8)
    next_arrival: int = 1
    life: Life = Life()
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
