"""Which neighbour leads to which key (specification, "Unicast routing"; R-C2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Route:
    """`destination` is reached through `neighbour` until `until_s` (Unix seconds)."""

    destination: bytes
    neighbour: bytes
    until_s: int


class Routes:
    """Learned routes, at most `routes_max`, at most `per_neighbour_max` of one neighbour; a full table learns none."""

    def __init__(self, routes_max: int, per_neighbour_max: int, hold_s: int) -> None:
        self._routes: dict[bytes, Route] = {}
        self._of_neighbour: dict[bytes, int] = {}
        self._down_since: dict[bytes, int] = {}
        self._routes_max = routes_max
        self._per_neighbour_max = per_neighbour_max
        self._hold_s = hold_s
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

    def learn(self, route: Route, now_s: int) -> bool:
        """Take a route from a fresh, verified message. Whether the table changed (R-C2).

        A known route gives way only to a later expiry, after its own, or when its neighbour has been down for
        `hold_s` seconds.
        """
        known = self._routes.get(route.destination)
        if known is None:
            if len(self._routes) >= self._routes_max:
                return False
        elif known.neighbour == route.neighbour:
            if known.until_s >= route.until_s:
                return False
        elif not (
            known.until_s <= now_s or self._held_too_long(known.neighbour, now_s) or known.until_s < route.until_s
        ):
            return False
        if known is None or known.neighbour != route.neighbour:
            if self._of_neighbour.get(route.neighbour, 0) >= self._per_neighbour_max:
                return False
            if known is not None:
                self.forget(known.destination)
            self._of_neighbour[route.neighbour] = self._of_neighbour.get(route.neighbour, 0) + 1
            self.revision += 1
        self._routes[route.destination] = route
        return True

    def _held_too_long(self, neighbour: bytes, now_s: int) -> bool:
        return now_s - self._down_since.get(neighbour, now_s) >= self._hold_s

    def forget(self, destination: bytes) -> bool:
        route = self._routes.pop(destination, None)
        if route is None:
            return False
        self.revision += 1
        left = self._of_neighbour[route.neighbour] - 1
        if left:
            self._of_neighbour[route.neighbour] = left
        else:
            del self._of_neighbour[route.neighbour]
            self._down_since.pop(route.neighbour, None)
        return True

    def through(self, neighbour: bytes) -> list[Route]:
        """The routes learned from that neighbour."""
        if neighbour not in self._of_neighbour:
            return []
        return [route for route in self._routes.values() if route.neighbour == neighbour]

    def aged(self, now_s: int) -> list[Route]:
        """The routes whose time has passed."""
        return [route for route in self._routes.values() if route.until_s <= now_s]
