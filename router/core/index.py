"""How full the duplicate index is, and so how far ahead a message may expire (R-A12, R-C5). The ids lie on disk."""

from __future__ import annotations

from dataclasses import dataclass

from .lifetime import expiry_s
from .reasons import Reason


@dataclass(frozen=True, slots=True)
class IndexLimits:
    """Ids, and the longest life of a message in seconds."""

    entries_max: int = 10_000_000
    lifetime_s_max: int = 7 * 86_400


@dataclass(slots=True)
class Index:
    """From half full on it accepts ever shorter lives, full nothing new; a live id is never forgotten."""

    limits: IndexLimits
    entries: int = 0

    def __repr__(self) -> str:
        return f"<index: {self.entries} of at most {self.limits.entries_max} ids>"

    @property
    def is_full(self) -> bool:
        return self.entries >= self.limits.entries_max

    def horizon_s(self) -> int:
        """How many seconds ahead a message may expire."""
        left = 1 - self.entries / self.limits.entries_max
        return int(self.limits.lifetime_s_max * min(1.0, max(0.0, 2 * left)))

    def out_of_time(self, expiry_min: int, wall_s: int) -> tuple[Reason, str] | None:
        """Why a message of that expiry is refused; up to the whole minute after the horizon it is not."""
        if expiry_s(expiry_min) <= wall_s:
            return Reason.EXPIRY_PASSED, ""
        if expiry_s(expiry_min) <= wall_s + self.horizon_s() + 60:
            return None
        if self.is_full:
            return Reason.INDEX_FULL, ""
        return Reason.EXPIRY_TOO_FAR, f"at most {self.horizon_s()} s ahead"
