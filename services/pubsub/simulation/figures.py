"""Figures and their goals: the values that a run measures in each setting of a scenario, and their required bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev

from msgspec import Struct

from services.pubsub.simulation.broadcast import Reach

Measured = Mapping[str, float]
"""Figures by their names, a subset of those of `FIGURES`."""
Curve = Sequence[tuple[float, float]]

ALWAYS = ("hit", "copies", "last_hop", "p99_s", "cycles")
"""The figures that each row has, if only as null."""
FIGURES: dict[str, tuple[str, str]] = {
    "hit": ("hit", "%"),
    "copies": ("copies a node", ""),
    "last_hop": ("last hop", ""),
    "p99_s": ("99th percentile", "s"),
    "cycles": ("cycles", ""),
    "ring_cycles": ("cycles to a whole ring", ""),
    "ring_links": ("ring links", "%"),
    "alone": ("nodes without a neighbour", ""),
    "partners": ("partners of the hub", ""),
    "connections": ("connections of the hub", ""),
    "small_whole": ("topics of ≤ 5 whole", "%"),
    "misdirected": ("messages to non-subscribers", ""),
    "neighbours": ("distinct neighbours", ""),
    "growth": ("growth of neighbours", ""),
    "advantage": ("advantage", ""),
    "found": ("of those who want it, found", "%"),
    "mistaken": ("of others, taken for such", "%"),
    "bytes": ("bytes", ""),
    "bytes_an_id": ("bytes an id", ""),
    "rounds": ("rounds", ""),
    "missed": ("ids not found", ""),
    "found_in_time": ("found within 60 s", "%"),
    "found_p50_s": ("found, median", "s"),
    "found_p99_s": ("found, 99th percentile", "s"),
    "asks": ("questions of a search", ""),
    "hour_bytes": ("bytes a group, node and hour", ""),
    "hour_bytes_connected": ("the same with connections", ""),
    "unopened": ("records that were not of the group", ""),
    "hit_before": ("hit in the beginning", "%"),
    "honest_barred": ("honest nodes that were barred", ""),
    "named": ("droppers that were named", "%"),
    "seats": ("places of droppers on the ring, left", "%"),
    "wasted_before": ("copies to droppers in the beginning", "%"),
    "wasted": ("copies to droppers", "%"),
}
"""The name of each figure, and its unit."""


ROUNDING = 1e-9
"""The most by which a mean may differ from the true one through rounding."""


class Goal(Struct, frozen=True):
    """The least and the most that a figure may be."""

    figure: str
    least: float = float("-inf")
    most: float = float("inf")

    def is_met(self, value: float) -> bool:
        return self.least - ROUNDING <= value <= self.most + ROUNDING

    def text(self) -> str:
        least, most = (figure_text(self.figure, one) for one in (self.least, self.most))
        if self.least == float("-inf"):
            return f"≤ {most}"
        return f"≥ {least}" if self.most == float("inf") else f"{least} to {most}"


class ScenarioRun(Struct, frozen=True):
    """One run of a scenario."""

    nodes: int
    fanout: int
    seed: int


class Result(Struct, frozen=True):
    """The measurements of one run in one setting, and its course as a curve. `fanout`: None if nothing is forwarded.

    `label`: the curve's name in a drawing; empty: the name of the setting."""

    setting: str
    fanout: int | None
    measured: Measured
    curve: Curve = ()
    label: str = ""


class Axes(Struct, frozen=True):
    """The quantities on the axes of a scenario's drawing.

    `is_share`: the vertical axis shows shares in per cent. `is_log`: the horizontal axis is in powers of ten.
    `is_stepped`: a value holds until the next point; otherwise values between two points were not measured, and a line
    joins them."""

    along: str
    up: str
    is_share: bool = True
    is_log: bool = False
    is_stepped: bool = False


REACHED = Axes("seconds since a message was published", "nodes that have it", is_log=True, is_stepped=True)


class Scenario(Struct, frozen=True):
    """A scenario: `run` yields a result for each setting; `goals` returns the goals for a number of nodes, by
    setting."""

    run: Callable[[ScenarioRun], Iterator[Result]]
    goals: Callable[[int], Mapping[str, tuple[Goal, ...]]]
    axes: Axes = REACHED


@dataclass(frozen=True, slots=True)
class Row:
    """A setting over several seeds: the mean of each figure, and its standard deviation, none for one seed."""

    scenario: str
    setting: str
    nodes: int
    fanout: int | None
    seeds: int
    means: Measured
    spreads: Measured
    goals: tuple[Goal, ...] = ()
    curve: Curve = field(default=(), repr=False)
    label: str = ""

    def record(self) -> dict[str, object]:
        """Return the row for programs."""
        return {
            "scenario": self.scenario,
            "setting": self.setting,
            "nodes": self.nodes,
            "fanout": self.fanout,
            "seeds": self.seeds,
            **dict.fromkeys(ALWAYS),
            **self.means,
            "spread": dict(self.spreads),
            "goals": {one.figure: one.text() for one in self.goals},
            "met": {one.figure: self.meets(one) for one in self.goals},
        }

    def meets(self, goal: Goal) -> bool:
        """Whether the figure was measured and its mean meets the goal."""
        return goal.figure in self.means and goal.is_met(self.means[goal.figure])

    def cells(self) -> Iterator[tuple[str, str, str, str, str, str]]:
        """Yield setting, figure, goal, mean, spread and whether the goal is met, for each figure."""
        goals = {one.figure: one for one in self.goals}
        for name, mean in self.means.items():
            goal = goals.get(name)
            spread = f"± {figure_text(name, self.spreads[name])}" if name in self.spreads else ""
            met = "" if goal is None else ("yes" if self.meets(goal) else "no")
            yield self.setting, FIGURES[name][0], goal.text() if goal else "", figure_text(name, mean), spread, met


def figure_text(name: str, value: float) -> str:
    """Return a figure with its unit: a share in per cent, with enough digits to tell 99.99 % from 100 %."""
    if FIGURES[name][1] == "%":
        return f"{100 * value:.6g} %" if abs(1 - value) < 0.01 else f"{100 * value:.4g} %"
    number = f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
    return f"{number} {FIGURES[name][1]}".rstrip()


def reach_figures(reach: Reach) -> dict[str, float]:
    """Return the figures of how a message spread."""
    return {"hit": reach.hit, "copies": reach.copies, "last_hop": reach.last_hop, "p99_s": reach.p99_s}


def measure(
    name: str, scenario: Scenario, nodes: int, fanout: int, seeds: Iterable[int], hint: Callable[[str], None]
) -> list[Row]:
    """Run the scenario with each seed, announcing each by `hint`, and return a row for each setting."""
    found: dict[str, list[Result]] = {}
    for seed in seeds:
        hint(f"{name}, seed {seed} …")
        for result in scenario.run(ScenarioRun(nodes, fanout, seed)):
            found.setdefault(result.setting, []).append(result)
    goals = scenario.goals(nodes)
    return [_row(name, nodes, results, goals.get(setting, ())) for setting, results in found.items()]


def _row(name: str, nodes: int, results: list[Result], goals: tuple[Goal, ...]) -> Row:
    first = results[0]
    values = {figure: [one.measured[figure] for one in results] for figure in first.measured}
    return Row(
        name,
        first.setting,
        nodes,
        first.fanout,
        len(results),
        {figure: fmean(of) for figure, of in values.items()},
        {figure: stdev(of) for figure, of in values.items()} if len(results) > 1 else {},
        goals,
        first.curve,
        first.label or first.setting,
    )
