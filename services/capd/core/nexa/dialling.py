"""The neighbours that the settings name: each is dialled until it is connected, after longer pauses each time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from router.service import contract as c

FIRST_S, LAST_S = 1.0, 300.0
STEADY_S = 60.0
"""Seconds after which a connection counts as a good one: when it ends, the pauses begin at the shortest again."""


class _Target:
    def __init__(self) -> None:
        self.pause_s = FIRST_S
        self.next_s = 0.0
        self.is_busy = False
        self.problem = ""


class Dialling:
    """The targets, and when each of them is dialled."""

    def __init__(self, door: str, targets: Sequence[str], chance: c.Chance) -> None:
        self._door = door
        self._chance = chance
        self._targets = {target: _Target() for target in targets}

    def __repr__(self) -> str:
        return f"<Dialling: {sum(one.is_busy for one in self._targets.values())} of {len(self._targets)} are busy>"

    def __contains__(self, target: str) -> bool:
        return target in self._targets

    def due(self, now_s: float) -> Iterator[c.Connect]:
        """Yield the connections to be tried now."""
        for target, one in self._targets.items():
            if not one.is_busy and now_s >= one.next_s:
                one.is_busy = True
                yield c.Connect(self._door, f"tcp://{target}", target)

    def opened(self, target: str) -> None:
        """Remove the problem of a target whose connection works."""
        self._targets[target].problem = ""

    def ended(self, target: str, lasted_s: float, problem: str, now_s: float) -> None:
        """Schedule the next attempt for a target whose connection failed or has ended."""
        one = self._targets[target]
        one.is_busy, one.problem = False, problem
        if lasted_s >= STEADY_S:
            one.pause_s = FIRST_S
        one.next_s = now_s + one.pause_s * (0.75 + self._chance.random() / 2)
        one.pause_s = min(LAST_S, 2 * one.pause_s)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield the targets without a connection, each with the reason."""
        for target, one in self._targets.items():
            if not one.is_busy or one.problem:
                yield target, one.problem or "being dialled"
