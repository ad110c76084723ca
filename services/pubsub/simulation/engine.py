"""Simulated time: the events of nodes in their order, and the delays between nodes.

A run depends on its seed alone: randomness has one source, and events due at the same moment happen in the order of
planning.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random

DELAY_S = (0.01, 0.2)
"""The shortest and the longest delay of a message on a link."""
CONNECT_FAILS_S = 3.0
"""Seconds after which a node knows that another cannot be reached."""

_MASK = (1 << 64) - 1


class Engine:
    """A clock and the events due: (time, number, node, event), earliest first."""

    __slots__ = ("_due", "_planned", "chance", "now_s")

    def __init__(self, seed: int) -> None:
        self.now_s = 0.0
        self.chance = Random(seed)
        self._due: list[tuple[float, int, int, object]] = []
        self._planned = 0

    def __repr__(self) -> str:
        return f"<engine at {self.now_s:.3f} s with {len(self._due)} events to come>"

    def at(self, time_s: float, node: int, event: object) -> None:
        """Plan an event at a node; one in the past happens next."""
        self._planned += 1
        heapq.heappush(self._due, (time_s, self._planned, node, event))

    def after(self, span_s: float, node: int, event: object) -> None:
        """Plan an event at a node `span_s` from now."""
        self.at(self.now_s + span_s, node, event)

    def run(self, happen: Callable[[int, object], None], until_s: float = float("inf")) -> None:
        """Call `happen` for each event due up to `until_s`; with no end given, until nothing is due any more."""
        due, pop = self._due, heapq.heappop
        while due and due[0][0] <= until_s:
            time_s, _, node, event = pop(due)
            if time_s > self.now_s:
                self.now_s = time_s
            happen(node, event)
        if until_s != float("inf"):
            self.now_s = max(self.now_s, until_s)


class Links:
    """The links between nodes: a delay that is drawn once for each pair and holds both ways, and a probability of loss.

    No table is kept: the delay is a hash of the pair and the seed.
    """

    __slots__ = ("_chance", "_least_s", "_salt", "_span_s", "loss")

    def __init__(self, chance: Random, delay_s: tuple[float, float] = DELAY_S, loss: float = 0.0) -> None:
        self._chance = chance
        self._salt = chance.getrandbits(64)
        self._least_s, self._span_s = delay_s[0], delay_s[1] - delay_s[0]
        self.loss = loss

    def delay_s(self, one: int, other: int) -> float:
        """Return the delay of a message between these two nodes."""
        low, high = (one, other) if one < other else (other, one)
        mixed = (low * 0x9E3779B97F4A7C15 + high * 0xC2B2AE3D27D4EB4F + self._salt) & _MASK
        mixed = ((mixed ^ mixed >> 31) * 0xBF58476D1CE4E5B9) & _MASK
        return self._least_s + self._span_s * ((mixed >> 11) / (1 << 53))

    def loses(self) -> bool:
        """Whether the message that is sent now is lost."""
        return self.loss > 0 and self._chance.random() < self.loss
