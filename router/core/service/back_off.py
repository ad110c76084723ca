"""The pauses between attempts that fail: one policy for the dials of nodes, apps and services, and for restarts."""

from __future__ import annotations

from msgspec import Struct

_DOUBLINGS_MAX = 64  # keeps the power within a float


class BackOff(Struct, frozen=True):
    """Pauses that double with each failure in a row, up to a limit, and are random in their upper half, so that many
    who failed at the same moment do not try again at the same moment."""

    pause_s_min: float
    pause_s_max: float
    calm_s: float = 60.0
    """After a connection or a run of this length, the next pause is the shortest again."""

    def pause_s(self, failures: int, draw: float) -> float:
        """Return the pause after this many failures in a row, at least one; `draw` is uniform in [0, 1)."""
        doubled = self.pause_s_min * 2.0 ** min(failures - 1, _DOUBLINGS_MAX)
        return min(self.pause_s_max, doubled) * (1 + draw) / 2
