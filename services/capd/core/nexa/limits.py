"""How much neighbours may do, of one connection and of one address, before anything that they ask for is done.

Work is counted in units: a packet, a message that is not taken, eight ids and 4 KiB that are read each cost one. A
message that is taken costs nothing, since its work has paid for it.
"""

from __future__ import annotations

from msgspec import Struct

UNIT_BYTES, UNIT_IDS = 4_096, 8
QUERY_UNITS, SECRET_UNITS, UNREADABLE_UNITS = 20, 40, 100
UNIT_ROWS = 5_000
"""Rows of the pool that are looked through for one unit, where nothing but looking finds what matches."""
UNIT_MATCHES = 2_500
"""Matches that are counted for one unit, however they are found."""
UNIT_ANSWERED_IDS, UNIT_ANSWERED = 100, 10
"""Ids, and messages, that an answer to a search holds for one unit."""


def answer_units(count: int, *, are_ids: bool) -> int:
    """Return what it costs to write so many ids or messages into an answer to a search."""
    return count // (UNIT_ANSWERED_IDS if are_ids else UNIT_ANSWERED)


class NexaLimits(Struct, frozen=True):
    """The limits; see `docs/capd.md`."""

    neighbours_max: int = 64
    """Connections that others have opened; half of them may be without a greeting."""
    of_address: int = 8
    """Connections that one address has opened."""
    units_per_s: float = 500.0
    units_burst: float = 20_000.0
    address_share: int = 2
    """An address may ask for so much more than one connection."""
    subscriptions: int = 256
    """Standing queries of one connection."""
    subscriptions_of_address: int = 512
    masked: int = 16
    """Standing queries with a mask, of one connection: they are compared one by one."""
    waiting_ids: int = 20_000
    """Ids of one connection that it has asked for and that wait until it has read earlier answers."""
    wanted_ids: int = 20_000
    """Ids of one connection that it has announced and was not asked for yet."""
    outstanding_ids: int = 2_000
    """Ids that one connection is asked for at once."""
    partial_bytes: int = 64 << 20
    """Bytes of packets that are not whole, of all connections; beyond it the one with most is ended."""
    turn_units: int = 400
    """Units of searches after which others have their turn, some 20 ms: those whose searches wait share them, and each
    has at least one."""
    waiting_requests: int = 1_024
    """Requests of one connection that wait until it has read earlier answers, or for its turn."""
    unread_bytes: int = 1 << 20
    """Bytes written to a neighbour beyond its last answer to a ping; then no more is answered."""
    announce_bytes: int = 1 << 18
    """Bytes beyond its last answer to a ping at which nothing more is announced to it."""
    ping_bytes: int = 1 << 17
    """Bytes after which a neighbour is pinged."""
    ping_s: float = 120.0
    """Seconds after which a neighbour is pinged."""
    pong_s: float = 120.0
    """Seconds that a neighbour has for its answer to a ping."""
    told_max: int = 4_000
    """Matches of one connection that are remembered, so that each is told once."""
    asked_max: int = 100_000
    """Ids that were asked for and have not come, in all."""
    addresses_max: int = 4_096
    """Addresses whose points and allowances are remembered."""
