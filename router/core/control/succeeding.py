"""Successions of neighbours' keys: a neighbour that was given a new key shows in its hello whose place it takes.

It is believed of neighbours that are configured here or were invited, by statements that both keys have signed. Its
first link only carries them: what they change commits first, and the neighbour signs on again by the new key. Routers
that are known by advertisements, the LAN or groups alone are met anew under their new key.

Both signatures prove no more than that the old key agreed, and so does a thief's statement. So nothing is believed
while the old key is connected here, which a node that was given a new one is not; nor for a while after another node
has connected by it, which a thief does to end that connection; the first statement that is believed stays, and a second
one for the same key is refused and named. The rights of a blocked key go to nobody.

Of a chain the newest key that is known here is followed: an older one with an entry of its own is not mixed with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from router.core.log import events as ev
from router.core.neighbours.directory import Standing
from router.core.neighbours.renewals import RENEWALS_MAX, RenewalVerdict
from router.core.neighbours.successors import SUCCEEDED
from router.core.routing.admission import Admission
from router.core.routing.delivery import Delivery
from router.core.routing.effects import BeginAnew, Close
from router.core.routing.kernel import Kernel
from router.core.wire.crypto import PublicKey
from router.core.wire.now import Now
from router.core.wire.reasons import Reason
from router.core.wire.succession import FOLLOWED_MAX, Former, KeySuccession, chain_of
from router.core.wire.text import key_text, short

from .departure import Departure
from .node_copies import NodeCopies
from .part import Orders, Part
from .renewing import Renewing
from .rights import Rights

SIGN_ON_AGAIN = "this key has the place of the one that it follows from now on: sign on again"
STILL_THERE = "the key that this one follows is connected here, and is followed once that connection has ended"
HELD_OFF = {
    "connected": STILL_THERE,
    "copied": (
        "two nodes ran by the key that this one follows, and nobody has said which one is to stay, so one of both may "
        "be a thief's: remove the entry of that key, and add the right node by its address"
    ),
    "replaced": (
        "another node has connected by the key that this one follows a short while ago, so one of both may be a "
        "thief's: this one is followed when that key has not come back for ten minutes"
    ),
}
"""By a word for the log: why a statement is not believed now."""
ROTATE = "rotate"
NO_COPIES = "neighbours follow no key by which two nodes ran"
NAMED_MAX = 256
"""The most statements that are remembered as refused, each logged once; the oldest are forgotten."""
NAMED_OF_ONE_MAX = 4
"""How many of these may be of one old key; beyond it the first stays, and the oldest of the others is forgotten."""
OF_OURS = "somebody has this node's key, and says that another one has its place: make a new node, and have it added"
IN_USE = "the new key has an entry here already, and what two keys have is not mixed; remove one of both entries"


class Succeeding(Part):
    """Judges the statements in hellos. `renewing` carries out what is believed."""

    def __init__(
        self,
        kernel: Kernel,
        rights: Rights,
        admission: Admission,
        copies: NodeCopies,
        departure: Departure,
        delivery: Delivery,
    ) -> None:
        self._kernel = kernel
        self._rights = rights
        self._copies = copies
        self._departure = departure
        self._directory = kernel.directory
        self._pending = kernel.pending
        self.renewing = Renewing(kernel, rights, admission, departure, delivery)
        self._admission = admission
        self._named: dict[tuple[bytes, bytes], str] = {}  # old and new key of statements that were refused, and why
        self._emptied: set[bytes] = set()  # new keys that are followed once what waits for them has reached them

    def __repr__(self) -> str:
        return f"<succeeding: {len(self._named)} statements refused>"

    def ends_link(self, number: int, key: bytes, was: Sequence[Former], now: Now) -> bool:
        """Take the statements in the hello of a key that was proven; return whether its link ends with that: it signs
        on again, or is refused. All else is left to the admission of links."""
        chain = chain_of(was, PublicKey(key))
        if not chain or key == self._directory.me:
            return False
        followed = [at for at, one in enumerate(chain) if self._may_be_followed(one.old)]
        if (refused := self._contradicting(chain, key, max(followed, default=0), now)) is not None:
            self._refuse(number, refused, RenewalVerdict.OTHER, now)
            return True
        is_let_in = self._may_be_followed(key)
        for at in followed if is_let_in else followed[:-1]:  # a later key has an entry of its own, which goes on
            if chain[at].verify():
                self._name(chain[at], "in-use", IN_USE, now)
        news = () if is_let_in or not followed else chain[followed[-1] :]
        if not news or not all(one.verify() for one in news):
            return False
        if (used := next((one for one in news if self._is_in_use(one.new)), None)) is not None:
            self._name(used, "in-use", IN_USE, now)
            return False
        for one in news:
            if word := self._held_off(one, now):
                self._name(one, word, HELD_OFF[word], now)
                self._pending.effects.append(Close(number, Reason.RATE_LIMITED, HELD_OFF[word]))
                return True
        if any(self._kernel.queues.owes(one.new) for one in news):
            self._emptied.add(key)
            return False
        return self._follow(number, news, now)

    def _follow(self, number: int, news: Sequence[KeySuccession], now: Now) -> bool:
        """Believe statements that nothing speaks against; return True, as the link ends."""
        key = bytes(news[-1].new)
        if (earlier := self._kernel.links.to(key)) is not None:  # of a router that was not chosen, until now
            self._admission.close(earlier, Reason.SHUTDOWN, SIGN_ON_AGAIN, Reason.RENEWED.word, now)
        for said in news:
            verdict = self._verdict(said, now)
            if not verdict.is_believed:
                self._refuse(number, said, verdict, now)
                return True
            self._rights.lan_ends(bytes(said.new), now)
            self._departure.gone(bytes(said.new), now)  # all that it has joined as a router that was not chosen
            self._named.pop((bytes(said.old), bytes(said.new)), None)
        self._pending.effects.append(Close(number, Reason.SHUTDOWN, SIGN_ON_AGAIN))
        return True

    def _verdict(self, said: KeySuccession, now: Now) -> RenewalVerdict:
        """Judge a statement, by which a neighbour takes no more than its part of the room for them."""
        if said.old not in self.renewing.believed:
            if len(self._directory.successors.formers(said.old)) >= FOLLOWED_MAX:
                return RenewalVerdict.OFTEN
            if sum(one.kind == SUCCEEDED for one in self._directory.successors) >= RENEWALS_MAX // 2:
                return RenewalVerdict.FULL
        return self.renewing.hear(said, now)

    def tick(self, now: Now) -> None:
        """Have a router sign on again that was met before by its new key, once nothing waits for it by that."""
        for key in [*self._emptied]:
            link = self._kernel.links.to(key)
            if link is None:
                self._emptied.discard(key)
            elif not self._kernel.queues.owes(key):
                self._emptied.discard(key)
                self._admission.close(link, Reason.SHUTDOWN, SIGN_ON_AGAIN, Reason.RENEWED.word, now)

    def _rotate(self, argument: str, now: Now) -> dict[str, str]:
        """Have the node end, get another key and start again, by its operator's order."""
        if argument:
            raise ValueError(f"`{ROTATE}` takes no argument, not {argument[:40]!r}")
        if self._copies.problem:
            raise ValueError(f"{self._copies.problem}. Do that before the key is rotated: {NO_COPIES}")
        if now.ahead_ns:
            raise ValueError(
                "the clock of this machine is not believed, and neighbours believe no statement of a wrong time: "
                "`router clock` says what is known of it, and how to settle that"
            )
        self._pending.effects.append(BeginAnew(rotates_s=now.judged_s))
        return {"former": self._directory.me.hex()}

    ORDERS: ClassVar[Orders] = {ROTATE: _rotate}

    def problem_of(self, key: bytes) -> str:
        """Return a sentence if another key than this one has claimed the place of the same key, or this key's own; ""
        otherwise."""
        whose = (key, *self._directory.successors.formers(key))
        found = next((one for one in self._named if one[0] in whose), None)
        if found is None:
            return ""
        return f"the key {short(key_text('addr', found[1]))} claims its place: {self._named[found]}"

    def _contradicting(self, chain: Sequence[KeySuccession], key: bytes, since: int, now: Now) -> KeySuccession | None:
        """Return the statement that names another successor than the one that is known, or one of this node's own key,
        if both keys have signed it. `since`: where those begin that matter here. One before that, and one of a router
        that has an entry of its own, gives it nothing, and is only named: else an operator could not put right what a
        thief was believed."""
        is_let_in = self._may_be_followed(key)
        for at, said in enumerate(chain):
            known = self.renewing.believed.of(said.old)
            is_ours = known is None and said.old == self._directory.me
            if not is_ours and (known is None or known.new == said.new):
                continue
            if said.verify():
                if is_ours or (at >= since and not is_let_in):
                    return said
                self._name(said, RenewalVerdict.OTHER.name.lower(), RenewalVerdict.OTHER.sentence, now)
        return None

    def _is_in_use(self, key: bytes) -> bool:
        """Whether a new key is already something here that an operator or an app has chosen, which is not mixed with
        what another key has. Who is known by advertisements or on the LAN alone is not."""
        directory, link = self._directory, self._kernel.links.to(key)
        chosen = (Standing.LOCAL, Standing.CLIENT, Standing.PEER)
        is_chosen = directory.is_blocked(key) or directory.standing(key, owner=False) in chosen
        return is_chosen or key == directory.me or (link is not None and link.app) or self._kernel.groups.is_wanted(key)

    def _held_off(self, said: KeySuccession, now: Now) -> str:
        """Return by a word of `HELD_OFF` why a statement is not believed now; "" if nothing holds it off."""
        if self._kernel.links.to(said.old) is not None:
            return "connected"
        if self._copies.problem_of(said.old):
            return "copied"
        return "replaced" if self._admission.was_replaced(said.old, now) else ""

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
        if len(mine := [one for one in self._named if one[0] == said.old]) >= NAMED_OF_ONE_MAX:
            del self._named[mine[1]]
        while len(self._named) >= NAMED_MAX:
            del self._named[next(iter(self._named))]
        self._named[which] = sentence
        fields = (("router", which[1]), ("old", which[0]), ("because", word))
        self._pending.changes.events.append(ev.by_router(self._directory.me, ev.SUCCESSION_REFUSED, fields, now))
