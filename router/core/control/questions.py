"""Questions to this router that its node answers, and its own questions to neighbours' routers."""

from __future__ import annotations

from typing import ClassVar

from router.core.neighbours.directory import UNKNOWN, WHY, Standing
from router.core.routing.effects import AnswerInquiry, NeighbourAnswered
from router.core.routing.kernel import Kernel
from router.core.routing.links import Link
from router.core.wire.admin import Answer, Inquiry
from router.core.wire.now import Now
from router.core.wire.reasons import Reason

from .part import Hears, Part, Refused


class AwaitedAnswers(Part):
    """Owns the number of answers that each neighbour's router owes us on its present link."""

    def __init__(self, kernel: Kernel) -> None:
        self._pending = kernel.pending
        self._speaker = kernel.speaker
        self._awaited: dict[bytes, int] = {}

    def __repr__(self) -> str:
        return f"<{sum(self._awaited.values())} answers of neighbours are awaited>"

    def link_down(self, link: Link, now: Now) -> None:
        """Expect no more answers of that link."""
        self._awaited.pop(link.key, None)

    def ask(self, link: Link, inquiry: Inquiry, now: Now) -> None:
        """Ask a neighbour's router, which may answer each question once, on this link."""
        if self._speaker.say(link, inquiry, now):
            self._awaited[link.key] = self._awaited.get(link.key, 0) + 1

    def awaits(self, key: bytes) -> bool:
        """Whether an answer of this neighbour is awaited."""
        return key in self._awaited

    def asked(self, link: Link, inquiry: Inquiry, now: Now) -> Refused:
        """Pass a question on to the node; return why it is refused, or None.

        On the owner's socket any question is allowed. Elsewhere only `why` is allowed, about their own messages: to
        apps of this node, and to known neighbours and apps with the right to it."""
        is_local = link.standing is Standing.LOCAL
        is_owners = link.owner and is_local
        if not is_owners and (refused := _not_allowed(link, inquiry)) is not None:
            return refused
        neighbour = None if is_local else link.key
        service = link.key if is_local and not is_owners else None
        self._pending.effects.append(AnswerInquiry(link.id, inquiry, neighbour, service))
        return None

    def answered(self, link: Link, answer: Answer, now: Now) -> Refused:
        """Pass a neighbour's answer on to the node; return why it is refused, or None."""
        if link.standing in UNKNOWN:
            return Reason.NOT_AUTHORISED, "strangers ask this router nothing"
        if not self._take_awaited(link.key):
            return Reason.NOT_AUTHORISED, "it was answered already"
        self._pending.effects.append(NeighbourAnswered(link.key, answer.text))
        return None

    def _take_awaited(self, key: bytes) -> bool:
        left = self._awaited.pop(key, 0) - 1
        if left > 0:
            self._awaited[key] = left
        return left >= 0

    HEARS: ClassVar[Hears] = {Inquiry: asked, Answer: answered}


def _not_allowed(link: Link, inquiry: Inquiry) -> Refused:
    """Return why a neighbour or an app that is not on the owner's socket may not ask this."""
    if link.standing in UNKNOWN:
        return Reason.NOT_AUTHORISED, "strangers ask this router nothing"
    if inquiry.ask != WHY:
        return Reason.NOT_AUTHORISED, "a router's own state is asked on its owner's socket only"
    return None
