"""What came in and did not count, by the router that brought it; written down once a minute."""

from __future__ import annotations

from collections import Counter

from router.core.wire.crypto import PublicKey
from router.core.wire.reasons import Reason
from router.service import contract as c

ROWS_MAX = 64
"""Routers and reasons counted apart in a minute; beyond them all count as one, without a name."""
NOTED_S = 60.0


class Refusals:
    """Counts by router and reason."""

    __slots__ = ("_counts", "_next_s")

    def __init__(self) -> None:
        self._counts = Counter[tuple[PublicKey | None, Reason]]()
        self._next_s = 0.0

    def __repr__(self) -> str:
        return f"<refusals: {sum(self._counts.values())}>"

    def count(self, by: PublicKey, reason: Reason, times: int = 1) -> None:
        row = by, reason
        self._counts[row if row in self._counts or len(self._counts) < ROWS_MAX else (None, reason)] += times

    def take(self, now: c.Now) -> list[c.Deed]:
        """Return a note for each row, once a minute, and count from nothing again."""
        if now.mono_s < self._next_s or not self._counts:
            return []
        self._next_s = now.mono_s + NOTED_S
        counts, self._counts = self._counts, Counter()
        return [
            c.Note("pubsub_refused", None, reason, {"router": by.hex() if by else "", "times": times})
            for (by, reason), times in counts.items()
        ]
