"""When a topic is compared, and with which neighbours as soon as may be (R-C35)."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from router.core.wire.crypto import PublicKey


@dataclass(slots=True)
class Plan:
    """When a topic is compared next with a random neighbour, and why it is to be told how a comparison ended.

    `missed`: messages of it that neighbours have dropped instead of bringing them here; `arrived`: how many have come
    since, whoever brought them. `named`: the neighbours with which it is compared as soon as may be, each with the
    second before which it may not; `begun_s`: when it last was, with each. Seconds are monotonic."""

    next_s: float
    period_s: float
    is_awaited: bool = True
    missed: int = 0
    arrived: int = 0
    named: dict[PublicKey, float] = field(default_factory=dict)
    begun_s: dict[PublicKey, float] = field(default_factory=dict)

    def name(self, router: PublicKey, now_s: float, apart_s: float) -> None:
        """Let it be compared with this neighbour, at least `apart_s` after the last time."""
        self.named[router] = max(now_s, self.begun_s.get(router, -inf) + apart_s)

    def begin(self, router: PublicKey, now_s: float, apart_s: float) -> None:
        """Note that it is being compared with this neighbour."""
        self.named.pop(router, None)
        self.begun_s = {one: at_s for one, at_s in self.begun_s.items() if at_s > now_s - apart_s}
        self.begun_s[router] = now_s

    @property
    def due_s(self) -> float:
        """Return the second at which the next comparison may begin."""
        return min((self.next_s, *self.named.values()))

    def due(self, now_s: float) -> list[PublicKey]:
        """Return the named neighbours whose time has come."""
        return [one for one, at_s in self.named.items() if at_s <= now_s]
