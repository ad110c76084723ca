"""How long messages take over one hop: from when the first peer has announced one until a peer's is live here."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import Any

BOUNDS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""The bounds of the metric's buckets."""
LATEST_MAX = 1000
"""Number of latest messages from which the quantiles are."""


class HopDelay:
    """The delays since the start, in buckets, and the latest ones."""

    def __init__(self) -> None:
        self._buckets = [0] * (len(BOUNDS_S) + 1)
        self._latest: deque[float] = deque(maxlen=LATEST_MAX)
        self._total_s = 0.0

    def __repr__(self) -> str:
        return f"<HopDelay of {sum(self._buckets)} messages>"

    def add(self, delay_s: float) -> None:
        """Count a message."""
        self._buckets[bisect_left(BOUNDS_S, delay_s)] += 1
        self._latest.append(delay_s)
        self._total_s += delay_s

    def as_status(self) -> dict[str, Any]:
        """Return what `status` shows: quantiles of the latest, None if there are none; the sum and the buckets."""
        latest = sorted(self._latest)
        return {
            "median_s": _quantile(latest, 0.5),
            "p95_s": _quantile(latest, 0.95),
            "sum_s": round(self._total_s, 6),
            "buckets": list(self._buckets),
        }


def _quantile(latest: list[float], share: float) -> float | None:
    return round(latest[min(len(latest) - 1, int(share * len(latest)))], 3) if latest else None
