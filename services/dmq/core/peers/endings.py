"""Why connections with other nodes have ended, or did not come about: for the log, and for the operator."""

from __future__ import annotations

from collections import Counter

CAUSES_MAX = 50
"""Most different causes that are counted by themselves since the start."""
OTHER = "other causes"


class PeerEndings:
    """The causes, since the start and since they were taken last."""

    def __init__(self) -> None:
        self._fresh: list[str] = []
        self.counts: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<PeerEndings: {self.counts.total()} of {len(self.counts)} causes>"

    def note(self, cause: str) -> None:
        self._fresh.append(cause)
        self.counts[cause if cause in self.counts or len(self.counts) < CAUSES_MAX else OTHER] += 1

    def take(self) -> list[str]:
        """Return the causes since the last call."""
        found, self._fresh = self._fresh, []
        return found
