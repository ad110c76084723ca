"""Warnings that a door has no place left: one a door in a minute at most, with how many clients gave way or found no
place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import inf
from typing import NamedTuple

from router.core.wire.text import counted

PAUSE_S = 60.0


class Bound(NamedTuple):
    """What bounds the places at a door: the setting's name, its value, and the door in words."""

    setting: str
    most: int
    where: str


class PlaceWarnings:
    """What happened for want of places since the last warnings, by door; asked once a second for those that are due."""

    def __init__(self) -> None:
        self._refused: Counter[Bound] = Counter()
        self._gave_way: dict[Bound, Counter[int | None]] = {}
        self._said_s: dict[str, float] = {}

    def __repr__(self) -> str:
        return f"<PlaceWarnings: {len(self._refused.keys() | self._gave_way.keys())} doors are to be named>"

    def refused(self, bound: Bound) -> None:
        """Count a client that found no place."""
        self._refused[bound] += 1

    def gave_way(self, bound: Bound, user: int | None) -> None:
        """Count a client of this user that was closed for a new one."""
        self._gave_way.setdefault(bound, Counter())[user] += 1

    def due(self, service: str, now_s: float) -> Iterator[str]:
        """Yield the warnings whose time has come."""
        for bound in sorted(self._refused.keys() | self._gave_way.keys()):
            if now_s - self._said_s.get(bound.where, -inf) >= PAUSE_S:
                self._said_s[bound.where] = now_s
                yield _text(service, bound, self._refused.pop(bound, 0), self._gave_way.pop(bound, Counter()))


def _text(service: str, bound: Bound, refused: int, gave_way: Counter[int | None]) -> str:
    found = []
    if refused:
        found.append(f"{counted(refused, 'client')} found no place")
    if gave_way:
        found.append(f"{counted(gave_way.total(), 'client')}{_of_whom(gave_way)} gave way to new ones")
    said = f"{' and '.join(found)} at {bound.where}, which has {bound.most}"
    leaves = "see whether a program leaves its connections open, or " if gave_way else ""
    return f"{said}: {leaves}raise services.{service}.{bound.setting}; `ss -xp` shows who holds them"


def _of_whom(users: Counter[int | None]) -> str:
    [(user, _)] = users.most_common(1)
    if user is None:
        return ""
    return f" of user {user}" if len(users) == 1 else f", most of them of user {user},"
