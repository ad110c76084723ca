"""When the routers that were heard on a network are dialled, and again after a failure (R-D19)."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from router.core.service.back_off import BackOff
from router.core.wire.crypto import PublicKey
from router.service.contract import Chance, Now
from router.service.roles.discovery import Dial
from services.discovery.core.lan.neighbours import Neighbour, Neighbours
from services.discovery.core.lan.paces import Pace

AGAIN = BackOff(2.0, 300.0)
"""The pauses after failed dials."""
DIALLED_PER_S = 12
"""More than newcomers have turns, so that those dialled again do not hold them up."""
UNDER_WAY_MAX, UNDER_WAY_S = 30, 15.0
"""Most dials at once of keys that no link has proven, fewer than the router makes at once of such (half of
`link.dials_max`): there they would wait in a line in which nobody goes before another. Each counts for so long at
most."""
LOOK_S = 1.0
"""How long those in line wait at most until the next look whether there is room."""


class Dialling:
    """Dials neighbours whose time has come. It alone sets their `dial_s`, `is_in_line`, `failures` and
    `let_in`."""

    def __init__(self, neighbours: Neighbours, chance: Chance) -> None:
        self._neighbours = neighbours
        self._chance = chance
        self._dialled = Pace(DIALLED_PER_S)
        self._under_way: dict[PublicKey, float] = {}  # until when each counts

    def __repr__(self) -> str:
        return f"<dialling: {sum(one.dial_s is not None for one in self._neighbours)} to dial>"

    def soon(self, one: Neighbour, pause_s: float, now: Now) -> None:
        """Dial a router in `pause_s`, if no dial is due sooner; earlier failures no longer count."""
        soon_s = now.mono_s + pause_s
        one.dial_s = soon_s if one.dial_s is None else min(soon_s, one.dial_s)
        one.failures = 0

    def stop(self, one: Neighbour) -> None:
        """Dial a router no more, since it is away."""
        one.dial_s, one.is_in_line, one.failures, one.let_in = None, False, 0, True

    def unreached(self, key: PublicKey, let_in: bool, now: Now) -> None:
        """Dial again after a pause, even if this node was refused, as it may only not have been heard there yet; a
        router that refuses has proven its key.

        A dial by the router itself in the meantime counts as the same failure."""
        one = self._neighbours.get(key)
        self.ended(key)
        if one is None or not one.is_here:
            return
        one.let_in = let_in
        if not let_in:
            self._neighbours.prove(one, "", now.mono_s)
        if one.dial_s is None:
            one.failures += 1
            one.dial_s = now.mono_s + AGAIN.pause_s(one.failures, self._chance.random())

    def ended(self, key: PublicKey) -> None:
        """Record that a dial has ended, in vain or not."""
        self._under_way.pop(key, None)

    def due(self, now: Now) -> Iterator[Dial]:
        """Dial the routers whose time has come, but only a few a second, and at once: first those that a link has
        proven, then those that were not dialled in vain yet, and of these the one whose time came first."""
        over = [key for key, until_s in self._under_way.items() if until_s <= now.mono_s or not self._is_here(key)]
        for key in over:
            self.ended(key)
        waiting = [(one.dial_s, one) for one in self._neighbours if one.dial_s is not None and one.dial_s <= now.mono_s]
        proven = self._neighbours.is_proven
        for _, one in sorted(waiting, key=lambda each: (not proven(each[1].key), each[1].failures, each[0])):
            has_room = proven(one.key) or len(self._under_way) < UNDER_WAY_MAX
            if has_room and self._dialled.take(one.key, now.mono_s):
                one.dial_s, one.is_in_line, one.let_in = None, False, True
                if not proven(one.key):
                    self._under_way[one.key] = now.mono_s + UNDER_WAY_S
                yield Dial(one.key)
            else:
                one.is_in_line = True

    def look_s(self, now: Now) -> float:
        """Return when there may be room for those in line, unless a dial ends before."""
        if not any(one.is_in_line for one in self._neighbours):
            return inf
        return now.mono_s + LOOK_S if self._dialled.has_room(now.mono_s) else self._dialled.free_s()

    def _is_here(self, key: PublicKey) -> bool:
        one = self._neighbours.get(key)
        return one is not None and one.is_here
