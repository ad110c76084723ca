"""The times of datagrams on an interface: at once, after 1, 2, 4 and 8 s, then every 10 s ± 25 % (R-D17).

Where many new routers wait for a place, a node that has begun lately speaks five times a second: who goes on speaking
there has its turn sooner than others (`waiting.py`), and an attacker would have to speak as often for each of its keys.
"""

from __future__ import annotations

from router.service.contract import Chance

FIRST_S = (0.0, 1.0, 2.0, 4.0, 8.0)
"""The first datagrams, in seconds from the start."""
PERIOD_S = 10.0
JITTER = 0.25
PAUSE_S_MAX = PERIOD_S * (1 + JITTER)
CROWDED_PERIOD_S = 0.2
CROWDED_S = 120.0
"""How long a node that has begun to speak, or whose addresses changed, speaks so often in a crowd."""


class Schedule:
    """The datagrams of one interface; `due_s` is the time of the next one, by the clock that never steps."""

    def __init__(self, chance: Chance, now_s: float) -> None:
        self._chance = chance
        self.begin(now_s)

    def __repr__(self) -> str:
        return f"<schedule: {self._sent} sent, the next one at {self.due_s:.1f} s>"

    def begin(self, now_s: float) -> None:
        """Start again from the first datagram."""
        self._began_s = self._took_s = self.due_s = now_s
        self._sent = 0

    def _hurry(self, now_s: float) -> None:
        """Let the next datagram come soon, in a crowd, if the first one was sent lately."""
        if now_s < self._began_s + CROWDED_S:
            self.due_s = min(self.due_s, self._took_s + CROWDED_PERIOD_S)

    def take(self, now_s: float, *, is_crowded: bool = False) -> bool:
        """Whether a datagram is due now; several that became due meanwhile count as one."""
        if is_crowded:
            self._hurry(now_s)
        if now_s < self.due_s:
            return False
        while self._sent < len(FIRST_S) and self._began_s + FIRST_S[self._sent] <= now_s:
            self._sent += 1
        if self._sent < len(FIRST_S):
            self.due_s = self._began_s + FIRST_S[self._sent]
        else:
            self.due_s = now_s + PERIOD_S * (1 + JITTER * (2 * self._chance.random() - 1))
        self._took_s = now_s
        if is_crowded:
            self._hurry(now_s)
        return True
