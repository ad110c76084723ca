"""The neighbours that the settings name: each is dialled until it is connected, after longer pauses each time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from router.core.service.back_off import BackOff
from router.service import contract as c

AGAIN = BackOff(1.0, 300.0, calm_s=60.0)
"""The pauses after failed dials and after connections that ended."""


class _Target:
    def __init__(self) -> None:
        self.failures = 0
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
        one.failures = 1 if lasted_s >= AGAIN.calm_s else one.failures + 1
        one.next_s = now_s + AGAIN.pause_s(one.failures, self._chance.random())

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield the targets without a connection, each with the reason."""
        for target, one in self._targets.items():
            if not one.is_busy or one.problem:
                yield target, one.problem or "being dialled"
