"""Redeem the invitations that this node was given: ask their routers to let it in until they answer (R-D16).

An offer is sent at each link-up to its inviter, and repeated until the answer comes. Meanwhile the link is `shut`:
nothing but this router's own messages goes to a neighbour that would still refuse the rest as a stranger's. The secrets
are files of the home, which forgets one after the effect `InvitationAnswered`; after a crash before that the offer is
sent again, and the inviter answers the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from msgspec import Struct

from router.core.log import events as ev
from router.core.routing.delivery import Delivery
from router.core.routing.effects import DialNeighbour, InvitationAnswered, TermsHeard
from router.core.routing.kernel import Kernel
from router.core.routing.links import Link
from router.core.wire.lifetime import SECOND_NS, apart_words
from router.core.wire.now import Now
from router.core.wire.reasons import INVITE_EXPIRED, INVITE_NO_ROOM, Reason, reason_from
from router.core.wire.redemption import AskTerms, Redeem, Redeemed, Terms

from .part import Hears, Part
from .upstream import Upstream

AGAIN_S = 5.0
LATER_S = 30.0
ROOM = "its operator can raise limits.guests_max or remove neighbours, and "
_OF_CLOCKS = frozenset((Reason.EXPIRY_PASSED, Reason.EXPIRY_TOO_FAR, Reason.CLOCK_DOUBTED))


@dataclass(frozen=True, slots=True)
class UnansweredInvitation:
    """An invitation that this node was given and that its inviter has not answered; it ends at Unix second `until_s`.

    `name`: this node's name for itself there."""

    id: bytes
    inviter: bytes
    secret: bytes = field(repr=False)
    until_s: int
    name: str | None = None


class _Open(Struct):
    """An offer and its last request: when it is repeated (monotonic seconds), and its number on the present link."""

    offer: UnansweredInvitation
    again_s: float = 0.0
    k: int = 0
    problem: str = ""


