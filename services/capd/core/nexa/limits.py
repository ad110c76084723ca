"""The limits on what neighbours may ask for, by connection and by address; they are checked before any work is done.

Work is counted in units: a packet, a message that is not taken, eight ids and 4 KiB that are read each cost one. A
message that is taken costs nothing, since its work has paid for it.
"""

from __future__ import annotations

from msgspec import Struct

UNIT_BYTES, UNIT_IDS = 4_096, 8
QUERY_UNITS, SECRET_UNITS, UNREADABLE_UNITS = 20, 40, 100
UNIT_ROWS = 5_000
"""Rows of the pool that are scanned for one unit, where only a scan finds what matches."""
UNIT_MATCHES = 2_500
"""Matches that are counted for one unit, in whatever way they are found."""
UNIT_ANSWERED_IDS, UNIT_ANSWERED = 100, 10
"""Ids, and messages, in the answer to a search for one unit."""


def answer_units(count: int, *, are_ids: bool) -> int:
    """Return the units that it costs to write `count` ids or messages into the answer to a search."""
    return count // (UNIT_ANSWERED_IDS if are_ids else UNIT_ANSWERED)


class NexaLimits(Struct, frozen=True):
    """The limits on a pool's neighbours; see `docs/capd.md`."""

    neighbours_max: int = 64
    """Connections opened by others; half of them may be without a greeting."""
    of_address: int = 8
    """Connections opened by one address."""
    units_per_s: float = 500.0
    units_burst: float = 20_000.0
    address_share: int = 2
    """The allowance of an address, as a multiple of that of one connection."""
    subscriptions: int = 256
    """Standing queries of one connection."""
    subscriptions_of_address: int = 512
    masked: int = 16
    """Standing queries with a mask, of one connection: they are compared one by one."""
    waiting_ids: int = 20_000
    """Ids requested by one connection that wait until it has read earlier answers."""
    wanted_ids: int = 20_000
    """Ids announced by one connection that have not been requested yet."""
    outstanding_ids: int = 2_000
    """Ids that are requested from one connection at once."""
    partial_bytes: int = 64 << 20
    """Bytes of incomplete packets, of all connections; beyond it the connection with most is closed."""
    turn_units: int = 400
    """Units of searches in one turn, some 20 ms: neighbours whose searches wait share them, and each has at least
    one."""
    waiting_requests: int = 1_024
    """Requests of one connection that wait until it has read earlier answers, or for its next turn."""
    unread_bytes: int = 1 << 20
    """Bytes written to a neighbour since the last ping that it has answered; beyond it no request is answered."""
    announce_bytes: int = 1 << 18
    """Bytes written to a neighbour since the last ping that it has answered; beyond it nothing is announced to it."""
    ping_bytes: int = 1 << 17
    """Bytes written to a neighbour after which it is pinged."""
    ping_s: float = 120.0
    """Seconds after which a neighbour is pinged."""
    pong_s: float = 120.0
    """Seconds that a neighbour has for its answer to a ping."""
    told_max: int = 4_000
    """Matches of one connection that are remembered, so that each is sent once."""
    asked_max: int = 100_000
    """Ids that were requested and have not come, of all neighbours."""
    addresses_max: int = 4_096
    """Addresses whose points and allowances are remembered."""
