"""The verb `AddNeighbour`: a service makes a neighbour known, among as many as `limits.learned_max` allows.

Anybody can name a key and an address in a datagram; a link proves both. So the service that finds routers hears of the
links of the neighbours that it has made known, and can tell them from what was only claimed.
"""

from __future__ import annotations

from typing import Any, ClassVar

from router.core.neighbours.book import Learned
from router.core.routing.kernel import Kernel
from router.core.routing.links import Link
from router.core.service.roles import Role
from router.core.wire.crypto import PublicKey
from router.core.wire.now import Now
from router.service.verbs.add_neighbour import AddNeighbour, NeighbourLinked

from .part import Hears
from .rights import Rights
from .verb_part import OWN_KEY, VerbPart


class LearnedNeighbours(VerbPart):
    """Enters neighbours that services have learned into the book, and tells the service that finds routers of the links
    of its own."""

    def __init__(self, kernel: Kernel, rights: Rights) -> None:
        self._directory = kernel.directory
        self._book = kernel.book
        self._links = kernel.links
        self._say = kernel.speaker.say
        self._rights = rights
        self._news: dict[bytes, None] = {}  # keys whose links the service is to be told of, in this order

    def __repr__(self) -> str:
        return f"<{len(self._news)} links of neighbours that are to be told>"

    def add(self, link: Link, said: AddNeighbour, now: Now) -> dict[str, Any]:
        """Enter a neighbour, or delete it if its time has passed; return whether it is known."""
        by, key = link.key, bytes(PublicKey.checked(said.key))
        one = Learned(by, key, said.name, said.urls, now.judged_until_s(said.until_s), said.how)
        if one.until_s > now.judged_s and not self._book.takes_learned(by, key):
            most = f"services have made {self._book.learned_max} neighbours known, and that is the most"
            return {"error": f"{most}; let go of some, or raise limits.learned_max"}
        if key == self._directory.me or key in self._directory.locals:
            return {"error": OWN_KEY}
        is_new = (by, key) not in self._book.learned
        self._rights.rewrite(lambda: [self._book.learn(one, now.judged_s)], now)
        if is_new and self._links.to(key) is not None:
            self._changed(key)
            self._tell(now)
        return {"learned": (by, key) in self._book.learned}

    # -- the links of neighbours ----------------------------------------------------------------------------

    def link_up(self, link: Link, now: Now) -> None:
        """Tell the service of this link, or of all links of its neighbours if it is the service's own."""
        if self._directory.has_role(link.key, Role.FINDER):
            self._news.clear()
            for one in self._links:
                self._changed(one.key)
        else:
            self._changed(link.key)
        self._tell(now)

    def link_down(self, link: Link, now: Now) -> None:
        """Record that a link is gone; the service is told with the next news."""
        self._changed(link.key)

    def tick(self, now: Now) -> None:
        """Tell what had no room before."""
        self._tell(now)

    def _changed(self, key: bytes) -> None:
        """Record that a neighbour was connected, lost or made known."""
        finder = self._directory.with_role(Role.FINDER)
        if finder is not None and (finder, key) in self._book.learned:
            self._news[key] = None

    def _tell(self, now: Now) -> None:
        """Tell the news as far as the service's window allows; the rest next time."""
        finder = self._directory.with_role(Role.FINDER)
        service = None if finder is None else self._links.to(finder)
        if service is None:
            self._news.clear()
            return
        for key in list(self._news):
            link = self._links.to(key)
            said = NeighbourLinked(PublicKey(key), "" if link is None else link.ip, link is not None)
            if service.outgoing.room()[0] < 1 or not self._say(service, said.inquiry(), now):
                return
            del self._news[key]

    HEARS: ClassVar[Hears] = {AddNeighbour: add}
