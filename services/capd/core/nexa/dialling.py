"""The neighbours that the settings name: each is dialled until it is connected, later each time that it fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from router.service import contract as c

FIRST_S, LAST_S = 1.0, 300.0
STEADY_S = 60.0
"""A connection that lasted so long was a good one: the next is tried at once."""


class _Target:
    def __init__(self) -> None:
        self.pause_s = FIRST_S
        self.next_s = 0.0
        self.is_busy = False
        self.problem = ""


class Dialling:
    """When each target is dialled."""

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
        """Hear that a connection works."""
        self._targets[target].problem = ""

    def ended(self, target: str, lasted_s: float, problem: str, now_s: float) -> None:
        """Hear that there is no connection, or none any more."""
        one = self._targets[target]
        one.is_busy, one.problem = False, problem
        if lasted_s >= STEADY_S:
            one.pause_s = FIRST_S
        one.next_s = now_s + one.pause_s * (0.75 + self._chance.random() / 2)
        one.pause_s = min(LAST_S, 2 * one.pause_s)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield the targets without a connection, and why."""
        for target, one in self._targets.items():
            if not one.is_busy or one.problem:
                yield target, one.problem or "being dialled"
