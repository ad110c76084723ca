"""The verb `Grant`: a service gives a key rights."""

from __future__ import annotations

from typing import Any, ClassVar

from router.core.neighbours.book import ENTRIES_MAX, Granted
from router.core.neighbours.directory import OF_CLIENTS, WHY
from router.core.routing.kernel import Kernel
from router.core.routing.links import Link
from router.core.wire.crypto import PublicKey
from router.core.wire.now import Now
from router.service.verbs.grant import Grant

from .part import Hears
from .rights import Rights
from .verb_part import VerbPart


class Grants(VerbPart):
    """Enters the grants of services into the book."""

    def __init__(self, kernel: Kernel, rights: Rights) -> None:
        self._book = kernel.book
        self._rights = rights

    def grant(self, link: Link, said: Grant, now: Now) -> dict[str, Any]:
        """Enter a grant, or delete it if it gives nothing any more; return whether the key has one."""
        rights, known = frozenset(said.rights), OF_CLIENTS | {WHY}
        if not rights <= known:
            return {"error": f"{min(rights - known)} is no right; there are {', '.join(sorted(known))}"}
        by, key = link.key, bytes(PublicKey.checked(said.key))
        if not self._book.takes_grant(by, key):
            return {"error": f"this service has given rights to {ENTRIES_MAX} keys, the most it may; take some back"}
        one = Granted(by, key, rights, said.until_s, said.uses or None)
        self._rights.rewrite(lambda: [self._book.grant(one, now.wall_s)], now)
        return {"granted": (by, key) in self._book.granted}

    HEARS: ClassVar[Hears] = {Grant: grant}
