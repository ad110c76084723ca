"""The terms of guests: what a neighbour may do here, said when it asks and whenever that changes (R-D15)."""

from __future__ import annotations

from collections.abc import Container
from typing import ClassVar

from router.core.neighbours.terms import terms_of, why_none
from router.core.routing.kernel import Kernel
from router.core.routing.links import Link
from router.core.wire.invitation import RIGHTS
from router.core.wire.lifetime import expiry_min
from router.core.wire.now import Now
from router.core.wire.redemption import AskTerms, Terms

from .part import Hears, Part


class TermsSaid(Part):
    """Says to each neighbour that has asked for its terms what they are; its link holds what was said last.

    What had no room on the link is said once there is."""

    def __init__(self, kernel: Kernel) -> None:
        self._directory = kernel.directory
        self._invitations = kernel.book.invitations
        self._links = kernel.links
        self._say = kernel.speaker.say
        self._unsaid: set[int] = set()  # links that have not been told

    def __repr__(self) -> str:
        return f"<{len(self._unsaid)} neighbours whose terms had no room yet>"

    def asked(self, link: Link, said: AskTerms, now: Now) -> None:
        """Answer a neighbour that asks for its terms."""
        link.terms = None
        self._tell(link, now)

    def changed(self, link: Link, now: Now) -> None:
        """Tell a neighbour that has asked for its terms the present ones if they have changed."""
        if link.terms is not None:
            self._tell(link, now)

    def tick(self, now: Now) -> None:
        """Say what had no room before."""
        for number in sorted(self._unsaid):
            if (link := self._links.get(number)) is not None:
                self._tell(link, now)

    def link_down(self, link: Link, now: Now) -> None:
        """Forget a link that is gone; the neighbour asks again on its next one."""
        self._unsaid.discard(link.id)

    def _tell(self, link: Link, now: Now) -> None:
        rights = self._directory.grants(link.key)
        if rights:
            until_s = terms_of(link.key, self._directory, self._invitations, now.judged_s).until_s
            said = Terms(None, ordered(rights), minute(until_s))
        else:
            reason, since_s = why_none(link.key, self._directory, self._invitations, now.judged_s)
            said = Terms(int(reason), (), minute(since_s // 60 * 60))
        if said == link.terms or self._say(link, said, now):
            link.terms = said
            self._unsaid.discard(link.id)
        else:
            self._unsaid.add(link.id)

    HEARS: ClassVar[Hears] = {AskTerms: asked}


def ordered(rights: Container[str]) -> tuple[str, ...]:
    """Return rights in the order in which messages name them."""
    return tuple(one for one in RIGHTS if one in rights)


def minute(at_s: int) -> int:
    """Return the expiry minute of a Unix second; 0 for 0, which is no end."""
    return expiry_min(at_s) if at_s else 0
