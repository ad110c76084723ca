"""The members that are neighbours on the rings of several topics alike, so that one that falls silent or is back costs
the same for one topic and for thousands (R-C32)."""

from __future__ import annotations

from collections.abc import Callable

from router.core.wire.crypto import PublicKey
from services.pubsub.core.known import LiveNeighbours, Neighbour
from services.pubsub.core.rings.view import View


class Circle:
    """The topics that have the same members as neighbours: `near`, those of them that are live, and the topics; `view`,
    all of them; `key`: these, as of the last change.

    As of the last look: `nearest`, the nearest members on each side, live or not, and since which second they are;
    `version`, a number that changes with the live members; `is_alone`, whether there are none at all."""

    __slots__ = ("_seen", "is_alone", "key", "near", "nearest", "version", "view")

    def __init__(self, near: LiveNeighbours, view: View) -> None:
        self.near = near
        self.view = view
        self.key = frozenset[Neighbour]()
        self.nearest: dict[PublicKey, float] = {}
        self.version = 0
        self.is_alone = True
        self._seen: tuple[object, ...] = ((), (), ())

    def __repr__(self) -> str:
        return f"<circle of {self.near!r}>"

    def copy(self) -> Circle:
        """Return a circle of the same members, without topics."""
        near = LiveNeighbours(self.near.back, self.near.moved)
        found = Circle(near, self.view.copy())
        near.lost = set(self.near.lost)
        near.show(self.near.after, self.near.before, self.near.others)
        found.key, found.nearest = self.key, dict(self.nearest)
        found.version, found.is_alone, found._seen = self.version, self.is_alone, self._seen
        return found

    def change(self, act: Callable[[View], None]) -> None:
        """Change the members."""
        act(self.view)
        self.key = frozenset([seat.neighbour for seat in self.view])

    def show(self) -> None:
        """Show the live members to the other parts of the service."""
        self.view.rearrange()
        self.near.show(*self.view.sides)

    def look(self, now_s: float, version: int) -> bool:
        """Note the nearest members, and whether the live ones have changed since the last look: return that, and take
        the version."""
        routers = [PublicKey(one) for one in self.view.nearest]
        if self.nearest.keys() != set(routers):
            self.nearest = {one: self.nearest.get(one, now_s) for one in routers}
        live = self.near.after, self.near.before, self.near.others
        has_changed = live != self._seen
        if has_changed:
            self._seen, self.version = live, version
        return has_changed
