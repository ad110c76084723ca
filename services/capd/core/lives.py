"""The lives of a message and of a standing query in a pool, as tables: columns and rows hold such states alone.

The initiator is who posts or asks, the responder the pool. A message that has ended stays, and counts, until others
displace it; then it has no second end. One that comes again after it is gone begins a new life.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import TypeVar

from router.core.link.machine import Agency, LocalProtocolError, Row, Table

QUERY_S_MAX = 30 * 86_400
"""A standing query is kept for so long at most."""


class Life(IntEnum):
    """How far a message's life has come; in a column, 0 is the row of none."""

    GONE = 0
    HELD = 1
    EXPIRED = 2
    RESCINDED = 3
    COMING = 4
    TURNED_AWAY = 5


class Asking(Enum):
    """How far a standing query's life has come."""

    ASKED = "asked"
    STANDS = "stands"
    ENDED = "ended"
    OVER = "over"
    REFUSED = "refused"


class Take:
    """It is taken, or its end is put off."""


class TurnAway:
    """It is not taken: `capd:below-line` and the like, or `capd:too-many-queries`."""


class Expire:
    """Its own expiration has come, or the time is over for which a query was asked."""


class Rescind:
    """Its secret was published."""


class Displace:
    """Others take its place: `capd:displaced`, or `capd:faded` if its priority was used up."""


class Withdraw:
    """Its asker ends it."""


MESSAGE: Table = {
    Life.COMING: Row(Agency.RESPONDER, {Take: Life.HELD, TurnAway: Life.TURNED_AWAY}),
    Life.HELD: Row(Agency.EITHER, {Expire: Life.EXPIRED, Rescind: Life.RESCINDED, Displace: Life.GONE}),
    Life.EXPIRED: Row(Agency.RESPONDER, {Displace: Life.GONE}),
    Life.RESCINDED: Row(Agency.RESPONDER, {Displace: Life.GONE}),
    Life.GONE: Row(Agency.NOBODY),
    Life.TURNED_AWAY: Row(Agency.NOBODY),
}
QUERY: Table = {
    Asking.ASKED: Row(Agency.RESPONDER, {Take: Asking.STANDS, TurnAway: Asking.REFUSED}),
    Asking.STANDS: Row(
        Agency.EITHER, {Take: Asking.STANDS, Withdraw: Asking.ENDED, Expire: Asking.OVER}, timeout_s=QUERY_S_MAX
    ),
    Asking.ENDED: Row(Agency.NOBODY),
    Asking.OVER: Row(Agency.NOBODY),
    Asking.REFUSED: Row(Agency.NOBODY),
}
KEPT = (Life.HELD, Life.EXPIRED, Life.RESCINDED)
"""In which a message is held, by the numbers under which they stand on disk."""

State = TypeVar("State", bound=Life | Asking)


def after(state: State, event: type) -> State:
    """Return the state that follows; raise `LocalProtocolError` for an event that has no place there."""
    table = MESSAGE if isinstance(state, Life) else QUERY
    found = table[state].on.get(event)
    if found is None:
        raise LocalProtocolError(f"{event.__name__} has no place in the state {state.name}")
    assert isinstance(found, type(state))
    return found
