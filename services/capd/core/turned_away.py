"""Log events about rejections: one a second for each asker and reason, and sums of all.

Thus nobody can push evidence out of the log with messages that are turned away.
"""

from __future__ import annotations

from router.core.link.allowance import Allowance
from router.core.service.refusals import Refusals
from router.core.wire.crypto import KEY_BYTES
from router.core.wire.reasons import Reason
from router.service import contract as c

from .notes import note_id
from .pool import Rejected

PAUSE_S = 1.0
PAIRS_MAX = 1_000
"""Most pairs of asker and reason that are remembered; beyond it, the one logged longest ago is forgotten."""
PER_S, BURST = 10.0, 100.0
SUM_S = 10.0


class TurnedAway:
    """Counts rejections, and limits the log events about them."""

    def __init__(self) -> None:
        self._allowance = Allowance(PER_S, BURST)
        self._last: dict[tuple[str, Reason], float] = {}
        self._refusals = Refusals()
        self._next_s = 0.0

    def __repr__(self) -> str:
        return f"<TurnedAway: {self._refusals!r} to be summed>"

    def rejected(self, asker: str, own_id: bytes, rejected: Rejected, now: c.Now, network: str = "") -> list[c.Deed]:
        """Count a rejection, and return its log event unless there were too many. `asker`: an address of the router in
        hex, or the name of a neighbour if its `network` is given."""
        is_key = not network and len(asker) == 2 * KEY_BYTES
        self._refusals.count(rejected.reason, by=bytes.fromhex(asker) if is_key else b"", prefix=network)
        pair = asker, rejected.reason
        if now.mono_s - self._last.get(pair, -PAUSE_S) < PAUSE_S or not self._allowance.take(1, now.mono_s):
            return []
        self._last.pop(pair, None)
        self._last[pair] = now.mono_s
        if len(self._last) > PAIRS_MAX:
            del self._last[next(iter(self._last))]
        fields = {"by": asker, "detail": rejected.detail}
        return [c.LogEvent("capd_turned_away", note_id(own_id), rejected.reason, fields)]

    def due(self, now: c.Now) -> list[c.Deed]:
        """Return the sums of rejections by sender, which the audit counts as abuse, if they are due."""
        if now.mono_s < self._next_s:
            return []
        self._next_s = now.mono_s + SUM_S
        return [c.LogEvent("capd_refused", None, reason, fields) for reason, fields in self._refusals.take()]
