"""The verb `Answer`: a service answers an operator's question."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from router.core.routing.effects import ServiceAnswered
from router.core.routing.kernel import Kernel
from router.core.routing.links import Link
from router.core.wire.now import Now
from router.service.verbs.answer import Answer

from .part import Hears
from .rights import Rights
from .verb_part import VerbPart


class ServiceAnswers(VerbPart):
    """Passes the answers of services on to the node, which knows who asked."""

    def __init__(self, kernel: Kernel, rights: Rights) -> None:
        self._pending = kernel.pending

    def answer(self, link: Link, said: Answer, now: Now) -> dict[str, Any]:
        """Pass on the answer to the question with this number."""
        self._pending.effects.append(ServiceAnswered(link.key, said.number, msgspec.json.encode(said.value)))
        return {}

    HEARS: ClassVar[Hears] = {Answer: answer}
