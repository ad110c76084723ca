"""A figure of a bench, its goal, and whether it is met."""

from __future__ import annotations

from typing import NamedTuple


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
        if self.goal is None:
            return None
        return self.value >= self.goal if self.more else self.value <= self.goal

    @property
    def bound(self) -> str:
        return "" if self.goal is None else f"{'at least' if self.more else 'at most'} {self.goal:g}"
