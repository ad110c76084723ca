"""Which messages are passed on to a neighbour.

Nothing goes out that would be below the neighbour's line within 5 s, so that what is under way is not charged to us.
Under the strict profile a message is not passed on in the last 5 minutes before its own expiration, for the seed's
reason; queries are answered with it.
"""

from __future__ import annotations

from services.capd.core.columns import NEVER_S, Row
from services.capd.core.limits import LAST_S, Profile, Standing
from services.capd.core.pool import Pool
from services.capd.core.priority import RELAY_PRIORITY, aged

MARGIN_S = 5


class PassingOn:
    """Judges messages of one pool."""

    def __init__(self, pool: Pool, profile: Profile) -> None:
        self._pool = pool
        self._is_strict = profile is Profile.STRICT

    def __repr__(self) -> str:
        return f"<PassingOn: {self._pool!r}>"

    def may_go(self, row: Row, line: float, now_s: int) -> bool:
        """Whether a neighbour with this line may be sent a message that it asks for."""
        if not self._pool.standing(row, now_s).is_served:
            return False
        if self._is_strict and row.expires_at != NEVER_S and row.expires_at - now_s <= LAST_S:
            return False
        return aged(row.initial, row.create_time, now_s + MARGIN_S) >= line

    def is_announced(self, row: Row, now_s: int) -> bool:
        """Whether neighbours are told of a message at all; each only if it is above its line."""
        if self._pool.standing(row, now_s) is not Standing.RELAYED:
            return False
        return self.may_go(row, RELAY_PRIORITY, now_s)
