"""Refused input, by the router that sent it; recorded once a minute."""

from __future__ import annotations

from router.core.service import refusals
from router.core.wire.crypto import PublicKey
from router.core.wire.reasons import Reason
from router.service import contract as c

NOTED_S = 60.0


class Refusals:
    """Counts by router and reason."""

    __slots__ = ("_counted", "_next_s")

    def __init__(self) -> None:
        self._counted = refusals.Refusals()
        self._next_s = 0.0

    def __repr__(self) -> str:
        return repr(self._counted)

    def count(self, by: PublicKey, reason: Reason) -> None:
        self._counted.count(reason, by=by)

    def take(self, now: c.Now) -> list[c.Deed]:
        """Return a note for each row, once a minute, and start counting from zero."""
        if now.mono_s < self._next_s or not len(self._counted):
            return []
        self._next_s = now.mono_s + NOTED_S
        return [c.LogEvent("pubsub_refused", None, reason, fields) for reason, fields in self._counted.take()]
