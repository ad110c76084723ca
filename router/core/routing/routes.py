"""Learned routes: which neighbour leads to which key (specification, "Unicast routing"; R-C2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from .duplicate_index import fair_room
from .limits import RouteLimits


class Route(Struct, frozen=True):
    """`destination` is reached through `neighbour` until `until_s` (Unix seconds)."""

    destination: bytes
    neighbour: bytes
    until_s: int


class Routes:
    """The learned routes; `rank` of a neighbour's key decides which routes give way when the table is full.

    A peer's route gives way to a client's, not the other way round; between equals, a full table learns none."""

    def __init__(self, limits: RouteLimits, rank: Callable[[bytes], int]) -> None:
        self._limits = limits
        self._rank = rank
        self._routes: dict[bytes, Route] = {}
        self._of_neighbour: dict[bytes, dict[bytes, None]] = {}  # destinations, in the order of learning
        self._down_since: dict[bytes, int] = {}
        self.revision = 0

    def __repr__(self) -> str:
        return f"<{len(self._routes)} learned routes through {len(self._of_neighbour)} neighbours>"

    def __iter__(self) -> Iterator[Route]:
        return iter(self._routes.values())

    def __len__(self) -> int:
        return len(self._routes)

    def neighbour_of(self, destination: bytes, now_s: int) -> bytes | None:
        route = self._routes.get(destination)
        return route.neighbour if route and route.until_s > now_s else None

    def neighbour_up(self, neighbour: bytes) -> None:
        self._down_since.pop(neighbour, None)

    def neighbour_down(self, neighbour: bytes, now_s: int) -> None:
        if neighbour in self._of_neighbour:
            self._down_since.setdefault(neighbour, now_s)

    def learn(self, route: Route, now_s: int) -> list[Route] | None:
        """Learn a route from a fresh, verified message; return the routes displaced, None if nothing changes (R-C2).

        A known route is replaced by a later expiry or a neighbour of higher rank, but of a lower rank's only after its
        own expiry, or when its neighbour has been down for `hold_s` seconds.
        """
        known = self._routes.get(route.destination)
        if known is not None and known.neighbour == route.neighbour:
            if known.until_s >= route.until_s:
                return None
            self._routes[route.destination] = route
            return []
        if known is not None and not self._yields(known, route, now_s):
            return None
        if not self._has_room(route.neighbour, known):
            return None
        gone: list[Route] = []
        if known is not None:
            self.forget(known.destination)
        elif len(self._routes) >= self._limits.routes_max:
            gone.append(self._weakest())
            self.forget(gone[0].destination)
        self._routes[route.destination] = route
        self._of_neighbour.setdefault(route.neighbour, {})[route.destination] = None
        self.revision += 1
        return gone

    def _yields(self, known: Route, to: Route, now_s: int) -> bool:
        if known.until_s <= now_s or self._held_too_long(known.neighbour, now_s):
            return True
        mine, other = self._rank(known.neighbour), self._rank(to.neighbour)
        return mine < other or (mine == other and known.until_s < to.until_s)

    def _held_too_long(self, neighbour: bytes, now_s: int) -> bool:
        return now_s - self._down_since.get(neighbour, now_s) >= self._limits.hold_s

    def _has_room(self, neighbour: bytes, known: Route | None) -> bool:
        """Whether a further route through the neighbour fits its share of the free places and those that would yield.

        `known`: the route that it replaces, if any."""
        limits, held = self._limits, len(self._of_neighbour.get(neighbour, ()))
        if held >= limits.per_neighbour_max:
            return False
        free = limits.routes_max - len(self._routes) + (known is not None)
        if fair_room(free, held, limits.neighbour_percent) > 0:
            return True
        rank = self._rank(neighbour)
        free += sum(len(theirs) for one, theirs in self._of_neighbour.items() if self._rank(one) < rank)
        return fair_room(free, held, limits.neighbour_percent) > 0 or (free > 0 and not held)

    def _weakest(self) -> Route:
        """Return the oldest route of the neighbour that has the most among those of the lowest rank."""
        theirs = self._of_neighbour
        neighbour = min(theirs, key=lambda one: (self._rank(one), -len(theirs[one])))
        return self._routes[next(iter(theirs[neighbour]))]

    def forget(self, destination: bytes) -> bool:
        route = self._routes.pop(destination, None)
        if route is None:
            return False
        self.revision += 1
        theirs = self._of_neighbour[route.neighbour]
        del theirs[destination]
        if not theirs:
            del self._of_neighbour[route.neighbour]
            self._down_since.pop(route.neighbour, None)
        return True

    def through(self, neighbour: bytes) -> list[Route]:
        """Return the routes learned from a neighbour."""
        return [self._routes[one] for one in self._of_neighbour.get(neighbour, ())]

    def move(self, neighbour: bytes, to: bytes) -> list[Route]:
        """Let the routes through a neighbour lead through the key that has its place, which has none; return them."""
        moved = self._of_neighbour.pop(neighbour, {})
        if not moved:
            return []
        self._of_neighbour[to] = moved
        if (since_s := self._down_since.pop(neighbour, None)) is not None:
            self._down_since[to] = since_s
        for one in moved:
            self._routes[one] = replace(self._routes[one], neighbour=to)
        self.revision += 1
        return self.through(to)

    def aged(self, now_s: int) -> list[Route]:
        """Return the routes that have expired."""
        return [route for route in self._routes.values() if route.until_s <= now_s]
