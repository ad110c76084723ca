"""Counts of refused input, by the router or network that sent it and by reason, recorded from time to time as events
`…_refused`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from router.core.wire.reasons import Reason

ROWS_MAX = 64
"""Rows counted separately between two recordings; beyond them all refusals of a reason count as one row, without router
and network."""


class RefusalRow(NamedTuple):
    """One row: the reason, and the fields of its event. `router` or `prefix` is empty if unknown or if there were
    several."""

    reason: Reason
    fields: Mapping[str, str | int]


class Refusals:
    """Counts by router or network, and reason."""

    __slots__ = ("_counts", "_most")

    def __init__(self, most: int = ROWS_MAX) -> None:
        self._most = most
        self._counts = Counter[tuple[Reason, bytes, str]]()

    def __repr__(self) -> str:
        return f"<refusals: {self._counts.total()}>"

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._counts)

    def count(self, reason: Reason, times: int = 1, *, by: bytes = b"", prefix: str = "") -> None:
        """Count an input refused from the router `by`, or from the network `prefix` (as `192.0.2.0/24`)."""
        row = reason, by, prefix
        self._counts[row if row in self._counts or len(self._counts) < self._most else (reason, b"", "")] += times

    def by_reason(self) -> dict[Reason, int]:
        """Return the counts since the last recording, by reason."""
        found = Counter[Reason]()
        for (reason, _, _), times in self._counts.items():
            found[reason] += times
        return dict(found)

    def take(self) -> list[RefusalRow]:
        """Return all rows, and start counting again from zero."""
        counts, self._counts = self._counts, Counter()
        return [
            RefusalRow(reason, {"prefix": prefix, "times": times} if prefix else {"router": by.hex(), "times": times})
            for (reason, by, prefix), times in counts.items()
        ]
