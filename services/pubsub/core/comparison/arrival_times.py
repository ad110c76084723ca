"""When the messages of a topic came, by their ranks: exact for those that came lately, coarser with age (R-C35)."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable

TIMES_MAX = 2_048
"""Most times that are kept of one topic; beyond it those are joined that are close together for their age."""
PART = 128
"""Times are joined that are less than this part of their age apart, so that about 1,200 remain of a week."""


class ArrivalTimes:
    """Ascending seconds, each with the rank from which on messages came then or later; a message of a lower rank came
    earlier. Of joined times the later second stays with the lower rank: then fewer messages count as early."""

    __slots__ = ("_ranks", "_seconds")

    def __init__(self) -> None:
        self._seconds = array("Q")
        self._ranks = array("Q")

    def __repr__(self) -> str:
        return f"<{len(self)} arrival times>"

    def __len__(self) -> int:
        return len(self._seconds)

    def take(self, times: Iterable[tuple[int, int]], rank: int) -> None:
        """Add runs of (Unix second, number of messages), the first of which has that rank."""
        for at_s, count in times:
            if not self._seconds or at_s > self._seconds[-1]:
                self._seconds.append(at_s)
                self._ranks.append(rank)
            rank += count
        if len(self) > TIMES_MAX:
            self._join()

    def rank_before(self, wall_s: float) -> int | None:
        """Return the rank below which all messages came before that Unix second; None if all of them did."""
        at = bisect_left(self._seconds, int(wall_s))
        return self._ranks[at] if at < len(self) else None

    def _join(self) -> None:
        seconds, ranks, newest_s = array("Q"), array("Q"), self._seconds[-1]
        for at_s, rank in zip(reversed(self._seconds), reversed(self._ranks), strict=True):
            if seconds and (seconds[-1] - at_s) * PART < newest_s - at_s:
                ranks[-1] = rank
            else:
                seconds.append(at_s)
                ranks.append(rank)
        seconds.reverse()
        ranks.reverse()
        self._seconds, self._ranks = seconds, ranks
