"""The routers that a service's rules know to be connected, as long as their own router is."""

from __future__ import annotations

from router.core.wire.crypto import PublicKey
from router.service.verbs.linked import Linked


class LinkedRouters:
    """Remembers them, so that the rules hear of the end of each link when the own router is lost."""

    def __init__(self) -> None:
        self._routers: dict[PublicKey, None] = {}

    def __repr__(self) -> str:
        return f"<{len(self._routers)} routers are connected>"

    def note(self, heard: Linked) -> None:
        """Record that a router is connected, or is not any more."""
        self._routers.pop(heard.router, None)
        if heard.service is not None:
            self._routers[heard.router] = None

    def lost(self) -> list[Linked]:
        """Return the events when the own router is gone: no router is connected any more.

        When it is back it names the connected ones, but not the earlier ones, since it may have started again."""
        gone, self._routers = self._routers, {}
        return [Linked(one) for one in gone]
