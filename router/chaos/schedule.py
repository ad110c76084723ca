"""The schedule of a run: which fault hits what, when, and for how long. It depends on the seed alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from math import ceil
from random import Random
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from router.chaos.shape import FleetShape

Kind = Literal["kill", "stop", "freeze", "fill", "clock", "drift", "restore", "app", "service", "cut", "break", "delay"]

OF_NODES: tuple[Kind, ...] = ("kill", "stop", "freeze", "fill", "clock", "drift", "restore", "app", "service")
OF_LINKS: tuple[Kind, ...] = ("cut", "break", "delay")
KINDS = *OF_NODES, *OF_LINKS
GAP_S = 2.0
"""Mean seconds between the beginnings of two faults."""
FAULTS_S_PERCENT = 70
"""Share of the run in which faults begin; in the rest all is mended, and what waits is delivered."""
FAULT_S_MIN, FAULT_S_MAX = 0.5, 8.0
REST_S = 1.0
"""Seconds without a fault of its own that a node or a link has before its next one."""
FAULTS_MAX = 2000
CLOCK_STEPS_S = (-172_800, -7_200, 7_200, 172_800)
"""Steps of a node's clock, none of which it believes (`limits.clock_step_s_max`, `limits.clock_offset_s_max`)."""
DRIFTS_S = (-5.0, -0.5, -0.2, 0.2, 0.5, 5.0)
"""Small steps of a node's clock, one in each `DRIFT_EVERY_S`. They add up, and stay when the fault is over."""
DRIFT_EVERY_S = 1.0
DRIFTED_S_MAX = 60.0
"""How far drifts may bring a node's clock from the machine's: it is believed all the while
(`limits.clock_offset_s_max`)."""
DELAYS_S = (0.05, 0.2, 0.5)
_AMOUNTS_S: dict[Kind, tuple[float, ...]] = {"clock": CLOCK_STEPS_S, "drift": DRIFTS_S, "delay": DELAYS_S}

_SAID = {
    "kill": "{0} is killed, and starts again",
    "stop": "{0} is stopped, and starts again",
    "freeze": "{0} is frozen",
    "fill": "{0} has no room on its disk",
    "clock": "the clock of {0} is set by {1:+,.0f} s",
    "drift": "the clock of {0} is set by {1:+.1f} s each second, and stays so",
    "restore": "{0} is saved, then killed, loses its disk and is restored",
    "app": "the app of {0} is killed, and starts again",
    "service": "a service of {0} is killed",
    "cut": "no byte passes {0}",
    "break": "the connections of {0} are closed, and none is let in",
    "delay": "each read on {0} waits {1:.2f} s",
}


class Fault(Struct, frozen=True):
    """A fault: it begins `at_s` seconds after the start of the schedule and is mended `for_s` seconds later.

    `number`: its place in the whole schedule, which stays when others are left out. `target`: a node, or a link as
    `edge-a>core-1`. `amount`: the step of a clock, or the delay of a link, in seconds."""

    number: int
    at_s: float
    for_s: float
    kind: Kind
    target: str
    amount: float = 0.0

    @property
    def ends_s(self) -> float:
        return self.at_s + self.for_s

    @property
    def drifted_s(self) -> float:
        """Return by how many seconds the target's clock has moved for good when the fault is over."""
        return self.amount * ceil(self.for_s / DRIFT_EVERY_S) if self.kind == "drift" else 0.0

    @property
    def claims(self) -> tuple[str, ...]:
        """Return the things that no other fault may touch meanwhile."""
        return self.target, *([f"any {self.kind}"] if self.kind in ("clock", "restore") else [])

    def __str__(self) -> str:
        said = _SAID[self.kind].format(self.target, self.amount)
        return f"{self.number}: from {self.at_s:.1f} s to {self.ends_s:.1f} s {said}"


Schedule = tuple[Fault, ...]


def make_schedule(seed: int, seconds: float, shape: FleetShape, kinds: Collection[Kind] = KINDS) -> Schedule:
    """Return the faults of a run of `seconds` seconds, by their beginning; at most `FAULTS_MAX`.

    Each kind comes once before one comes twice. A node or link has one fault at a time; one clock is wrong at a time,
    and one node is being restored."""
    chance, busy, drifted_s = Random(seed), defaultdict[str, float](float), defaultdict[str, float](float)
    span_s = seconds * FAULTS_S_PERCENT / 100
    deck, found, at_s = list[Kind](), list[Fault](), 0.0
    while len(found) < FAULTS_MAX and (at_s := at_s + chance.uniform(0.5, 1.5) * GAP_S) < span_s:
        deck = deck or chance.sample(sorted(kinds), len(kinds))
        kind = deck.pop()
        longest_s = max(FAULT_S_MIN, min(FAULT_S_MAX, span_s - at_s))
        for_s = round(chance.uniform(FAULT_S_MIN, longest_s), 2)
        begins_s = min(round(at_s, 2), span_s)
        fault = Fault(len(found) + 1, begins_s, for_s, kind, _target(kind, shape, chance), _amount(kind, chance))
        if abs(drifted_s[fault.target] + fault.drifted_s) > DRIFTED_S_MAX:
            fault = replace(fault, amount=-fault.amount)
        if all(busy[one] <= at_s for one in fault.claims):
            found.append(fault)
            drifted_s[fault.target] += fault.drifted_s
            busy |= dict.fromkeys(fault.claims, fault.ends_s + REST_S)
    return tuple(found)


def chosen(schedule: Schedule, numbers: Iterable[int]) -> Schedule:
    """Return the faults with these numbers; raise `ValueError` for a number that the schedule has not."""
    wanted = set(numbers)
    if unknown := sorted(wanted - {one.number for one in schedule}):
        raise ValueError(f"the schedule of this seed has {len(schedule)} faults and no {unknown[0]}")
    return tuple(one for one in schedule if one.number in wanted)


def _target(kind: Kind, shape: FleetShape, chance: Random) -> str:
    if kind in OF_LINKS:
        return str(chance.choice(shape.links))
    return shape.apart if kind == "service" else chance.choice(shape.nodes)


def _amount(kind: Kind, chance: Random) -> float:
    amounts = _AMOUNTS_S.get(kind)
    return float(chance.choice(amounts)) if amounts else 0.0
