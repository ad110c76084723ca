"""Groups that services of this node have agreed on with other routers (R-C24), and LAN neighbours among these (R-C25).

An agreement holds for two hours at most, by the monotonic clock, since the wall clock may be doubted or set. An
agreement with a LAN neighbour also holds while that is away, and survives a restart: it is kept as rows of the store,
with its end by the wall clock, and ends when the neighbour has been away for too long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import cbor2

from router.core.wire.now import Now

MET_MAX = 256
AGREED_S_MAX = 2 * 3600
AGREED = b"m"
KEY_BYTES = 32

Row = tuple[bytes, bytes | None]
"""Key and value of a row in the store; the value None deletes the row."""


class Agreed(NamedTuple):
    """The groups that one service has agreed on with one router, and the monotonic second at which they lapse.

    `lan`: the router is a neighbour on a LAN."""

    groups: frozenset[bytes]
    until_s: float
    lan: bool = False


class Shared(NamedTuple):
    """The groups agreed on with a router by all services, and those of them that it shares as a LAN neighbour."""

    groups: frozenset[bytes] = frozenset()
    lan: frozenset[bytes] = frozenset()


class Agreements:
    """The groups that each router may bring and get, by the service that agreed on them.

    Of more than `most` routers the one that lapses first is forgotten. `revision` changes with the groups that may be
    brought. `lan`: the groups agreed on with each LAN neighbour."""

    def __init__(self, most: int = MET_MAX) -> None:
        self._most = most
        self._by_router: dict[bytes, dict[bytes, Agreed]] = {}
        self._changed: dict[tuple[bytes, bytes], None] = {}  # (service, router) whose row is to be written
        self._before: dict[bytes, Shared] = {}  # by router, what was shared when `news` was last asked
        self.lan: dict[bytes, frozenset[bytes]] = {}
        self.revision = 0

    def __repr__(self) -> str:
        return f"<agreements with {len(self._by_router)} routers>"

    @property
    def routers(self) -> tuple[bytes, ...]:
        return tuple(self._by_router)

    def is_met(self, router: bytes) -> bool:
        return router in self._by_router

    def has(self, router: bytes, group: bytes) -> bool:
        return any(group in one.groups for one in self._by_router.get(router, {}).values())

    def agreed(self, by: bytes, router: bytes) -> frozenset[bytes]:
        """Return the groups that a service has agreed on with a router."""
        one = self._by_router.get(router, {}).get(by)
        return frozenset() if one is None else one.groups

    def shared(self, router: bytes) -> Shared:
        """Return all groups agreed on with a router."""
        theirs = self._by_router.get(router, {}).values()
        return Shared(frozenset(group for one in theirs for group in one.groups), self.lan.get(router, frozenset()))

    def news(self) -> list[tuple[bytes, Shared]]:
        """Return the routers whose shared groups have changed since the last call, with these groups."""
        before, self._before = self._before, {}
        return [(router, now) for router, was in before.items() if (now := self.shared(router)) != was]

    def agree(
        self, by: bytes, router: bytes, groups: Iterable[bytes], lasts_s: float, mono_s: float, *, lan: bool = False
    ) -> list[bytes]:
        """Record the groups that a service has agreed on with a router, in place of the earlier ones.

        No groups, or no seconds, end the agreement. Return the routers that are forgotten for lack of room.
        """
        found = frozenset(groups) if lasts_s > 0 else frozenset()
        self._set(by, router, Agreed(found, mono_s + min(lasts_s, AGREED_S_MAX), lan) if found else None)
        forgotten = sorted(self._by_router, key=self._lapses_s)[: max(0, len(self._by_router) - self._most)]
        for one in forgotten:
            self.end(one)
        return forgotten

    def lapse(self, mono_s: float, is_away: Callable[[bytes], bool]) -> list[bytes]:
        """End the agreements that have lapsed, except with LAN neighbours that are away; return their routers."""
        lapsed = [
            (router, by)
            for router, theirs in self._by_router.items()
            for by, one in theirs.items()
            if one.until_s <= mono_s and not (one.lan and is_away(router))
        ]
        for router, by in lapsed:
            self._set(by, router, None)
        return [router for router, _ in lapsed]

    def renew(self, router: bytes, mono_s: float) -> None:
        """Let the agreements with a LAN neighbour that is back last for two hours from now."""
        for by, one in list(self._by_router[router].items()):
            if one.lan:
                self._set(by, router, one._replace(until_s=mono_s + AGREED_S_MAX))

    def end(self, router: bytes) -> None:
        """End all agreements with a router."""
        for by in list(self._by_router.get(router, ())):
            self._set(by, router, None)

    def load(self, rows: Iterable[tuple[bytes, bytes]], services: Iterable[bytes], now: Now) -> None:
        """Load the rows of the store whose services are still configured."""
        for key, value in rows:
            by, router = key[1 : 1 + KEY_BYTES], key[1 + KEY_BYTES :]
            if key[:1] == AGREED and by in services:
                joined, unix_s = cbor2.loads(value)
                groups = frozenset(joined[at : at + KEY_BYTES] for at in range(0, len(joined), KEY_BYTES))
                left_s = min(unix_s - now.judged_s, AGREED_S_MAX)
                self._set(by, router, Agreed(groups, now.mono_s + left_s, lan=True))
        self._changed.clear()
        self._before.clear()

    def rows(self, now: Now) -> Mapping[bytes, bytes | None]:
        """Return the rows that have changed since the last call."""
        changed, self._changed = self._changed, {}
        return {AGREED + by + router: self._row(by, router, now) for by, router in changed}

    def _row(self, by: bytes, router: bytes, now: Now) -> bytes | None:
        one = self._by_router.get(router, {}).get(by)
        if one is None or not one.lan:
            return None
        return cbor2.dumps([b"".join(sorted(one.groups)), round(now.judged_s + one.until_s - now.mono_s)])

    def _set(self, by: bytes, router: bytes, agreed: Agreed | None) -> None:
        self._before.setdefault(router, self.shared(router))
        theirs = self._by_router.setdefault(router, {})
        before = theirs.pop(by, None)
        if agreed is not None:
            theirs[by] = agreed
        if not theirs:
            del self._by_router[router]
        if any(one is not None and one.lan for one in (before, agreed)):
            self._changed[by, router] = None
            shared = frozenset(group for one in theirs.values() if one.lan for group in one.groups)
            self.lan.pop(router, None)
            if shared:
                self.lan[router] = shared
        self.revision += 1

    def _lapses_s(self, router: bytes) -> float:
        return max(one.until_s for one in self._by_router[router].values())
