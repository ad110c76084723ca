"""What came in and was not taken, counted by the router that brought it; written down once a period."""

from __future__ import annotations

from collections import Counter

from router.core.wire.crypto import PublicKey
from router.core.wire.reasons import Reason
from router.service import contract as c
from services.discovery.core.sampling import Cause
from services.discovery.reasons import ADVERT_STALE

ROWS_MAX = 64
"""Routers and reasons counted apart in a period; beyond them all count as one, without a name."""
_REASONS = {
    Cause.EXPIRED: Reason.EXPIRY_PASSED,
    Cause.REPEATED: Reason.DUPLICATE,
    Cause.TOO_SOON: Reason.RATE_LIMITED,
    Cause.TOO_MANY: Reason.RATE_LIMITED,
    Cause.UNASKED: Reason.NOT_AUTHORISED,
    Cause.OWN_KEY: Reason.NOT_AUTHORISED,
    Cause.NOT_ITS_OWN: Reason.NOT_AUTHORISED,
    Cause.OVERSIZED: Reason.TOO_LARGE,
    Cause.EMPTY: Reason.MALFORMED,
}
_NO_FAULT = frozenset((ADVERT_STALE,))
"""An older revision than the known one is still under way after each renewal: it says nothing about its bringer."""


class Refusals:
    """Counts by router and reason."""

    def __init__(self, most: int = ROWS_MAX) -> None:
        self._most = most
        self._counts = Counter[tuple[PublicKey | None, Reason]]()

    def __repr__(self) -> str:
        return f"<refusals: {sum(self._counts.values())}>"

    def count(self, by: PublicKey, reason: Reason, entries: int = 1) -> None:
        if reason in _NO_FAULT:
            return
        row = by, reason
        self._counts[row if row in self._counts or len(self._counts) < self._most else (None, reason)] += entries

    def drop(self, by: PublicKey, cause: Cause, entries: int) -> None:
        """Count what sampling did not use; what it only did not merge, as too many asked, is no refusal."""
        if cause in _REASONS:
            self.count(by, _REASONS[cause], max(1, entries))

    def take(self) -> list[c.Deed]:
        """Return a note for each row, and count from nothing again."""
        counts, self._counts = self._counts, Counter()
        return [
            c.Note("discovery_refused", None, reason, {"router": by.hex() if by else "", "times": times})
            for (by, reason), times in counts.items()
        ]
