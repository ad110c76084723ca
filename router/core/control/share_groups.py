"""The verb `ShareGroups`: a service agrees with another router on groups that both have."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

from router.core.routing.kernel import Kernel
from router.core.routing.links import Link
from router.core.wire.crypto import PublicKey
from router.core.wire.now import Now
from router.service.verbs.share_groups import ShareGroups

from .part import Hears
from .rights import Rights
from .verb_part import OWN_KEY, VerbPart

LACKS_PAGES = "the pages before this one did not come; say all of them again"


class Coming(NamedTuple):
    """The router about which a service says pages, the number of the next one, and the groups of those before."""

    key: bytes
    page: int = 0
    groups: tuple[bytes, ...] = ()


class SharedGroups(VerbPart):
    """Records agreements with other routers."""

    def __init__(self, kernel: Kernel, rights: Rights) -> None:
        self._directory = kernel.directory
        self._rights = rights
        self._coming: dict[bytes, Coming] = {}  # by service, which says one page after the other

    def share(self, link: Link, said: ShareGroups, now: Now) -> dict[str, Any]:
        """Record the groups agreed on with a router, in place of the earlier ones, once the last page is there; return
        whether there are any."""
        key = bytes(PublicKey.checked(said.key))
        groups = tuple([bytes(PublicKey.checked(one)) for one in said.groups])
        if key == self._directory.me or key in self._directory.locals:
            return {"error": OWN_KEY}
        agreements = self._directory.agreements
        before = self._coming.pop(link.key, Coming(key)) if said.page else Coming(key)
        if said.page and not (groups or said.more):
            groups = tuple(agreements.agreed(link.key, key))
        elif (before.key, before.page) != (key, said.page):
            return {"error": LACKS_PAGES}
        else:
            groups = (*before.groups, *groups)
        if said.more:
            self._coming[link.key] = Coming(key, said.page + 1, groups)
        else:
            lasts_s = now.judged_until_s(said.until_s) - now.judged_s
            forgotten = agreements.agree(link.key, key, groups, lasts_s, now.mono_s, lan=said.lan)
            self._rights.agreed((key, *forgotten), now)
        return {"agreed": bool(agreements.agreed(link.key, key))}

    HEARS: ClassVar[Hears] = {ShareGroups: share}
