"""The node's own work for others, within its share of a core: one message after the other, in another process."""

from __future__ import annotations

from msgspec import Struct

from router.core.link.allowance import Allowance

from ..solving import attempts_for
from .limits import OverHttpLimits

ATTEMPTS_PER_MS = 1_000.0
"""What a core is taken to do before the work has shown it: what it took really is charged afterwards."""
TIMES_EXPECTED = 8
"""After so many times the attempts that work takes on average it is given up: one of 3,000 is."""


class TooMuchWork(Exception):
    """Raised for work that the node does not do; `reason`: the word of it; `later`: whether it may do it later."""

    def __init__(self, reason: str, text: str, *, later: bool) -> None:
        super().__init__(text)
        self.reason = reason
        self.later = later


class Job(Struct, frozen=True):
    """Work that was begun: the most attempts, and what it was charged."""

    attempts_max: int
    charged_ms: int


class SolverShare:
    """The share of a core, in percent, and what of it is left."""

    def __init__(self, percent: float, limits: OverHttpLimits) -> None:
        self._limits = limits
        self._ms_max = int(10 * percent * limits.solve_burst_s)
        self._left = Allowance(10 * percent, self._ms_max)
        self._running = 0

    def __repr__(self) -> str:
        return f"<{self._running} messages to solve>"

    @property
    def is_open(self) -> bool:
        """Whether the node works for others at all."""
        return self._ms_max > 0

    def begin(self, bits: int, now_s: float) -> Job:
        """Charge the work of these bits. Raise `TooMuchWork`."""
        attempts = attempts_for(bits)
        cost_ms = int(attempts / ATTEMPTS_PER_MS) + 1
        if cost_ms > self._ms_max:
            said = f"this work takes some {cost_ms / 1000:.1f} s of a core, more than this node gives one message"
            raise TooMuchWork(
                "too-much-work", f"{said}; do it yourself, or ask for a shorter relayFor or less data", later=False
            )
        if self._running >= self._limits.solve_queue_max or not self._left.take(cost_ms, now_s):
            said = "what this node works for others is used up for the moment"
            raise TooMuchWork("solver-busy", f"{said}; do the work yourself, or ask again later", later=True)
        self._running += 1
        return Job(int(attempts * TIMES_EXPECTED), cost_ms)

    def end(self, job: Job, spent_ms: int, now_s: float) -> None:
        """Charge what the work has really taken."""
        self._running -= 1
        self._left.charge(spent_ms - job.charged_ms, now_s)
