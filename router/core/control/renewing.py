"""Renewals of keys, of this node's apps and of its neighbours: everything that the old key has here goes to the new
one, at once.

The operator orders an app's by a statement that both keys have signed; a neighbour shows its own (`succeeding.py`). It
is judged when it is heard, and carried out at the end of that cycle, so that each decision of a cycle is by one
address; all of it commits in one transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from router.core.log import events as ev
from router.core.neighbours.book import Row
from router.core.neighbours.renewals import Renewals, RenewalVerdict
from router.core.neighbours.successors import RENEWED, SUCCEEDED, Statement, Successor
from router.core.routing.admission import SIGN_ON_ANEW, Admission
from router.core.routing.delivery import Delivery
from router.core.routing.effects import BeginAnew, KeyRenewed
from router.core.routing.kernel import Kernel
from router.core.routing.route_changes import move_routes
from router.core.wire.crypto import PublicKey
from router.core.wire.list_page import ListPage, page_of
from router.core.wire.now import Now
from router.core.wire.reasons import Reason
from router.core.wire.renewal import Renewal, decode_renewal, encode_renewal
from router.core.wire.text import key_text

from .departure import Departure
from .part import Orders, Part
from .rights import Rights

RENEW = "renew"
ROTATE_SERVICE = "rotate-service"
RENEWALS = "renewals"


class Renewing(Part):
    """Owns the renewals that this node believes, and has them carried out by those who own what moves."""

    def __init__(
        self, kernel: Kernel, rights: Rights, admission: Admission, departure: Departure, delivery: Delivery
    ) -> None:
        self._kernel = kernel
        self._directory = kernel.directory
        self._pending = kernel.pending
        self._rights = rights
        self._admission = admission
        self._departure = departure
        self._delivery = delivery
        self.believed: Renewals[Statement] = Renewals()
        self._agreed: list[Statement] = []
        self._over = 0

    def __repr__(self) -> str:
        return f"<renewing: {len(self.believed)} keys renewed>"

    def began(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """Load the renewals from the store, before anybody's rights are looked at."""
        found = [Successor.from_row(key, value) for key, value in rows if key[:1] in (RENEWED, SUCCEEDED)]
        self.believed = Renewals(one.said for one in found)
        for one in found:
            self._directory.successors.add(one)
        for one in found:
            self._directory.succeed(one)

    # -- orders ------------------------------------------------------------------------------------------------

    def _renew(self, argument: str, now: Now) -> dict[str, Any]:
        """Take a statement in hex; it is answered once the new key has the old one's place."""
        try:
            said = decode_renewal(bytes.fromhex(argument))
        except ValueError as error:
            raise ValueError(f"that is no renewal of a key: {error}") from None
        if said.old not in self.believed and (why := self._why_not(said)):
            raise ValueError(why)
        verdict = self._take(said, now.judged_s)
        if not verdict.is_believed:
            raise ValueError(f"the key is not renewed: {verdict.sentence}")
        self._pending.effects.append(KeyRenewed(said))
        return {"old": said.old.hex(), "new": said.new.hex(), "was_known": verdict is RenewalVerdict.KNOWN}

    def _rotate_service(self, argument: str, now: Now) -> dict[str, str]:
        """Have the node end and start again, which gives a service the key that the statement in hex names. What the
        old key has is moved by that start, before anything is decided."""
        try:
            said = decode_renewal(bytes.fromhex(argument))
        except ValueError as error:
            raise ValueError(f"that is no renewal of a key: {error}") from None
        service = self._directory.services.get(said.old)
        if service is None:
            raise ValueError(f"{key_text('addr', said.old)} is the key of no service of this node")
        verdict = self.believed.judge(said, now.judged_s)
        if not verdict.is_believed:
            raise ValueError(f"the key is not rotated: {verdict.sentence}")
        self._pending.effects.append(BeginAnew())
        return {"service": service.name}

    def hear(self, said: Statement, now: Now) -> RenewalVerdict:
        """Judge a statement about a key whose place may be taken here; carry it out at the end of the cycle if it is
        believed and news."""
        return self._take(said, now.judged_s)

    def _take(self, said: Statement, now_s: int) -> RenewalVerdict:
        if self._directory.rotated.get(said.old) == said.new:
            now_s = max(now_s, said.from_s)  # this home made it, and the service has that key already: no clock counts
        verdict = self.believed.hear(said, now_s)
        if verdict is RenewalVerdict.NEWS:
            self._agreed.append(said)
        return verdict

    def resume(self, begun: Iterable[Renewal], now: Now) -> list[str]:
        """Take the renewals that had begun in the home when the node stopped; return a sentence on each that is
        refused."""
        problems = []
        for said in begun:
            try:
                self._renew(encode_renewal(said).hex(), now)
            except ValueError as error:
                problems.append(f"{key_text('addr', said.old)}: {error}")
        return problems

    def _list(self, argument: str, now: Now) -> ListPage | dict[str, str]:
        def row(one: Statement) -> dict[str, Any]:
            return {"old": one.old.hex(), "new": one.new.hex(), "from_s": one.from_s, "until_s": one.until_s}

        return page_of(list(self.believed), argument, row)

    def _why_not(self, said: Renewal) -> str:
        """Return why a key is not renewed here, "" if it may be."""
        directory = self._directory
        if directory.rotated.get(said.old) == said.new:
            return ""  # of a service, which begins with its new key in this run
        service = directory.services.get(said.old)
        if service is not None or directory.me in (said.old, said.new):
            whose = "this node" if service is None else f"its service {service.name}"
            command = "rotate-node" if service is None else f"rotate {service.name}"
            return f"that is the key of {whose}: `router keys {command}` gives another one in its place"
        if directory.is_blocked(said.old):
            return "that key is blocked here; `router peer unblock` lets it in again"
        if self._kernel.links.to(said.new) is not None or self.is_in_use(said.new):
            return "the new key is in use here already, and what two keys have is not mixed; make a new key"
        return ""

    def is_in_use(self, key: bytes) -> bool:
        """Whether a key has a name, groups or a queue here, which are not mixed with those of another one."""
        kernel = self._kernel
        return self._directory.is_known(key) or bool(kernel.groups.joined_by(key)) or key in kernel.queues.by_recipient

    ORDERS: ClassVar[Orders] = {RENEW: _renew, ROTATE_SERVICE: _rotate_service, RENEWALS: _list}

    # -- what follows --------------------------------------------------------------------------------------------

    def carry_out(self, now: Now) -> None:
        """Carry out what was agreed in this cycle, as its last decision."""
        agreed, self._agreed = self._agreed, []
        for at, said in enumerate(agreed):
            if self._kernel.queues.owes(said.new):  # it came in this cycle, and what two keys are owed is not mixed
                self._agreed = agreed[at:]
                return
            self._carry_out(said, now)

    def _carry_out(self, said: Statement, now: Now) -> None:
        old, new = bytes(said.old), bytes(said.new)
        kernel, changes = self._kernel, self._pending.changes
        if (link := kernel.links.to(old)) is not None:
            self._admission.close(link, Reason.RENEWED, SIGN_ON_ANEW, Reason.RENEWED.word, now)
        one = Successor.of(said, kernel.arrivals.following)
        self._delivery.move(old, new)
        self._departure.move(old, new)
        if old in self._directory.locals and old not in self._directory.rotated:
            changes.locals.append(new)
            changes.locals_gone.append(old)
        self._directory.succeed(one)
        changes.book.update([one.row()])
        move_routes(kernel, old, new, now)  # before the old key's rights end, and with them its routes
        self._rights.rewrite(lambda: self._moved_grants(old, new), now)
        fields = (("old", old), ("new", new), ("from", said.from_s), ("until", said.until_s))
        changes.events.append(ev.by_router(self._directory.me, ev.RENEWAL, fields, now))

    def _moved_grants(self, old: bytes, new: bytes) -> Sequence[Row]:
        book = self._kernel.book
        return [*book.move_grants(old, new), *book.invitations.move(PublicKey(old), PublicKey(new))]

    def tick(self, now: Now) -> None:
        """Have plans made anew when the time of an old address is over."""
        successors = self._directory.successors
        over = sum(one.until_s <= now.judged_s for one in successors) if successors else 0
        if over != self._over:
            self._over = over
            self._directory.revision += 1
