"""The decision which messages are passed on: those that are served, at or above a line.

A message that is asked for is sent if it is not below the line within a second, so that its time under way is not
charged to us.
"""

from __future__ import annotations

from services.capd.core.columns import Row
from services.capd.core.limits import Standing
from services.capd.core.pool import Pool
from services.capd.core.priority import aged

UNDER_WAY_S = 1


class PassingOn:
    """Decides which messages of one pool are passed on."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def __repr__(self) -> str:
        return f"<PassingOn: {self._pool!r}>"

    def is_passed_on(self, row: Row, now_s: int) -> bool:
        """Whether a message is passed on at all: it is held, and was neither rescinded nor has it expired."""
        return self._pool.standing(row, now_s).is_served

    def may_go(self, row: Row, line: float, now_s: int) -> bool:
        """Whether a message that a neighbour with this line asks for may be sent to it."""
        return self.is_passed_on(row, now_s) and aged(row.initial, row.create_time, now_s + UNDER_WAY_S) >= line

    def is_announced(self, row: Row, now_s: int) -> bool:
        """Whether a message is at or above the pool's own relay line."""
        return self._pool.standing(row, now_s) is Standing.RELAYED
