"""Connected routers that have a pub/sub service, as reported to the pub/sub service of this node.

A router names its pub/sub service in the hello of each link, if strangers may send to that. So services find each other
on links that were made for other reasons: to uplinks, clients, and routers that a hint names (R-C27, R-C28).
"""

from __future__ import annotations

from router.core.routing.kernel import Kernel
from router.core.routing.links import Link
from router.core.service.roles import Role
from router.core.wire.crypto import PublicKey
from router.core.wire.now import Now
from router.service.verbs.linked import Linked

from .part import ControlPart


class LinkedServices(ControlPart):
    """Tells the pub/sub service of this node of each link that comes up or goes down, in any order."""

    def __init__(self, kernel: Kernel) -> None:
        self._directory = kernel.directory
        self._links = kernel.links
        self._say = kernel.speaker.say
        self._news: dict[bytes, bytes | None] = {}

    def __repr__(self) -> str:
        return f"<{len(self._news)} links of which the pub/sub service is to be told>"

    def link_up(self, link: Link, now: Now) -> None:
        """Tell the service of this link, or of all links if it is the service's own."""
        if link.key == self._directory.with_role(Role.OVERLAY):
            self._news = {one.key: one.pubsub for one in self._links if one.pubsub is not None}
        elif link.pubsub is not None:
            self._news[link.key] = link.pubsub
        self.tell(now)

    def link_down(self, link: Link, now: Now) -> None:
        """Record that a link is gone; the service is told with the next news."""
        if link.key == self._directory.with_role(Role.OVERLAY):
            self._news.clear()
        elif link.pubsub is not None and self._links.to(link.key) is None:
            self._news[link.key] = None

    def tick(self, now: Now) -> None:
        """Tell what had no room before."""
        self.tell(now)

    def tell(self, now: Now) -> None:
        """Tell the news as far as the service's window allows; the rest next time."""
        key = self._directory.with_role(Role.OVERLAY)
        link = None if key is None else self._links.to(key)
        if link is None:
            self._news.clear()
            return
        for router, pubsub in list(self._news.items()):
            said = Linked(PublicKey(router), PublicKey(pubsub) if pubsub else None)
            if link.outgoing.room()[0] < 1 or not self._say(link, said.inquiry(), now):
                return
            del self._news[router]
