"""Count observed values by fixed bounds, as a monitoring system reads them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

BRIEF_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Bounds for what a machine does by itself: a transaction, a turn of the loop."""
WAITED_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0, 3600.0, 86_400.0, 604_800.0)
"""Bounds for what waits for others, perhaps until they are back."""


class Histogram:
    """How many values were at most as large as each of `bounds`, and their sum. The memory never grows, and counting
    makes nothing but a number."""

    __slots__ = ("_counts", "bounds", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def __repr__(self) -> str:
        return f"<histogram of {sum(self._counts)} values, {self.sum:g} in all>"

    def observe(self, value: float, times: int = 1) -> None:
        """Count a value that was seen so often."""
        self._counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times

    def facts(self) -> dict[str, Any]:
        """Return the bounds, how many values are at most as large as each, how many there are, and their sum."""
        *within, total = accumulate(self._counts)
        return {"bounds": list(self.bounds), "within": within, "count": total, "sum": self.sum}
