"""The node's own work for others, within its share of a core: one message after the other, in another process."""

from __future__ import annotations

from msgspec import Struct

from router.core.link.allowance import Allowance
from router.core.wire.text import counted

from ..solving import attempts_for
from .limits import CALLERS_MAX, OverHttpLimits

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
    """Work that was begun: for whom, the most attempts, and what it was charged."""

    caller: str
    attempts_max: int
    charged_ms: int


class _Claim(Struct, frozen=True):
    """Work that a caller was refused, and is to have before those who had more; `rank`: what it has had with it."""

    cost_ms: int
    rank: float
    until_s: float


class _Callers:
    """What each caller had lately, in ms of a core, and the claims of those that were told to ask again."""

    def __init__(self, claimed_ms_max: int, limits: OverHttpLimits) -> None:
        self._claimed_ms_max = claimed_ms_max
        self._limits = limits
        self._had: dict[str, tuple[float, float]] = {}  # and when it was so much
        self._claims: dict[str, _Claim] = {}

    def __repr__(self) -> str:
        return f"<{counted(len(self._claims), 'claim')} of {counted(len(self._had), 'caller')}>"

    def had_ms(self, caller: str, now_s: float) -> float:
        """Return what a caller had, of which half counts after a while."""
        had, at_s = self._had.get(caller, (0.0, now_s))
        return float(had * 0.5 ** ((now_s - at_s) / self._limits.solve_forget_s))

    def charge(self, caller: str, ms: int, now_s: float) -> None:
        """Count work for a caller; of too many callers the one that had work least recently is forgotten."""
        had = self.had_ms(caller, now_s)
        self._had.pop(caller, None)
        self._had[caller] = (max(0.0, had + ms), now_s)
        if len(self._had) > CALLERS_MAX:
            del self._had[next(iter(self._had))]

    def before(self, caller: str, cost_ms: int, now_s: float) -> list[int]:
        """Return what is kept for others that had less than this caller will have had with this work."""
        self._claims = {name: one for name, one in self._claims.items() if one.until_s > now_s}
        rank = self.had_ms(caller, now_s) + cost_ms
        return [one.cost_ms for name, one in self._claims.items() if name != caller and one.rank < rank]

    def claim(self, caller: str, cost_ms: int, now_s: float) -> None:
        """Keep this work for a caller, as far as those that had less leave room for it."""
        until_s = now_s + self._limits.solve_claim_s
        self._claims[caller] = _Claim(cost_ms, self.had_ms(caller, now_s) + cost_ms, until_s)
        kept_ms, kept = 0, dict[str, _Claim]()
        for name, one in sorted(self._claims.items(), key=lambda found: found[1].rank):
            if kept_ms + one.cost_ms <= self._claimed_ms_max and len(kept) < self._limits.solve_queue_max // 2:
                kept_ms, kept[name] = kept_ms + one.cost_ms, one
        self._claims = kept

    def end_claim(self, caller: str) -> None:
        self._claims.pop(caller, None)


class SolverShare:
    """The share of a core, in percent, and what of it is left.

    A caller that is told to ask again has a claim: others that had more lately leave it what it asked for. Of what is
    saved up, and of the places, half may be kept so, lest claims that nobody takes up stop the work."""

    def __init__(self, percent: float, limits: OverHttpLimits) -> None:
        self._limits = limits
        self._ms_max = int(10 * percent * limits.solve_burst_s)
        self._left = Allowance(10 * percent, self._ms_max)
        self._callers = _Callers(self._ms_max // 2, limits)
        self._running = 0

    def __repr__(self) -> str:
        return f"<{self._running} messages to solve, {self._callers!r}>"

    @property
    def is_open(self) -> bool:
        """Whether the node works for others at all."""
        return self._ms_max > 0

    def begin(self, caller: str, bits: int, now_s: float) -> Job:
        """Charge a caller for the work of these bits. Raise `TooMuchWork`."""
        attempts = attempts_for(bits)
        cost_ms = int(attempts / ATTEMPTS_PER_MS) + 1
        if cost_ms > self._ms_max:
            said = f"this work takes some {cost_ms / 1000:.1f} s of a core, more than this node gives one message"
            raise TooMuchWork(
                "too-much-work", f"{said}; do it yourself, or ask for a shorter relayFor or less data", later=False
            )
        before = self._callers.before(caller, cost_ms, now_s)
        has_place = self._running + len(before) < self._limits.solve_queue_max
        if not has_place or not self._take(cost_ms, sum(before), now_s):
            self._callers.claim(caller, cost_ms, now_s)
            said = "what this node works for others is used up for the moment, and who had least lately is next"
            raise TooMuchWork("solver-busy", f"{said}; do the work yourself, or ask again soon", later=True)
        self._callers.end_claim(caller)
        self._callers.charge(caller, cost_ms, now_s)
        self._running += 1
        return Job(caller, int(attempts * TIMES_EXPECTED), cost_ms)

    def _take(self, cost_ms: int, kept_ms: int, now_s: float) -> bool:
        """Take this work's time if as much besides is left as is kept for others."""
        if not self._left.take(cost_ms + kept_ms, now_s):
            return False
        self._left.charge(-kept_ms, now_s)
        return True

    def end(self, job: Job, spent_ms: int, now_s: float) -> None:
        """Charge what the work has really taken."""
        self._running -= 1
        self._left.charge(spent_ms - job.charged_ms, now_s)
        self._callers.charge(job.caller, spent_ms - job.charged_ms, now_s)
