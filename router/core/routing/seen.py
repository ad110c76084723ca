"""The recent part of the duplicate index: ids of accepted messages, in memory (R-A12, R-C5).

The whole index is on disk under (expiry, id) until expiry + 10 minutes. Here are the most recent ids, so that a
flood of duplicates costs no signature check, and the ids being verified now, so that a copy of a message still in
flight shares the first copy's outcome.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from router.core.wire.packed_ids import PackedIds
from router.core.wire.reasons import Reason

KEEP_AFTER_EXPIRY_S = 600


class CopyState(Enum):
    """What is known of a message that has come: accepted before, the first copy in flight, or a later one."""

    ACCEPTED = "accepted"
    FIRST = "first"
    LATER = "later"


class Seen:
    """At most `recent_max` ids, 16 bytes each (`PackedIds`), and those being verified."""

    def __init__(self, recent_max: int) -> None:
        self._recent = PackedIds(recent_max)
        self._in_flight: dict[bytes, int] = {}  # how many later copies wait for the first
        self._verdicts: dict[bytes, tuple[Reason, str]] = {}  # of refused first copies with waiting copies

    def __repr__(self) -> str:
        return f"<{len(self._recent)} recent ids, {len(self._in_flight)} in flight>"

    def __contains__(self, message: bytes) -> bool:
        return message in self._recent

    def begin(self, message: bytes) -> CopyState:
        """Note that a copy has come, unless the message was accepted; a later copy must be `resolve`d by the caller."""
        if message in self._recent:
            return CopyState.ACCEPTED
        waiting = self._in_flight.get(message)
        self._in_flight[message] = 0 if waiting is None else waiting + 1
        return CopyState.FIRST if waiting is None else CopyState.LATER

    def accept(self, message: bytes) -> None:
        self.accept_all((message,))

    def accept_all(self, messages: Iterable[bytes]) -> None:
        in_flight, add = self._in_flight, self._recent.add
        for message in messages:
            in_flight.pop(message, None)
            add(message)

    def refuse(self, message: bytes, reason: Reason, text: str) -> None:
        """Forget a refused message, but keep the verdict for its waiting copies."""
        waiting = self._in_flight.pop(message, 0)
        if waiting:
            self._in_flight[message] = waiting
            self._verdicts[message] = reason, text

    def is_open(self, message: bytes) -> bool:
        """Whether the first copy is not decided yet."""
        return message in self._in_flight and message not in self._verdicts

    def resolve(self, message: bytes) -> tuple[Reason, str] | None:
        """Return the verdict for a copy that waited until the first was decided; None if the first was accepted."""
        verdict = self._verdicts.get(message)
        if verdict is None:
            return None
        waiting = self._in_flight[message] - 1
        if waiting:
            self._in_flight[message] = waiting
        else:
            del self._in_flight[message], self._verdicts[message]
        return verdict
