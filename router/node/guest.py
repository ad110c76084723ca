"""The node as a guest: the invitations in its home, their answers, and its rights by them since then (R-D16).

The decisions about requests are in `router/core/control/redeeming.py`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import trio
from msgspec import Struct, field

from router.core.control.redeeming import Redeeming, UnansweredInvitation
from router.core.routing.effects import InvitationAnswered, TermsHeard
from router.core.wire.lifetime import expiry_s
from router.core.wire.reasons import Reason, reason_from
from router.core.wire.text import key_text, short
from router.node.connection import NOT_LET_IN, TURNED_AWAY
from router.settings import received
from router.settings.home import Home
from router.settings.keyring import KeyringError
from router.settings.received import InvitationAnswer, ReceivedInvitation, ToldTerms

log = logging.getLogger(__name__)

WRITE_AGAIN_S = 10.0
BLOCKED = f"{NOT_LET_IN}: its operator has blocked this node; ask for `router peer unblock` there"
UNHEARD = (
    f"{NOT_LET_IN}, not even to ask, and does not say why: its operator has blocked this node, or it knows of no "
    "invitation any more; ask for `router peer unblock` there, or for a new invitation"
)
Kept = TypeVar("Kept")


class InvitationFiles(Struct):
    """Owns the files of invitations while the node runs; `name` is its name for itself at its inviters."""

    home: Home
    name: str = ""
    _known: dict[str, ReceivedInvitation] = field(default_factory=dict)
    _damaged: frozenset[str] = frozenset()
    _terms: dict[bytes, TermsHeard] = field(default_factory=dict)  # to be written, the newest of each inviter
    _blocked: set[bytes] = field(default_factory=set)  # inviters that have told of a block since this node started
    _writing: trio.Lock = field(default_factory=trio.Lock)

    def __repr__(self) -> str:
        return f"<guest by {len(self._known)} invitations>"

    def offers(self) -> tuple[UnansweredInvitation, ...]:
        """Read the home's invitations again and delete those answered long ago; return those without an answer."""
        received.tidy(self.home, int(time.time()))
        self._read()
        waiting = [(one, one.invitation()) for one in self._known.values() if one.outcome == "waiting"]
        self._damaged = frozenset(one.id for one, invitation in waiting if invitation is None)
        return tuple(
            UnansweredInvitation(invitation.id, invitation.inviter, invitation.secret, one.until_s, self.name or None)
            for one, invitation in waiting
            if invitation is not None
        )

    def inviters(self) -> frozenset[bytes]:
        """Return the keys that have answered an invitation, as last read by `offers`."""
        return frozenset(one.key for one in self._known.values() if not one.is_open)

    def _read(self) -> None:
        self._known = {one.id: one for one in received.received(self.home)}

    async def answered(self, answer: InvitationAnswered) -> None:
        """Record an answer, and keep the group of an accepted invitation, however long the disk refuses."""
        async with self._writing:
            new = await _written(partial(received.answered, self.home, answer.id, _answer(answer)))
        if new is None:
            return
        self._known[new.id] = new
        shown = short(key_text("addr", new.key))
        if new.outcome == "refused":
            log.warning("%s refused the invitation %s: %s", shown, new.id[:16], new.sentence)
        elif new.sentence:
            log.warning("%s let us in by the invitation %s, but %s", shown, new.id[:16], new.sentence)
        else:
            log.info("%s let us in by the invitation %s", shown, new.id[:16])

    def heard(self, terms: TermsHeard) -> None:
        """Take an inviter's statement of this node's rights there, to be recorded by `write_terms`."""
        self._terms[terms.inviter] = terms
        if terms.reason == Reason.BLOCKED:
            self._blocked.add(terms.inviter)
        else:
            self._blocked.discard(terms.inviter)

    def has_heard_block(self, inviter: bytes) -> bool:
        """Whether an inviter has reported, since this node started, that its operator has blocked this node."""
        return inviter in self._blocked

    async def write_terms(self) -> None:
        """Record the statements taken, after the answers that came before them."""
        async with self._writing:
            while self._terms:
                inviter, terms = self._terms.popitem()
                lost = await _written(partial(received.told, self.home, inviter, _told(terms)))
                self._read()
                if lost:
                    said = received.problems(self._known.values(), time.time()).get(inviter, "")
                    log.warning("%s: %s", short(key_text("addr", inviter)), said)

    def rows(self, redeeming: Redeeming, dialled: Mapping[bytes, str]) -> list[dict[str, Any]]:
        """Return one row for each invitation. `cause`: why it is not answered; `problem`: in the row of a router's
        newest one, what is wrong with this node's rights there, "" if nothing is. `dialled`: why the last attempt to
        connect failed, by key."""
        now_s = time.time()
        wrong = received.problems(self._known.values(), now_s, lambda one: self._cause(one, redeeming, dialled))
        newest = {one.key: one.id for one in sorted(self._known.values(), key=lambda one: one.known_s)}
        return [
            {
                "id": one.id,
                "inviter": one.inviter,
                "outcome": one.outcome,
                "reason": one.reason or None,
                "rights": list(one.rights),
                "told": one.told_s > 0,
                "group": one.group,
                "until_s": one.until_s,
                "cause": (cause := self._cause(one, redeeming, dialled)),
                "problem": (
                    one.problem(now_s, cause)
                    if one.is_open
                    else wrong.get(one.key, "")
                    if newest[one.key] == one.id
                    else ""
                ),
            }
            for one in self._known.values()
        ]

    def _cause(self, one: ReceivedInvitation, redeeming: Redeeming, dialled: Mapping[bytes, str]) -> str:
        if one.id in self._damaged:
            return "the link that is kept for it is damaged; take the invitation again"
        found = redeeming.problem_of(bytes.fromhex(one.id)) or dialled.get(one.key, "")
        if found != TURNED_AWAY:
            return found
        ended = any(other.ended == Reason.BLOCKED.word for other in self._known.values() if other.key == one.key)
        return BLOCKED if ended or self.has_heard_block(one.key) else UNHEARD


async def _written(write: Callable[[int], Kept]) -> Kept:
    """Return the result of a function that writes into the home and is given the time, repeated until the disk allows
    it."""
    problem = ""
    while True:
        try:
            return await trio.to_thread.run_sync(write, int(time.time()))
        except (OSError, KeyringError) as error:
            if str(error) != problem:
                problem = str(error)
                log.error("the answer to an invitation cannot be kept, and is tried again: %s", problem)
            await trio.sleep(WRITE_AGAIN_S)


def _told(terms: TermsHeard) -> ToldTerms:
    reason = None if terms.reason is None else reason_from(terms.reason)
    return ToldTerms(
        rights=terms.rights,
        grant_until_s=expiry_s(terms.expiry_min) if terms.expiry_min else 0,
        ended="" if reason in (None, Reason.NOT_AUTHORISED) else reason.word,
    )


def _answer(answer: InvitationAnswered) -> InvitationAnswer:
    if answer.reason is not None:
        reason = reason_from(answer.reason)
        return InvitationAnswer(reason=reason.word, sentence=reason.sentence)
    until_s = expiry_s(answer.expiry_min) if answer.expiry_min else 0
    return InvitationAnswer(rights=answer.rights, grant_until_s=until_s, had=answer.had)
