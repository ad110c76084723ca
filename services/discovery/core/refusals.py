"""Refused input as events `discovery_refused`, by the router or the network that sent it."""

from __future__ import annotations

from router.core.service.refusals import Refusals
from router.core.wire.crypto import PublicKey
from router.core.wire.reasons import Reason
from router.service import contract as c
from services.discovery.core.sampling import Cause
from services.discovery.reasons import ADVERT_STALE

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
"""Reasons that are nobody's fault: after each renewal, older revisions are still on their way."""


class RouterRefusals(Refusals):
    """Counts of refusals by router and reason."""

    __slots__ = ()

    def drop(self, by: PublicKey, cause: Cause, entries: int) -> None:
        """Count input that sampling did not use; entries left unmerged because too many asked are no refusal."""
        if cause in _REASONS:
            self.count(_REASONS[cause], max(1, entries), by=by)

    def refuse(self, by: PublicKey, reason: Reason) -> None:
        if reason not in _NO_FAULT:
            self.count(reason, by=by)


def notes(refusals: Refusals) -> list[c.Deed]:
    """Return a note for each row, and start counting from zero."""
    return [c.LogEvent("discovery_refused", None, reason, fields) for reason, fields in refusals.take()]
