"""The lives of a message and of a standing query in a pool, as tables; columns and rows store no other states.

The initiator is the sender or asker, the responder the pool. A message that has expired or was rescinded stays in the
pool, and counts for its size, until others displace it; that is no second end. A message that comes again after it is
gone begins a new life.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import TypeVar

from router.core.link.machine import Agency, LocalProtocolError, Row, Table

QUERY_S_MAX = 30 * 86_400
"""Longest time for which a standing query is kept."""


class Life(IntEnum):
    """The state of a message; in a column, 0 marks a place without a live row."""

    GONE = 0
    HELD = 1
    EXPIRED = 2
    RESCINDED = 3
    COMING = 4
    TURNED_AWAY = 5


class Asking(Enum):
    """The state of a standing query."""

    ASKED = "asked"
    STANDS = "stands"
    ENDED = "ended"
    OVER = "over"
    REFUSED = "refused"


class Take:
    """The pool takes the message or query, or a query's end is put off."""


class TurnAway:
    """The pool refuses a message (`capd:below-line` and the like), or a query (`capd:too-many-queries`)."""


class Expire:
    """The message's own expiration has come, or the time for which a query was asked is over."""


class Disclose:
    """The message's secret was published."""


class Displace:
    """Other messages take the message's place: `capd:displaced`, or `capd:faded` if its priority was used up."""


class Withdraw:
    """The asker ends the query."""


MESSAGE: Table = {
    Life.COMING: Row(Agency.RESPONDER, {Take: Life.HELD, TurnAway: Life.TURNED_AWAY}),
    Life.HELD: Row(Agency.EITHER, {Expire: Life.EXPIRED, Disclose: Life.RESCINDED, Displace: Life.GONE}),
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
"""The states of messages in a pool; a row on disk stores an index into them."""

State = TypeVar("State", bound=Life | Asking)


def after(state: State, event: type) -> State:
    """Return the state after an event; raise `LocalProtocolError` if the event is not allowed in this state."""
    table = MESSAGE if isinstance(state, Life) else QUERY
    found = table[state].on.get(event)
    if found is None:
        raise LocalProtocolError(f"{event.__name__} has no place in the state {state.name}")
    assert isinstance(found, type(state))
    return found