class Redeeming(Part):
    """Owns the offers that are not answered. A neighbour that has answered is asked for groups, and handed what
    waits."""

    def __init__(self, kernel: Kernel, upstream: Upstream, delivery: Delivery) -> None:
        self._links = kernel.links
        self._newest = kernel.directory.successors.newest  # an inviter's key may have been renewed since
        self._pending = kernel.pending
        self._say = kernel.speaker.say
        self._upstream = upstream
        self._delivery = delivery
        self._inviters: set[bytes] = set()
        self._open: dict[bytes, _Open] = {}

    def __repr__(self) -> str:
        return f"<{len(self._open)} invitations to redeem>"

    def is_open(self, inviter: bytes) -> bool:
        """Whether an invitation by this key is to be redeemed, so that the key is to be dialled."""
        return any(self._inviter(one.offer) == inviter for one in self._open.values())

    def problem_of(self, id: bytes) -> str:
        """Return why the last request for an offer was not answered, "" if there is no known problem."""
        return self._open[id].problem if id in self._open else ""

    def given(self, offers: Iterable[UnansweredInvitation], now: Now, inviters: Iterable[bytes] = ()) -> None:
        """Replace the offers by those that the home holds now; send new ones at once. `inviters`: the keys that have
        answered an invitation before."""
        self._inviters = set(inviters)
        before, self._open = self._open, {one.id: _Open(one) for one in offers}
        self._open = {id: before.get(id, one) for id, one in self._open.items()}
        for id in self._open.keys() - before.keys():
            one = self._open[id]
            link = self._links.to(self._inviter(one.offer))
            if link is None:
                self._pending.effects.append(DialNeighbour(self._inviter(one.offer)))
            else:
                link.shut = True
                self._ask(one, link, now)
        for gone in before.keys() - self._open.keys():
            self._open_link(self._inviter(before[gone].offer), now)
        for key in self._inviters:
            self._ask_terms(self._newest(key), now)

    def link_up(self, link: Link, now: Now) -> None:
        """Shut a link to an inviter, and ask the inviter to let this node in."""
        for one in self._of(link):
            link.shut = True
            self._ask(one, link, now)
        self._ask_terms(link.key, now)

    def _ask_terms(self, inviter: bytes, now: Now) -> None:
        """Ask a router that has answered an invitation for this node's rights there: once on each link, and after each
        answer."""
        link = self._links.to(inviter)
        has_answered = any(self._newest(one) == inviter for one in self._inviters)
        if link is not None and has_answered and not (link.terms_asked or self.is_open(inviter)):
            link.terms_asked = True
            self._say(link, AskTerms(), now)

    def tick(self, now: Now) -> None:
        """Repeat requests without an answer, and end offers whose time is over by either of this node's two times."""
        for one in [*self._open.values()]:
            if now.earliest_ns >= one.offer.until_s * SECOND_NS:
                self._answered(one, INVITE_EXPIRED, (), 0, now)
            elif (link := self._links.to(self._inviter(one.offer))) is not None and now.mono_s >= one.again_s:
                self._ask(one, link, now)

    def told_terms(self, link: Link, said: Terms, now: Now) -> None:
        """Keep an inviter's statement of this node's rights there, if this node has asked for it."""
        if link.terms_asked:
            for inviter in (one for one in self._inviters if self._newest(one) == link.key):
                self._pending.effects.append(TermsHeard(inviter, said.reason, said.rights, said.expiry_min))

    def redeemed(self, link: Link, answer: Redeemed, now: Now) -> None:
        """Handle the answer to an offer; an unexpected one is ignored."""
        one = next((one for one in self._of(link) if one.offer.secret == answer.secret), None)
        if one is None:
            return
        if answer.reason is None:
            self._answered(one, None, answer.rights, answer.expiry_min, now, had=answer.had)
            return
        reason = reason_from(answer.reason)
        if reason.later:
            remedy = ROOM if reason is INVITE_NO_ROOM else ""
            one.problem = f"it cannot let us in yet: {reason.clause}; {remedy}this node asks again"
            one.again_s = now.mono_s + LATER_S
        else:
            self._answered(one, reason, (), 0, now, answer.reason)

    def refused(self, link: Link, k: int, reason: Reason, text: str) -> None:
        """Note that the inviter's router refused our `k`-th message on this link unread, if it was a request."""
        for one in self._of(link):
            if one.k == k:
                one.problem = _refusal(link, reason, text)
                if not reason.later:
                    one.again_s = float("inf")
                    link.shut = False

    def _ask(self, one: _Open, link: Link, now: Now) -> None:
        before = link.outgoing.sent
        self._say(link, Redeem(one.offer.secret, one.offer.name), now)
        one.k = link.outgoing.sent if link.outgoing.sent > before else 0
        one.again_s = now.mono_s + AGAIN_S

    def _answered(
        self,
        one: _Open,
        reason: Reason | None,
        rights: tuple[str, ...],
        expiry_min: int,
        now: Now,
        number: int | None = None,
        had: bool = False,
    ) -> None:
        offer = one.offer
        del self._open[offer.id]
        said = ("because", reason.word) if reason is not None else ("rights", ",".join(rights))
        change = "let-in" if reason is None else "turned-away"
        fields = (("invitation", offer.id), ("change", change), ("peer", offer.inviter), said)
        self._pending.changes.events.append(ev.RouterChange(now.wall_ns, now.mono_ns, "invite", fields))
        found = InvitationAnswered(offer.id, None if reason is None else int(reason), rights, expiry_min, had)
        self._pending.effects.append(found)
        inviter = self._inviter(offer)
        self._open_link(inviter, now)
        self._inviters.add(offer.inviter)
        if (link := self._links.to(inviter)) is not None:
            link.terms_asked = False
        self._ask_terms(inviter, now)

    def _open_link(self, inviter: bytes, now: Now) -> None:
        link = self._links.to(inviter)
        if link is not None and not self.is_open(inviter):
            link.shut = False
            self._upstream.admitted(link, now)
            self._delivery.want(link.key)

    def _of(self, link: Link) -> list[_Open]:
        return [one for one in self._open.values() if self._inviter(one.offer) == link.key]

    def _inviter(self, offer: UnansweredInvitation) -> bytes:
        """Return the key that the inviter has now."""
        return self._newest(offer.inviter)

    HEARS: ClassVar[Hears] = {Redeemed: redeemed, Terms: told_terms}


def _refusal(link: Link, reason: Reason, text: str) -> str:
    if reason in _OF_CLOCKS and link.offset_ns:
        apart = apart_words(link.offset_ns)
        return f"it cannot believe the time of our request: its clock is {apart} ours; set the wrong one"
    if reason is Reason.UNSUPPORTED:
        return "its router does not know invitations; its operator installs a newer version"
    return f"it refused our request: {text or reason.clause}"
