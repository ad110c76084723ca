"""The verb `AddNeighbour`: a service makes a neighbour known, among as many as `limits.learned_max` allows."""

from __future__ import annotations

from typing import Any, ClassVar

from router.core.neighbours.book import Learned
from router.core.routing.kernel import Kernel
from router.core.routing.links import Link
from router.core.wire.crypto import PublicKey
from router.core.wire.now import Now
from router.service.verbs.add_neighbour import AddNeighbour

from .part import Hears
from .rights import Rights
from .verb_part import OWN_KEY, VerbPart


class LearnedNeighbours(VerbPart):
    """Enters neighbours that services have learned into the book."""

    def __init__(self, kernel: Kernel, rights: Rights) -> None:
        self._directory = kernel.directory
        self._book = kernel.book
        self._rights = rights

    def add(self, link: Link, said: AddNeighbour, now: Now) -> dict[str, Any]:
        """Enter a neighbour, or delete it if its time has passed; return whether it is known."""
        by, key = link.key, bytes(PublicKey.checked(said.key))
        one = Learned(by, key, said.name, said.urls, said.until_s, said.how)
        if one.until_s > now.wall_s and not self._book.takes_learned(by, key):
            most = f"services have made {self._book.learned_max} neighbours known, and that is the most"
            return {"error": f"{most}; let go of some, or raise limits.learned_max"}
        if key == self._directory.me or key in self._directory.locals:
            return {"error": OWN_KEY}
        self._rights.rewrite(lambda: [self._book.learn(one, now.wall_s)], now)
        return {"learned": (by, key) in self._book.learned}

    HEARS: ClassVar[Hears] = {AddNeighbour: add}
