"""Notes about single messages, up to a number a minute in the node's log; beyond it they are only counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from router.core.wire.crypto import MessageId
from router.core.wire.reasons import Reason
from router.service import contract as c

NOTES_PER_MINUTE = 60
ROWS_MAX = 64
"""Most rows that are counted separately in a minute; beyond it all of an event count as one."""

Row = tuple[str, Reason | None, str]
"""An event, its reason, and the router that the message came from or went to."""


class MinuteNotes:
    """Writes an event for each message until a minute has had `most`; `take` begins the next minute."""

    def __init__(self, most: int = NOTES_PER_MINUTE) -> None:
        self._most = self._left = most
        self._counts = Counter[Row]()

    def __repr__(self) -> str:
        return f"<notes of a minute: {sum(self._counts.values())} events counted>"

    def __bool__(self) -> bool:
        """Whether anything was noted or counted since the last `take`."""
        return self._left < self._most or bool(self._counts)

    def note(
        self,
        event: str,
        id: MessageId,
        reason: Reason | None = None,
        fields: Mapping[str, str | int | bool] | None = None,
    ) -> list[c.Deed]:
        """Note an event about a message, or count it."""
        if not self._left:
            self.count(event, reason)
            return []
        self._left -= 1
        return [c.LogEvent(event, id, reason, dict(fields or {}))]

    def count(self, event: str, reason: Reason | None = None, source: bytes = b"", times: int = 1) -> None:
        row = event, reason, source.hex()
        self._counts[row if row in self._counts or len(self._counts) < ROWS_MAX else (event, reason, "")] += times

    def take(self) -> list[c.Deed]:
        """Return a note for each row that was counted, and begin the next minute."""
        counts, self._counts, self._left = self._counts, Counter(), self._most
        return [
            c.LogEvent(event, None, reason, {"times": times, **({"source": source} if source else {})})
            for (event, reason, source), times in counts.items()
        ]
