"""The verb `FanOut`: the pub/sub service is given what is published in groups that nobody here reads."""

from __future__ import annotations

from math import inf
from typing import Any, ClassVar

from router.core.routing.fanned import UNJOINED_S, FanTerms
from router.core.routing.kernel import Kernel
from router.core.routing.links import Link
from router.core.wire.now import Now
from router.service.verbs.fan_out import FanOut

from .part import Hears
from .rights import Rights
from .verb_part import VerbPart


class FannedOut(VerbPart):
    """Records which service is given such messages, until its link goes."""

    def __init__(self, kernel: Kernel, rights: Rights) -> None:
        self._groups = kernel.groups
        self._swept_s = -inf

    def take(self, link: Link, said: FanOut, now: Now) -> dict[str, Any]:
        """Give the service such messages from now on, as far as its terms go."""
        full = frozenset(map(bytes, said.full))
        terms = FanTerms(said.groups_max, said.groups_of_one_max, said.groups_of_clients_max, full, said.is_full)
        self._groups.fan_out(link.key, terms)
        return {}

    def link_down(self, link: Link, now: Now) -> None:
        """Refuse such messages again when the service is gone."""
        if link.key == self._groups.fanning:
            self._groups.fan_out(None)

    def tick(self, now: Now) -> None:
        """Forget what the service takes no part in."""
        if now.mono_s - self._swept_s >= UNJOINED_S:
            self._swept_s = now.mono_s
            self._groups.sweep_fan_out(now.mono_s)

    HEARS: ClassVar[Hears] = {FanOut: take}
