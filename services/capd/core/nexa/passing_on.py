"""The decision which messages are passed on to a neighbour.

A message that would be below the neighbour's line within 5 s is not sent, so that its time under way is not charged to
us. Under the strict profile a message is not passed on in the last 5 minutes before its own expiration (seed 004), but
it still answers queries.
"""

from __future__ import annotations

from services.capd.core.columns import NEVER_S, Row
from services.capd.core.limits import LAST_S, Profile, Standing
from services.capd.core.pool import Pool
from services.capd.core.priority import RELAY_PRIORITY, aged

MARGIN_S = 5


class PassingOn:
    """Decides which messages of one pool are passed on."""

    def __init__(self, pool: Pool, profile: Profile) -> None:
        self._pool = pool
        self._is_strict = profile is Profile.STRICT

    def __repr__(self) -> str:
        return f"<PassingOn: {self._pool!r}>"

    def may_go(self, row: Row, line: float, now_s: int) -> bool:
        """Whether a message that a neighbour with this line asks for may be sent to it."""
        if not self._pool.standing(row, now_s).is_served:
            return False
        if self._is_strict and row.expires_at != NEVER_S and row.expires_at - now_s <= LAST_S:
            return False
        return aged(row.initial, row.create_time, now_s + MARGIN_S) >= line

    def is_announced(self, row: Row, now_s: int) -> bool:
        """Whether a message is announced to neighbours at all; to each only if it is above that neighbour's line."""
        if self._pool.standing(row, now_s) is not Standing.RELAYED:
            return False
        return self.may_go(row, RELAY_PRIORITY, now_s)
