"""Where the segments of one router's log end, and with which digests."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from .chain import Seal
from .schema import LEAP_MIN


class Heads:
    """The ends of one router's segments, and the digests there."""

    def __init__(self, seals: Iterable[Seal]) -> None:
        self._sorted = sorted(seals, key=lambda seal: (seal.last_seq, seal.segments, seal.path))
        self._lasts = [seal.last_seq for seal in self._sorted]
        self._ends = {(seal.last_seq, seal.sha256) for seal in self._sorted}

    def have(self, event: int, digest: str) -> bool:
        """Whether a segment ends at that event with that digest."""
        return (event, digest) in self._ends

    def contradicting(self, event: int) -> Seal | None:
        """Return a seal that ends there with another digest, or extends beyond it; of folded footers only the end is
        known. Where a life began, the life before may have sealed other segments (`lives`)."""
        for seal in self._sorted[bisect_left(self._lasts, event) :]:
            if seal.last_seq == event or (seal.segments == 1 and seal.first_seq <= event and not _leaps(seal)):
                return seal
            if seal.segments == 1:
                return None
        return None


def _leaps(seal: Seal) -> bool:
    return seal.last_seq - seal.first_seq >= LEAP_MIN
