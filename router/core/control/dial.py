"""The verb `Dial`: a service wants a connection to a neighbour at once."""

from __future__ import annotations

from typing import Any, ClassVar

from router.core.routing import effects
from router.core.routing.kernel import Kernel
from router.core.routing.links import Link
from router.core.wire.now import Now
from router.service.verbs.dial import Dial

from .part import Hears
from .rights import Rights
from .verb_part import VerbPart


class AskedDialling(VerbPart):
    """Has neighbours dialled that are not connected."""

    def __init__(self, kernel: Kernel, rights: Rights) -> None:
        self._links = kernel.links
        self._pending = kernel.pending

    def dial(self, link: Link, said: Dial, now: Now) -> dict[str, Any]:
        """Have a neighbour dialled; return whether it is connected already."""
        is_connected = self._links.to(said.key) is not None
        if not is_connected:
            self._pending.effects.append(effects.DialNeighbour(said.key))
        return {"connected": is_connected}

    HEARS: ClassVar[Hears] = {Dial: dial}
