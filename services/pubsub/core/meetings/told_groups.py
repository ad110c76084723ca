"""The groups shared with other routers, as this node's router was told them; what it refused is told again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from math import inf
from typing import NamedTuple

from router.core.service.back_off import BackOff
from router.core.wire.crypto import PublicKey
from router.service import contract as c
from router.service.roles import overlay as o

AGREED_S = 7200
WHOLE_S = 3600.0
"""Seconds after which our router is told again all groups that are shared with another one, though nothing changed."""
AGAIN = BackOff(1.0, 300.0)
"""The pauses after which it is told again what it has refused."""


class Untold(NamedTuple):
    """The monotonic second at which our router is told again, infinity while its answer is awaited, and how often in a
    row it has refused."""

    again_s: float
    times: int


class ToldGroups:
    """Tells this node's router which groups are shared with another one. `groups(router)` returns those shared now,
    `draw` a number in [0, 1)."""

    def __init__(self, groups: Callable[[PublicKey], Collection[PublicKey]], draw: Callable[[], float]) -> None:
        self._groups = groups
        self._draw = draw
        self._whole_s: dict[PublicKey, float] = {}  # when our router was told all groups that are shared now
        self._refused: dict[PublicKey, Untold] = {}

    def __repr__(self) -> str:
        return f"<groups shared with {len(self._whole_s)} routers were told, {len(self._refused)} are told again>"

    @property
    def due_s(self) -> float:
        """Return the second at which `tick` has something to do."""
        return min((one.again_s for one in self._refused.values()), default=inf)

    def changed(self, router: PublicKey) -> None:
        """Tell our router all groups with the next meeting: they, or what it has agreed on, may have changed."""
        self._whole_s.pop(router, None)

    def met(self, router: PublicKey, now: c.Now) -> Iterator[c.Deed]:
        """Tell the groups shared with a router; if our router knows them, only let it agree on them for longer."""
        if now.mono_s < self._whole_s.get(router, -inf) + WHOLE_S:
            yield o.ShareGroups(router, (), int(now.wall_s) + AGREED_S, page=1)
        else:
            yield from self._tell(router, now)

    def heard(self, said: o.GroupsShared, now: c.Now) -> None:
        """Record whether our router has done what it was told. Several pages that are refused are one refusal."""
        before = self._refused.pop(said.key, Untold(inf, 0))
        if said.is_done:
            return
        self.changed(said.key)
        times, again_s = before.times, before.again_s
        if again_s == inf:
            times += 1
            again_s = now.mono_s + AGAIN.pause_s(times, self._draw())
        self._refused[said.key] = Untold(again_s, times)

    def tick(self, now: c.Now) -> Iterator[c.Deed]:
        """Tell again what was refused, as it is now."""
        for router, one in list(self._refused.items()):
            if one.again_s <= now.mono_s:
                self._refused[router] = one._replace(again_s=inf)
                yield from self._tell(router, now)

    def _tell(self, router: PublicKey, now: c.Now) -> Iterator[c.Deed]:
        groups = sorted(self._groups(router))
        self.changed(router)
        if groups:
            self._whole_s[router] = now.mono_s
        yield from o.ShareGroups.pages(router, groups, int(now.wall_s) + AGREED_S if groups else 0)
