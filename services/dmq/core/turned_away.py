"""Rejections and closed connections in the log: each by itself while they are few, otherwise sums.

So nobody can push evidence out of the log by causing rejections.
"""

from __future__ import annotations

from collections import Counter

from router.core.link.allowance import Allowance
from router.core.wire.reasons import Reason
from router.service import contract as c

from .messages.fault import Rejected
from .messages.signed_message import SignedMessage
from .notes import id_of

PER_S, BURST = 10.0, 200.0
"""Rejections a second that are logged by themselves, and how many at once."""
SUM_S = 10.0
CAUSE_CHARS_MAX = 120
CAUSES_MAX = 50


class TurnedAway:
    """Notes about rejected messages and closed connections."""

    def __init__(self) -> None:
        self._allowance = Allowance(PER_S, BURST)
        self._reasons: Counter[Reason] = Counter()
        self._causes: Counter[str] = Counter()
        self._next_s = 0.0

    def __repr__(self) -> str:
        return f"<TurnedAway: {self._reasons.total()} rejections and {self._causes.total()} connections to be summed>"

    def rejected(self, message: SignedMessage, verdict: Rejected, now: c.Now, peer: str = "") -> list[c.Deed]:
        """Return the note of a rejection, or only count it. `peer`: the node that has brought the message."""
        if not self._allowance.take(1, now.mono_s):
            self._reasons[verdict.fault.reason] += 1
            return []
        fields = {"pool": message.certificate.pool.hex(), "name": verdict.fault.value, "detail": verdict.detail}
        if peer:
            fields["peer"] = peer
        return [c.LogEvent("dmq_rejected", id_of(message.id), verdict.fault.reason, fields)]

    def broken_off(self, cause: str) -> None:
        """Count a connection that the node closes."""
        cause = cause[:CAUSE_CHARS_MAX]
        self._causes[cause if cause in self._causes or len(self._causes) < CAUSES_MAX else "other causes"] += 1

    def due(self, now: c.Now) -> list[c.Deed]:
        """Return the sums, if it is time for them."""
        if now.mono_s < self._next_s:
            return []
        self._next_s = now.mono_s + SUM_S
        reasons, causes = self._reasons, self._causes
        self._reasons, self._causes = Counter(), Counter()
        return [
            *(c.LogEvent("dmq_turned_away", None, reason, {"count": count}) for reason, count in reasons.items()),
            *(
                c.LogEvent("dmq_broken_off", None, None, {"cause": cause, "count": count})
                for cause, count in causes.items()
            ),
        ]
