"""The places of comparisons: how many there may be at once, and with one neighbour, so that each leaves room for others
(R-C35)."""

from __future__ import annotations

from collections.abc import Mapping

from router.core.link.allowance import Allowance
from router.core.wire.crypto import PublicKey
from router.service import contract as c
from services.pubsub.core.comparison.plan import CompareLimits, Session, allowance_of, cost_of


class Places:
    """Says whether another comparison may begin. `sessions`: those open, by router and group."""

    def __init__(self, sessions: Mapping[tuple[PublicKey, PublicKey], Session], limits: CompareLimits) -> None:
        self._sessions = sessions
        self._limits = limits
        self._silent: set[PublicKey] = set()  # neighbours that left the last question unanswered
        self._frames: dict[PublicKey, Allowance] = {}  # of frames to neighbours
        self._begins: dict[PublicKey, Allowance] = {}  # of what neighbours are asked because they are back

    def __repr__(self) -> str:
        return f"<{len(self._sessions)} of {self._limits.sessions_max} places of comparisons taken>"

    @property
    def are_taken(self) -> bool:
        """Whether none may begin with any neighbour."""
        return len(self._sessions) >= self._limits.sessions_max

    def has_one(self, router: PublicKey, now: c.Now) -> bool:
        """Whether this neighbour has not taken all of its own, and takes another frame of this node."""
        if not self._frames_of(router).take(0, now.mono_s):
            return False
        most = 1 if router in self._silent else self._limits.of_router_max
        return not self.are_taken and sum(one.router == router for one in self._sessions.values()) < most

    def may_begin(self, router: PublicKey, now: c.Now) -> bool:
        """Whether one may begin because this neighbour is back, which is counted."""
        if not self.has_one(router, now):
            return False
        limits = self._limits
        return allowance_of(self._begins, router, limits.begins_per_s, limits.begins_burst, limits).take(1, now.mono_s)

    def _frames_of(self, router: PublicKey) -> Allowance:
        limits = self._limits
        per_s, burst = limits.frames_per_s * limits.frames_share, limits.frames_burst * limits.frames_share
        return allowance_of(self._frames, router, per_s, burst, limits)

    def asked(self, router: PublicKey, frame: bytes, now: c.Now) -> None:
        """Count a frame to a neighbour, which takes no more than its limit."""
        self._frames_of(router).charge(cost_of(frame, self._limits), now.mono_s)

    def answered(self, router: PublicKey) -> None:
        """Record that a neighbour has answered."""
        self._silent.discard(router)

    def left_unanswered(self, router: PublicKey) -> None:
        """Record that a neighbour has not answered; beyond the limit, all begin anew."""
        if len(self._silent) >= self._limits.neighbours_max:
            self._silent.clear()
        self._silent.add(router)
