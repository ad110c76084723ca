"""The departure of a key: everything that is kept for it here ends, or goes to the key that takes its place."""

from __future__ import annotations

from router.core.routing.away import Away
from router.core.routing.outcomes import FollowedOutcomes
from router.core.wire.now import Now

from .membership import Membership


class Departure:
    """Ends subscriptions and queue, what the key has missed, and the record of its absence."""

    def __init__(self, membership: Membership, outcomes: FollowedOutcomes, away: Away) -> None:
        self._membership = membership
        self._outcomes = outcomes
        self._away = away

    def gone(self, key: bytes, now: Now) -> None:
        """End everything that is kept for a key."""
        self._membership.leave_all(key, now)
        self._outcomes.forget(key)
        self._away.came(key)

    def move(self, key: bytes, to: bytes) -> None:
        """Keep for another key what is kept for this one, except its queue."""
        self._membership.move(key, to)
        self._outcomes.move(key, to)
        self._away.move(key, to)
