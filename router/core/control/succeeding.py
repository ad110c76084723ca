"""Successions of neighbours' keys: a neighbour that was given a new key shows in its hello whose place it takes.

It is believed of neighbours that are configured here or were invited, by statements that both keys have signed. Its
first link only carries them: what they change commits first, and the neighbour signs on again by the new key. Routers
that are known by advertisements, the LAN or groups alone are met anew under their new key.

Both signatures prove no more than that the old key agreed, and so does a thief's statement. So nothing is believed
while the old key is connected here, which a node that was given a new one is not; the first statement that is believed
stays, and a second one for the same key is refused and named. The rights of a blocked key go to nobody.
"""

from __future__ import annotations

from collections.abc import Sequence

from router.core.log import events as ev
from router.core.neighbours.directory import Standing
from router.core.neighbours.renewals import RenewalVerdict
from router.core.routing.admission import Admission
from router.core.routing.delivery import Delivery
from router.core.routing.effects import Close
from router.core.routing.kernel import Kernel
from router.core.wire.crypto import PublicKey
from router.core.wire.now import Now
from router.core.wire.reasons import Reason
from router.core.wire.succession import Former, KeySuccession, chain_of
from router.core.wire.text import key_text, short

from .departure import Departure
from .renewing import Renewing
from .rights import Rights

SIGN_ON_AGAIN = "this key has the place of the one that it follows from now on: sign on again"
STILL_THERE = "the key that this one follows is connected here, and is followed once that connection has ended"
NAMED_MAX = 256
"""The most contradicting statements that are remembered, each logged once; the oldest are forgotten."""
OF_OURS = "somebody has this node's key, and says that another one has its place: make a new node, and have it added"
IN_USE = "the new key has an entry here already, and what two keys have is not mixed; remove one of both entries"


class Succeeding:
    """Judges the statements in hellos. `renewing` carries out what is believed."""

    def __init__(
        self, kernel: Kernel, rights: Rights, admission: Admission, departure: Departure, delivery: Delivery
    ) -> None:
        self._kernel = kernel
        self._directory = kernel.directory
        self._pending = kernel.pending
        self.renewing = Renewing(kernel, rights, admission, departure, delivery)
        self._admission = admission
        self._named: dict[tuple[bytes, bytes], str] = {}  # old and new key of statements that were refused, and why

    def __repr__(self) -> str:
        return f"<succeeding: {len(self._named)} statements refused>"

    def ends_link(self, number: int, key: bytes, was: Sequence[Former], now: Now) -> bool:
        """Take the statements in the hello of a key that was proven; return whether its link ends with that: it signs
        on again, or is refused. All else is left to the admission of links."""
        chain = chain_of(was, PublicKey(key))
        if (refused := self._contradicting(chain)) is not None:
            self._refuse(number, refused, RenewalVerdict.OTHER, now)
            return True
        news = self._news(chain)
        if not news or not all(one.verify() for one in news):
            return False
        if self.renewing.is_in_use(key):
            self._name(news[-1], "in-use", IN_USE, now)
            return False
        if self._kernel.links.to(news[0].old) is not None:
            self._name(news[0], "connected", STILL_THERE, now)
            self._pending.effects.append(Close(number, Reason.RATE_LIMITED, STILL_THERE))
            return True
        for said in news:
            verdict = self.renewing.hear(said, now)
            if not verdict.is_believed:
                self._refuse(number, said, verdict, now)
                return True
            self._named.pop((bytes(said.old), bytes(said.new)), None)
        if (earlier := self._kernel.links.to(key)) is not None:  # a stranger's until now
            self._admission.close(earlier, Reason.SHUTDOWN, SIGN_ON_AGAIN, Reason.RENEWED.word, now)
        self._pending.effects.append(Close(number, Reason.SHUTDOWN, SIGN_ON_AGAIN))
        return True

    def problem_of(self, key: bytes) -> str:
        """Return a sentence if another key than this one has claimed the place of the same key, or this key's own; ""
        otherwise."""
        whose = (key, *self._directory.successors.formers(key))
        found = next((one for one in self._named if one[0] in whose), None)
        if found is None:
            return ""
        return f"the key {short(key_text('addr', found[1]))} claims its place: {self._named[found]}"

    def _contradicting(self, chain: Sequence[KeySuccession]) -> KeySuccession | None:
        """Return the statement that names another successor than the one that is known, or one of this node's own key,
        if both keys have signed it."""
        for said in chain:
            known = self.renewing.believed.of(said.old)
            is_other = known is not None and known.new != said.new
            if (is_other or (known is None and said.old == self._directory.me)) and said.verify():
                return said
        return None

    def _news(self, chain: Sequence[KeySuccession]) -> Sequence[KeySuccession]:
        """Return the statements from the one on whose old key is that of a neighbour."""
        at = next((at for at, one in enumerate(chain) if self._may_be_followed(one.old)), len(chain))
        return chain[at:]

    def _may_be_followed(self, key: bytes) -> bool:
        return self._directory.standing(key, owner=False) in (Standing.CLIENT, Standing.PEER)

    def _refuse(self, number: int, said: KeySuccession, verdict: RenewalVerdict, now: Now) -> None:
        is_ours = said.old == self._directory.me and said.old not in self.renewing.believed
        if is_ours:
            self._name(said, "own-key", OF_OURS, now)
        else:
            self._name(said, verdict.name.lower(), verdict.sentence, now)
        self._pending.effects.append(Close(number, Reason.RENEWED, "" if is_ours else verdict.sentence))

    def _name(self, said: KeySuccession, word: str, sentence: str, now: Now) -> None:
        """Log a statement that is refused, once in a run. `sentence`: why, for the operator; `word`: for the log."""
        which = bytes(said.old), bytes(said.new)
        if which in self._named:
            return
        while len(self._named) >= NAMED_MAX:
            del self._named[next(iter(self._named))]
        self._named[which] = sentence
        fields = (("service", "router"), ("router", which[1]), ("old", which[0]), ("because", word))
        event = ev.Noted(now.wall_ns, now.mono_ns, ev.SUCCESSION_REFUSED, self._directory.me, b"", None, fields)
        self._pending.changes.events.append(event)
