"""The figures of a service's bench, each beside its goal: how they are judged, printed and reported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from router.cli.output import columns, say_json

_HEAD = ("FIGURE", "MEASURED", "GOAL", "MET")


def is_met(value: float, goal: float, *, more: bool) -> bool:
    """Whether a value is on the right side of its goal. `more`: whether more is better."""
    return value >= goal if more else value <= goal


def bound(goal: float, *, more: bool) -> str:
    """Return the goal in words."""
    return f"{'at least' if more else 'at most'} {goal:g}"


class Goal(NamedTuple):
    """A figure, its goal, and whether more is better. `remark`: what it was reckoned from."""

    title: str
    value: float
    goal: float | None = None
    more: bool = True
    remark: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None: there is none."""
        return None if self.goal is None else is_met(self.value, self.goal, more=self.more)

    @property
    def bound(self) -> str:
        return "" if self.goal is None else bound(self.goal, more=self.more)

    def facts(self) -> dict[str, Any]:
        """Return the figure as `--json` prints it."""
        return {"title": self.title, "value": self.value, "goal": self.bound, "met": self.met, "remark": self.remark}

    def cells(self, digits: int) -> tuple[str, str, str, str]:
        """Return the figure as a row of a table, with that many digits behind the point."""
        met = "" if self.met is None else "yes" if self.met else "no"
        told = f"{self.value:.{digits}f}" + (f" ({self.remark})" if self.remark else "")
        return self.title, told, self.bound, met


def table(found: Sequence[Goal], digits: int) -> Iterator[str]:
    """Yield the lines of a table in Markdown."""
    yield "| figure | measured | goal | met |"
    yield "|---|---|---|---|"
    yield from (f"| {' | '.join(one.cells(digits))} |" for one in found)


def show(found: Sequence[Goal], digits: int, *, as_json: bool) -> None:
    """Print the figures of a bench."""
    if as_json:
        say_json([one.facts() for one in found])
    else:
        columns(_HEAD, [one.cells(digits) for one in found], "")
