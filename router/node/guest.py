"""The node as a guest: the invitations that its home holds, and writing down how each was answered (R-D16).

What is asked of whom and when is decided in `router/core/routing/redeeming.py`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import trio

from router.core.routing.effects import InvitationAnswered
from router.core.routing.redeeming import Offer, Redeeming
from router.core.wire.lifetime import expiry_s
from router.core.wire.reasons import reason_from
from router.core.wire.text import key_text, short
from router.settings import received
from router.settings.home import Home
from router.settings.keyring import KeyringError
from router.settings.received import Answer, Received

log = logging.getLogger(__name__)

WRITE_AGAIN_S = 10.0


@dataclass(slots=True)
class Guest:
    """Owns the files of invitations while the node runs; `name` is what it calls itself at its inviters."""

    home: Home
    name: str = ""
    _known: dict[str, Received] = field(default_factory=dict)
    _damaged: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"<guest by {len(self._known)} invitations>"

    def offers(self) -> tuple[Offer, ...]:
        """Read the home's invitations anew; return those that are not answered, once those long answered are gone."""
        received.tidy(self.home, int(time.time()))
        self._known = {one.id: one for one in received.received(self.home)}
        waiting = [(one, one.invitation()) for one in self._known.values() if one.outcome == "waiting"]
        self._damaged = frozenset(one.id for one, invitation in waiting if invitation is None)
        return tuple(
            Offer(invitation.id, invitation.inviter, invitation.secret, one.until_s, self.name or None)
            for one, invitation in waiting if invitation is not None
        )  # fmt: skip

    async def answered(self, answer: InvitationAnswered) -> None:
        """Write down an answer, and the group that comes with a yes, however long the disk takes to allow it."""
        said = _answer(answer)
        problem = ""
        while True:
            try:
                new = await trio.to_thread.run_sync(received.answered, self.home, answer.id, said, int(time.time()))
                break
            except (OSError, KeyringError) as error:
                if str(error) != problem:
                    problem = str(error)
                    log.error("the answer to an invitation cannot be kept, and is tried again: %s", problem)
                await trio.sleep(WRITE_AGAIN_S)
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

    def rows(self, redeeming: Redeeming, dialled: Mapping[bytes, str]) -> list[dict[str, Any]]:
        """Return one row for each invitation; `cause`: why it is not answered; `problem`: what is wrong with it, as a
        sentence about its router, "" if nothing is. `dialled`: why the last attempt to connect failed, by key."""
        return [
            {
                "id": one.id, "inviter": one.inviter, "outcome": one.outcome, "reason": one.reason or None,
                "rights": list(one.rights), "group": one.group, "until_s": one.until_s,
                "cause": (cause := self._cause(one, redeeming, dialled)), "problem": one.problem(cause),
            }
            for one in self._known.values()
        ]  # fmt: skip

    def _cause(self, one: Received, redeeming: Redeeming, dialled: Mapping[bytes, str]) -> str:
        if one.id in self._damaged:
            return "the link that is kept for it is damaged; take the invitation again"
        return redeeming.problem_of(bytes.fromhex(one.id)) or dialled.get(one.key, "")


def _answer(answer: InvitationAnswered) -> Answer:
    if answer.reason is not None:
        reason = reason_from(answer.reason)
        return Answer(reason=reason.word, sentence=reason.sentence)
    return Answer(rights=answer.rights, grant_until_s=expiry_s(answer.expiry_min) if answer.expiry_min else 0)
