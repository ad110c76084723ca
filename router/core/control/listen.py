"""The verb `Listen`: the node listens at a URL for a service."""

from __future__ import annotations

from typing import Any, ClassVar

from router.core.routing.effects import ListenFor
from router.core.routing.kernel import Kernel
from router.core.routing.links import Link
from router.core.wire.now import Now
from router.service.verbs.listen import Listen

from .part import Hears
from .rights import Rights
from .verb_part import VerbPart


class AskedListening(VerbPart):
    """Passes the URL on to the node, which says with `Listening` where it listens."""

    def __init__(self, kernel: Kernel, rights: Rights) -> None:
        self._pending = kernel.pending

    def listen(self, link: Link, said: Listen, now: Now) -> dict[str, Any]:
        """Have the node listen there, in place of the URL before."""
        self._pending.effects.append(ListenFor(link.key, said.url))
        return {}

    HEARS: ClassVar[Hears] = {Listen: listen}
