"""INTERESTS between pub/sub services: finds nodes that may want the same groups, without listing these (R-C36).

`InterestTable` decides which nodes to ask and to meet; here its questions become messages, and received data is checked
before it counts. Other nodes are known from discovery's announcements on this node, and from each other.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from router.core.link.allowance import Allowance, Shares
from router.core.service.adverts import Verified
from router.core.wire.address import AddressSource
from router.core.wire.advert import Advertisement, decode_advertisement
from router.core.wire.codec import Malformed, encode
from router.core.wire.crypto import PublicKey, Signature
from router.core.wire.reasons import Reason
from router.service import contract as c
from router.service.roles import overlay as o
from services.pubsub.core.conduct.refusals import Refusals
from services.pubsub.core.known import Known, Neighbour
from services.pubsub.core.meetings.filters import SECRET_BYTES, tell
from services.pubsub.core.meetings.interest_table import InterestLimits, InterestTable
from services.pubsub.core.meetings.open_questions import AnswerTime, OpenQuestions
from services.pubsub.core.messages import (
    FILTER_LABEL,
    AskInterests,
    Filter,
    Interested,
    TellInterests,
)
from services.pubsub.core.others import Others
from services.pubsub.core.saying import say

SECRET = b"filter-secret"
TAG = "interests"
SIGNED = "filter"
DISCOVERY = "discovery"
NOT_ITS_SERVICE = "only the pub/sub service that a router names speaks for it"


class ExchangeLimits(Struct, frozen=True):
    """The times and costs of exchanges of filters.

    A period lasts `period_s`, and each of the first `fast_periods` after the start and after an added group lasts
    `fast_s`, give or take `jitter` of it; one lasts `calm_s` while something is shared with every known node. An answer
    is accepted for `answer_s`; one that comes within `late_s` more is left out, and is no misdeed. The own filter is
    made again `changed_s` after a group was added or removed, and every `renew_s`. A filter that was made more than
    `life_s` ago, or `ahead_s` in the future, does not count. A router may ask `asks_per_s`, and `asks_burst` at once;
    the questions of `routers_max` routers are counted. `signatures_per_s` are verified for all routers together,
    `signatures_burst` of them at once.
    """

    period_s: float = 10.0
    jitter: float = 0.25
    fast_s: float = 2.0
    calm_s: float = 300.0
    fast_periods: int = 15
    answer_s: float = 5.0
    late_s: float = 300.0
    changed_s: float = 2.0
    renew_s: float = 8 * 3600.0
    life_s: float = 25 * 3600.0
    ahead_s: float = 3600.0
    asks_per_s: float = 1.0
    asks_burst: float = 3.0
    routers_max: int = 256
    signatures_per_s: float = 50.0
    signatures_burst: float = 200.0
    table: InterestLimits = field(default_factory=InterestLimits)


class Interests:
    """Makes the own filter, asks a node for others each period, and suggests nodes to meet."""

    def __init__(self, setup: c.Setup, known: Known, others: Others, limits: ExchangeLimits | None = None) -> None:
        self._known = known
        self._others = others
        self._kept = setup.kept
        self._chance = setup.chance
        self._limits = limits = limits or ExchangeLimits()
        self._table: InterestTable | None = None
        self._secret = b""
        self.mine: Filter | None = None
        self._made: tuple[int, bytes] = (0, b"")
        self._make_s = 0.0
        self._period_s = 0.0
        self._fast = 0
        self._groups: frozenset[PublicKey] = frozenset()
        self._asked = OpenQuestions(limits.answer_s, limits.late_s, limits.routers_max)
        self._asks: Shares[PublicKey] = Shares(limits.asks_per_s, limits.asks_burst, limits.routers_max)
        self._unanswered: dict[PublicKey, None] = {}
        self._signatures = Allowance(limits.signatures_per_s, limits.signatures_burst)
        self._refusals = Refusals()
        self._discovery: PublicKey | None = None

    def __repr__(self) -> str:
        return f"<interests: {self._table!r}>"

    def hear(self, heard: c.Heard, now: c.Now) -> list[c.Deed]:
        match heard:
            case c.Started(router):
                return [*self._start(router, now), self._wake(now)]
            case c.Message(body=body, group=group) if group is not None and group == self._discovery:
                return self._announced(body, now)
            case o.Wanted():
                self._make_s = min(self._make_s, now.mono_s + self._limits.changed_s)
                return [self._wake(now)]
            case o.Attested(tag=tag, signature=signature) if tag == SIGNED:
                rev, bits = self._made
                self.mine = Filter(rev, bits, Signature(signature))
                return list(self._answer_late())
            case o.Signed(message=message) if message:
                return list(self._listen(decode_advertisement(message)))
            case o.NeighbourUnreachable(router) if self._table is not None:
                self._table.forget(router)
            case c.Tick() if self._table is not None:
                return [*self._tick(self._table, now), self._wake(now)]
        return []

    def read(self, message: c.Message, said: AskInterests | TellInterests, now: c.Now) -> list[c.Deed]:
        """Return what follows from filters that another service asks for or tells; those that were not asked for, and
        questions that come too often, are refused; what comes late is left out."""
        router = message.via
        if self._table is None or router is None:
            return [c.Refuse(Reason.NOT_AUTHORISED, "only services of other routers exchange filters")]
        is_question, by = isinstance(said, AskInterests), self._others.neighbour(router)
        if not is_question and by is not None and by.service != message.source:
            self._refusals.count(router, Reason.NOT_AUTHORISED)
            return [c.Refuse(Reason.NOT_AUTHORISED, NOT_ITS_SERVICE)]  # the true answer may come yet
        if is_question and not self._asks.take(router, 1, now.mono_s):
            self._refusals.count(router, Reason.RATE_LIMITED)
            return [c.Refuse(Reason.RATE_LIMITED, "asked too often")]
        answer = AnswerTime.IN_TIME if is_question else self._asked.end(router, now.mono_s)
        if answer is AnswerTime.NOT_ASKED:
            self._refusals.count(router, Reason.NOT_AUTHORISED)
            return [c.Refuse(Reason.NOT_AUTHORISED, "a filter was not asked for")]
        if answer is AnswerTime.LATE:
            return []
        for age, advert, found in said.view:
            self._take(self._table, router, age, advert, found, now)
        by = self._others.neighbour(router)
        if by is None or by.service != message.source:
            self._refusals.count(router, Reason.NOT_AUTHORISED)
            return [c.Refuse(Reason.NOT_AUTHORISED, NOT_ITS_SERVICE)]
        self._take_filter(self._table, router, by, 0, said.mine, now)
        return [*(self._answer(by) if is_question else ()), *self._hurry(self._table, now)]

    # -- the own filter ----------------------------------------------------------------------------------------------

    def _start(self, router: PublicKey, now: c.Now) -> Iterator[c.Deed]:
        self._table = InterestTable(router, self._chance, self._limits.table)
        self._secret = self._kept.get(SECRET, b"")
        if len(self._secret) != SECRET_BYTES:
            self._secret = self._chance.randbytes(SECRET_BYTES)
            yield c.Put(SECRET, self._secret)
        self._make_s = now.mono_s + self._limits.changed_s
        self._period_s = now.mono_s + self._limits.period_s * self._chance.random()

    def _make(self, now: c.Now) -> Iterator[c.Deed]:
        """Make the own filter again, if it has changed or is old, and have it signed."""
        groups = frozenset(self._known.topics)
        if groups - self._groups:
            self._fast = self._limits.fast_periods
            self._period_s = min(self._period_s, now.mono_s + self._limits.fast_s)
        self._groups = groups
        bits, rev = tell(groups, self._secret), int(now.wall_s * 1000)
        self._make_s = now.mono_s + self._limits.renew_s
        self._made = rev, bits
        yield o.Attest(FILTER_LABEL.decode(), encode([rev, bits]), SIGNED)

    def _listen(self, own: Advertisement) -> Iterator[c.Deed]:
        """Join the group in which discovery announces other nodes on this node."""
        found = own.services.get(DISCOVERY)
        if found is not None and found != self._discovery:
            self._discovery = self._known.finder = found
            yield c.Join(found.hex(), local=True)

    # -- what comes in -----------------------------------------------------------------------------------------------

    def _announced(self, body: bytes, now: c.Now) -> list[c.Deed]:
        """Handle an advertisement that discovery announces on this node; it was verified there, and is verified again
        here."""
        try:
            advert = decode_advertisement(body)
        except Malformed:
            return []
        neighbour = self._judged(None, advert, now)
        if neighbour is None or self._table is None:
            return []
        self._table.offer(neighbour)
        return self._hurry(self._table, now)

    def _judged(self, by: PublicKey | None, advert: Advertisement, now: c.Now) -> Neighbour | None:
        adverts = self._others.adverts
        if advert.router == self._known.router or self._others.named(advert) is None:
            return None
        if not adverts.is_known(advert) and not self._signatures.take(1, now.mono_s):
            self._count(by, Reason.RATE_LIMITED)
            return None
        found = adverts.take(advert, AddressSource.ANYBODY, now.wall_s)
        if isinstance(found, Verified):
            return self._others.named(advert)
        self._count(by, found[0])
        return None

    def _take(
        self, table: InterestTable, by: PublicKey, age: int, advert: Advertisement, found: Filter, now: c.Now
    ) -> None:
        neighbour = self._judged(by, advert, now)
        if neighbour is not None:
            self._take_filter(table, by, neighbour, age, found, now)

    def _take_filter(
        self, table: InterestTable, by: PublicKey, of: Neighbour, age: int, found: Filter, now: c.Now
    ) -> None:
        """Accept a filter if its age, its times, its signature and its form are right."""
        made_s = found.rev / 1000
        if age > self._limits.table.age_max:
            return
        if not -self._limits.ahead_s <= now.wall_s - made_s <= self._limits.life_s:
            self._count(by, Reason.EXPIRY_PASSED if made_s < now.wall_s else Reason.EXPIRY_TOO_FAR)
        elif found.rev > table.rev(of.router) and not self._is_signed(by, of, found, now):
            return
        elif not table.take(of, age, found):
            self._count(by, Reason.MALFORMED)

    def _is_signed(self, by: PublicKey, of: Neighbour, found: Filter, now: c.Now) -> bool:
        is_paid = self._signatures.take(1, now.mono_s)
        if is_paid and found.is_signed_by(of.service):
            return True
        self._count(by, Reason.BAD_SIGNATURE if is_paid else Reason.RATE_LIMITED)
        return False

    def _count(self, by: PublicKey | None, reason: Reason) -> None:
        if by is not None:
            self._refusals.count(by, reason)

    def _hurry(self, table: InterestTable, now: c.Now) -> list[c.Deed]:
        """Let no calm period go on if a node is known with which nothing is shared."""
        next_s = now.mono_s + self._limits.period_s
        if self._period_s <= next_s + self._limits.jitter * self._limits.period_s or not table.has_others(
            self._known.partners
        ):
            return []
        self._period_s = next_s
        return [self._wake(now)]

    # -- a period ----------------------------------------------------------------------------------------------------

    def _tick(self, table: InterestTable, now: c.Now) -> Iterator[c.Deed]:
        if now.mono_s >= self._make_s:
            yield from self._make(now)
        yield from self._refusals.take(now)
        if now.mono_s < self._period_s:
            return
        spread = self._limits.jitter * (2 * self._chance.random() - 1)
        is_calm = not table.has_others(self._known.partners)
        period_s = self._limits.calm_s if is_calm else self._limits.period_s
        self._period_s = now.mono_s + (self._limits.fast_s if self._fast else period_s) * (1 + spread)
        self._fast = max(0, self._fast - 1)
        to = table.period()
        if to is not None and self.mine is not None:
            self._asked.add(to.router, now.mono_s)
            yield from self._others.learn(to.router, now)
            yield from self._send(to, AskInterests)
        if self._others.overlay is not None:
            self._others.overlay.suggest(self._suggested(table))

    def _suggested(self, table: InterestTable) -> tuple[Neighbour, ...]:
        """Return the nodes to meet; if all known ones are partners, no group is looked at."""
        partners = self._known.partners
        if not table.has_others(partners):
            return ()
        lonely = [(group, len(topic.neighbours)) for group, topic in self._known.topics.items()]
        return table.suggested(lonely, partners)

    def _answer(self, by: Neighbour) -> Iterator[c.Deed]:
        """Answer a question; one that comes before the own filter is made, as after a start, is answered then."""
        if self.mine is None and len(self._unanswered) < self._limits.routers_max:
            self._unanswered[by.router] = None
        yield from self._send(by, TellInterests)

    def _answer_late(self) -> Iterator[c.Deed]:
        routers, self._unanswered = self._unanswered, {}
        for router in routers:
            if (by := self._others.neighbour(router)) is not None:
                yield from self._send(by, TellInterests)

    def _send(self, to: Neighbour, kind: type[AskInterests] | type[TellInterests]) -> Iterator[c.Deed]:
        own = self._others.adverts.own
        if self.mine is None or self._table is None:
            return
        view = [] if own is None else [Interested(0, own, self.mine)]
        for one in self._table.told(to.router):
            advert, found = self._others.adverts.newest(one.neighbour.router), one.filter
            if advert is not None and found is not None and len(view) < self._limits.table.told_max:
                view.append(Interested(one.age, advert, found))
        yield say(to.service, kind(self.mine, tuple(view)), to.router, TAG)

    def _wake(self, now: c.Now) -> c.Wake:
        return c.Wake(now.wall_s + max(0.01, min(self._make_s, self._period_s) - now.mono_s))
