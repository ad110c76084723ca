"""What of rejections goes to the log: one event a second for each asker and reason, and the rest as sums.

So nobody can push the evidence out of the log by what is turned away.
"""

from __future__ import annotations

from collections import Counter

from router.core.link.allowance import Allowance
from router.core.wire.reasons import Reason
from router.service import contract as c

from .notes import note_id
from .pool import Rejected

PAUSE_S = 1.0
PAIRS_MAX = 1_000
"""So many pairs of asker and reason are told apart."""
PER_S, BURST = 10.0, 100.0
SUM_S = 10.0


class TurnedAway:
    """Notes of what was turned away."""

    def __init__(self) -> None:
        self._allowance = Allowance(PER_S, BURST)
        self._last: dict[tuple[str, Reason], float] = {}
        self._reasons: Counter[Reason] = Counter()
        self._next_s = 0.0

    def __repr__(self) -> str:
        return f"<TurnedAway: {self._reasons.total()} rejections to be summed>"

    def rejected(self, asker: str, own_id: bytes, rejected: Rejected, now: c.Now) -> list[c.Deed]:
        """Return the note of a rejection, or count it; `asker`: an address, or a neighbour's name."""
        pair = asker, rejected.reason
        if now.mono_s - self._last.get(pair, -PAUSE_S) < PAUSE_S or not self._allowance.take(1, now.mono_s):
            self._reasons[rejected.reason] += 1
            return []
        self._last.pop(pair, None)
        self._last[pair] = now.mono_s
        if len(self._last) > PAIRS_MAX:
            del self._last[next(iter(self._last))]
        fields = {"by": asker, "detail": rejected.detail}
        return [c.Note("capd_turned_away", note_id(own_id), rejected.reason, fields)]

    def due(self, now: c.Now) -> list[c.Deed]:
        """Return the sums, if it is time for them."""
        if now.mono_s < self._next_s:
            return []
        self._next_s = now.mono_s + SUM_S
        reasons, self._reasons = self._reasons, Counter()
        return [c.Note("capd_turned_away_many", None, reason, {"count": count}) for reason, count in reasons.items()]
