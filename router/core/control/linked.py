"""Connected routers that have a public service with a role, as reported to the service of this node with that role.

A router names its pub/sub and its discovery service in the hello of each link, if strangers may send to them. So
services find each other on links that were made for other reasons: to uplinks, clients, and routers that a hint names
(R-C27, R-C28). Discovery is told of configured and invited routers alone, from which it learns of others; clients learn
from this node.
"""

from __future__ import annotations

from router.core.neighbours.directory import Standing
from router.core.routing.kernel import Kernel
from router.core.routing.links import Link
from router.core.service.roles import Role
from router.core.wire.crypto import PublicKey
from router.core.wire.now import Now
from router.service.verbs.linked import Linked

from .part import Part


class LinkedServices(Part):
    """Tells the services of this node of each link that comes up or goes down, in any order."""

    def __init__(self, kernel: Kernel) -> None:
        self._directory = kernel.directory
        self._links = kernel.links
        self._say = kernel.speaker.say
        self._news: dict[Role, dict[bytes, bytes | None]] = {role: {} for role in Role}
        self._told: dict[Role, dict[bytes, bytes]] = {role: {} for role in Role}
        self._judged_at = self._directory.revision

    def __repr__(self) -> str:
        return f"<{sum(map(len, self._news.values()))} links of which services are to be told>"

    def link_up(self, link: Link, now: Now) -> None:
        """Tell the services of this link, or a service of all links if it is its own."""
        for role in Role:
            if link.key == self._directory.with_role(role):
                self._told[role].clear()
                self._news[role] = {}
                for one in self._links:
                    self._judge(role, one.key)
            else:
                self._told[role].pop(link.key, None)  # it is told again: the router may have started anew
                self._judge(role, link.key)
        self.tell(now)

    def link_down(self, link: Link, now: Now) -> None:
        """Record that a link is gone; the services are told with the next news."""
        for role in Role:
            if link.key == self._directory.with_role(role):
                self._news[role].clear()
            else:
                self._judge(role, link.key)

    def tick(self, now: Now) -> None:
        """Tell what had no room before, and of links whose standing has changed."""
        if self._judged_at != self._directory.revision:
            self._judged_at = self._directory.revision
            for one in self._links:
                self._judge(Role.FINDER, one.key)
        self.tell(now)

    def tell(self, now: Now) -> None:
        """Tell the news as far as the services' windows allow; the rest next time."""
        for role in Role:
            self._tell(role, now)

    def _tell(self, role: Role, now: Now) -> None:
        key, news, told = self._directory.with_role(role), self._news[role], self._told[role]
        link = None if key is None else self._links.to(key)
        if link is None:
            news.clear()
            return
        for router, service in list(news.items()):
            said = Linked(PublicKey(router), PublicKey(service) if service else None)
            if link.outgoing.room()[0] < 1 or not self._say(link, said.inquiry(), now):
                return
            del news[router]
            if service is None:
                told.pop(router, None)
            else:
                told[router] = service

    def _judge(self, role: Role, router: bytes) -> None:
        """Record what the service with this role is to be told of a router, unless it was told that last."""
        link = self._links.to(router)
        service = None if link is None else _named(role, link)
        self._news[role].pop(router, None)
        if service != self._told[role].get(router):
            self._news[role][router] = service


def _named(role: Role, link: Link) -> bytes | None:
    """Return the service that the other end of a link names, if ours is told of it."""
    if role is Role.OVERLAY:
        return link.pubsub
    return link.discovery if link.standing is Standing.PEER else None
