"""Groups that services of this node have agreed on with other routers, for two hours at most (R-C24)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

MET_MAX = 256
AGREED_S_MAX = 2 * 3600


class Agreed(NamedTuple):
    """What one service has agreed on with one router, and the Unix second at which it lapses."""

    groups: frozenset[bytes]
    until_s: int


class Agreements:
    """The groups that each router may bring and be answered for, by the service that agreed on them.

    Of more than `most` routers the one that lapses first is forgotten. `revision` changes with what may be brought."""

    def __init__(self, most: int = MET_MAX) -> None:
        self._most = most
        self._by_router: dict[bytes, dict[bytes, Agreed]] = {}
        self.revision = 0

    def __repr__(self) -> str:
        return f"<agreements with {len(self._by_router)} routers>"

    def is_met(self, router: bytes) -> bool:
        return router in self._by_router

    def has(self, router: bytes, group: bytes) -> bool:
        return any(group in one.groups for one in self._by_router.get(router, {}).values())

    def groups_of(self, router: bytes) -> frozenset[bytes]:
        """Return the groups that any service has agreed on with a router."""
        return frozenset().union(*(one.groups for one in self._by_router.get(router, {}).values()))

    def agree(self, by: bytes, router: bytes, groups: Iterable[bytes], until_s: int, now_s: int) -> list[bytes]:
        """Note what a service has agreed on with a router, in place of what it had before.

        No groups, or a time that has passed, end the agreement. Return the routers that are forgotten for lack of
        room."""
        theirs = self._by_router.setdefault(router, {})
        theirs.pop(by, None)
        if until_s > now_s and (found := frozenset(groups)):
            theirs[by] = Agreed(found, min(until_s, now_s + AGREED_S_MAX))
        if not theirs:
            del self._by_router[router]
        forgotten = sorted(self._by_router, key=self._lapses_s)[: max(0, len(self._by_router) - self._most)]
        for one in forgotten:
            del self._by_router[one]
        self.revision += 1
        return forgotten

    def lapse(self, now_s: int) -> list[bytes]:
        """End what has lapsed; return the routers that it was agreed on with."""
        lapsed = [
            (router, by) for router, theirs in self._by_router.items()
            for by, one in theirs.items() if one.until_s <= now_s
        ]  # fmt: skip
        for router, by in lapsed:
            del self._by_router[router][by]
            if not self._by_router[router]:
                del self._by_router[router]
        self.revision += bool(lapsed)
        return [router for router, _ in lapsed]

    def _lapses_s(self, router: bytes) -> int:
        return max(one.until_s for one in self._by_router[router].values())
