"""The places of comparisons: how many there may be at once, and with one neighbour, so that each leaves room for others
(R-C35)."""

from __future__ import annotations

from collections.abc import Mapping

from router.core.link.allowance import Allowance
from router.core.wire.crypto import PublicKey
from router.service import contract as c
from services.pubsub.core.compare_plan import CompareLimits, Session, allowance_of


class Places:
    """Says whether another comparison may begin. `sessions`: those open, by router and group."""

    def __init__(self, sessions: Mapping[tuple[PublicKey, PublicKey], Session], limits: CompareLimits) -> None:
        self._sessions = sessions
        self._limits = limits
        self._silent: set[PublicKey] = set()  # neighbours that left the last question unanswered
        self._begins: dict[PublicKey, Allowance] = {}  # of what neighbours are asked because they are back

    def __repr__(self) -> str:
        return f"<{len(self._sessions)} of {self._limits.sessions_max} places of comparisons taken>"

    @property
    def are_taken(self) -> bool:
        """Whether none may begin with any neighbour."""
        return len(self._sessions) >= self._limits.sessions_max

    def has_one(self, router: PublicKey) -> bool:
        """Whether this neighbour has not taken all of its own."""
        most = 1 if router in self._silent else self._limits.of_router_max
        return not self.are_taken and sum(one.router == router for one in self._sessions.values()) < most

    def may_begin(self, router: PublicKey, now: c.Now) -> bool:
        """Whether one may begin because this neighbour is back, which is counted."""
        if not self.has_one(router):
            return False
        limits = self._limits
        return allowance_of(self._begins, router, limits.begins_per_s, limits.begins_burst, limits).take(1, now.mono_s)

    def answered(self, router: PublicKey) -> None:
        """Record that a neighbour has answered."""
        self._silent.discard(router)

    def left_unanswered(self, router: PublicKey) -> None:
        """Record that a neighbour has not answered; beyond the limit, all begin anew."""
        if len(self._silent) >= self._limits.neighbours_max:
            self._silent.clear()
        self._silent.add(router)
