"""The verb `ShareGroups`: a service agrees with another router on groups that both have."""

from __future__ import annotations

from typing import Any, ClassVar

from router.core.routing.kernel import Kernel
from router.core.routing.links import Link
from router.core.wire.crypto import PublicKey
from router.core.wire.now import Now
from router.service.verbs.share_groups import ShareGroups

from .part import Hears
from .rights import Rights
from .verb_part import OWN_KEY, VerbPart


class SharedGroups(VerbPart):
    """Records agreements with other routers."""

    def __init__(self, kernel: Kernel, rights: Rights) -> None:
        self._directory = kernel.directory
        self._rights = rights

    def share(self, link: Link, said: ShareGroups, now: Now) -> dict[str, Any]:
        """Record the groups agreed on with a router, in place of the earlier ones; return whether there are any."""
        key = bytes(PublicKey.checked(said.key))
        groups = [bytes(PublicKey.checked(one)) for one in said.groups]
        if key == self._directory.me or key in self._directory.locals:
            return {"error": OWN_KEY}
        agreements = self._directory.agreements
        if said.page:
            groups += agreements.agreed(link.key, key)
        lasts_s = now.judged_until_s(said.until_s) - now.judged_s
        forgotten = agreements.agree(link.key, key, groups, lasts_s, now.mono_s, lan=said.lan)
        self._rights.agreed((key, *forgotten), now)
        return {"agreed": agreements.is_met(key)}

    HEARS: ClassVar[Hears] = {ShareGroups: share}
