"""The routers that a service's rules know to be connected, as long as their own router is."""

from __future__ import annotations

from router.core.wire.crypto import PublicKey
from router.core.wire.heard import Heard
from router.service.verbs.add_neighbour import NeighbourLinked
from router.service.verbs.linked import Linked


class LinkedRouters:
    """Remembers them, so that the rules hear of the end of each link when the own router is lost."""

    def __init__(self) -> None:
        self._routers: dict[PublicKey, None] = {}
        self._neighbours: dict[PublicKey, None] = {}

    def __repr__(self) -> str:
        return f"<{len(self._routers)} routers and {len(self._neighbours)} neighbours are connected>"

    def note(self, heard: Heard) -> None:
        """Record that a router is connected, or is not any more."""
        match heard:
            case Linked(router, service):
                _set(self._routers, router, service is not None)
            case NeighbourLinked(key, _, is_up):
                _set(self._neighbours, key, is_up)

    def lost(self) -> list[Linked | NeighbourLinked]:
        """Return the events when the own router is gone: no router is connected any more.

        When it is back it names the connected ones, but not the earlier ones, since it may have started again."""
        routers, self._routers = self._routers, {}
        neighbours, self._neighbours = self._neighbours, {}
        return [*map(Linked, routers), *(NeighbourLinked(one, is_up=False) for one in neighbours)]


def _set(keys: dict[PublicKey, None], key: PublicKey, is_connected: bool) -> None:
    keys.pop(key, None)
    if is_connected:
        keys[key] = None
