"""Comparing many topics at once: one question says the sum of what this node holds of each, and the answer says which
differ; only those are compared (R-C35).

    row of a question = t(16), sum(16)    sum: fingerprint of the ids that expire in minute `lo` or later
    byte of an answer = 0                 the answerer holds the same messages of that topic
                      | 1                 it does not, or it leaves some out
                      | 2                 it does not know yet, and is asked again

What a node was told by its router of a topic counts until a message of it comes: a message of which the service has not
heard yet is sent on to whoever is a neighbour by then. A service that does not know this question refuses it, and is
asked topic by topic.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice
from math import inf
from typing import NamedTuple

from msgspec import Struct, field

from router.core.wire.crypto import PublicKey
from router.service import contract as c
from services.pubsub.core.comparison.held import Held, minute_at
from services.pubsub.core.comparison.id_set import FINGERPRINT_BYTES
from services.pubsub.core.known import Known
from services.pubsub.core.messages import SUMS_MAX, AskSums, Sum, TellSums
from services.pubsub.core.saying import say

TAG = "sums "
"""The tag of answers, and of questions before the router's key: their ends are not logged for the operator."""
SAME, DIFFERENT, LATER = range(3)
NUMBERS = 1 << 32
"""Questions are numbered modulo this."""
UNKNOWN = bytes(FINGERPRINT_BYTES)
"""The sum of a topic of which this node knows not all that it holds: no set has it."""


class SummingLimits(Struct, frozen=True):
    """From `together_min` topics that are due at once they are asked for together, up to `rows_max` in a question, one
    question open with each router. Topics whose messages must be looked up first are waited for, for `gather_s`; it is
    looked again after `look_s`. An answer is waited for `answer_s`; topics that the other does not know yet are asked
    for again after `later_s`, and compared one by one if after `tries_max` questions in a row some are not known.
    `routers_max`: routers that are known not to answer such questions; beyond it all are asked anew."""

    together_min: int = 4
    rows_max: int = SUMS_MAX
    gather_s: float = 3.0
    look_s: float = 0.2
    answer_s: float = 20.0
    later_s: float = 3.0
    tries_max: int = 20
    routers_max: int = 256


class Outcome(NamedTuple):
    """The topics of which a router holds the same messages, and those to compare with it one by one."""

    router: PublicKey
    same: tuple[PublicKey, ...] = ()
    different: tuple[PublicKey, ...] = ()


class OpenSums(NamedTuple):
    """A question without an answer: the service that was asked, its number and groups, and until when the answer is
    waited for. `left`: those of the groups that were left since."""

    service: PublicKey
    number: int
    groups: dict[PublicKey, None]
    until_s: float
    left: set[PublicKey]

    def asks(self, group: PublicKey) -> bool:
        """Whether the answer counts for this group."""
        return group in self.groups and group not in self.left


class Partner(Struct):
    """The topics to be asked for at one router, since when they wait and when it is looked again, and the open
    question. `fresh`: those of the topics at which nobody has looked yet; `unknown`: those of which it was not known at
    the last look what this node holds, in the order in which they are looked up. `tries`: how many answers in a row
    said of a topic that it is not known yet."""

    service: PublicKey
    since_s: float
    look_s: float
    waiting: dict[PublicKey, None] = field(default_factory=dict)
    fresh: dict[PublicKey, None] = field(default_factory=dict)
    unknown: dict[PublicKey, None] = field(default_factory=dict)
    open: OpenSums | None = None
    tries: int = 0


class Summing:
    """The questions of one service, one after the other with each router. Seconds are monotonic. `ahead_min`: minutes
    from now on in which messages expire that are not compared."""

    def __init__(self, known: Known, held: Held, ahead_min: int, limits: SummingLimits | None = None) -> None:
        self._known = known
        self._held = held
        self._ahead_min = ahead_min
        self.limits = limits or SummingLimits()
        self._partners: dict[PublicKey, Partner] = {}
        self._without: set[PublicKey] = set()  # routers whose services do not know of sums
        self._asked = 0

    def __repr__(self) -> str:
        waiting = sum(len(one.waiting) for one in self._partners.values())
        return f"<{waiting} topics are to be summed up, {self._asked} questions were asked>"

    @property
    def due_s(self) -> float:
        """Return the second at which `go_on` or `take_silent` has something to do; infinity: never."""
        found = (one.look_s if one.open is None else one.open.until_s for one in self._partners.values())
        return min(found, default=inf)

    def takes(self, router: PublicKey, group: PublicKey) -> bool:
        """Whether a topic can be compared with a router in this way, and is not already."""
        return router not in self._without and not self.is_under_way(router, group)

    def is_under_way(self, router: PublicKey, group: PublicKey) -> bool:
        """Whether a topic waits for a question to a router, or for the answer."""
        partner = self._partners.get(router)
        if partner is None:
            return False
        return group in partner.waiting or (partner.open is not None and partner.open.asks(group))

    def put(self, router: PublicKey, service: PublicKey, group: PublicKey, now_s: float) -> None:
        """Have a topic compared with a router; those of the same moment go together."""
        partner = self._partners.get(router)
        if partner is None:
            partner = self._partners[router] = Partner(service, now_s, now_s)
        elif not partner.waiting:
            partner.service, partner.since_s, partner.look_s = service, now_s, max(now_s, partner.look_s)
        partner.waiting[group] = partner.fresh[group] = None

    def go_on(self, now: c.Now) -> Iterator[c.Deed]:
        """Ask what can be asked, and have looked up what is not known of the topics that wait."""
        for router, partner in list(self._partners.items()):
            if partner.open is None and partner.look_s <= now.mono_s:
                yield from self._look(router, partner, now)

    def answer(self, router: PublicKey, to: PublicKey, said: AskSums, now: c.Now) -> c.Send:
        """Return the answer to a question of a router; what is not known is looked up."""
        found = bytearray()
        for t, theirs in said.sums:
            topic = self._known.topic(router, t)
            if topic is None:  # perhaps this node has not heard the end of the meeting yet
                found.append(LATER)
            elif not self._held.is_known(topic.group, now):
                self._held.wanted(topic.group)
                found.append(LATER)
            else:
                found.append(SAME if self._held.sum_of(topic.group, said.lo) == theirs else DIFFERENT)
        return say(to, TellSums(said.number, bytes(found)), router, TAG)

    def answered(self, router: PublicKey, source: PublicKey, said: TellSums, now: c.Now) -> Outcome | None:
        """Handle an answer; return what follows, None if it answers no open question of its source: whoever else is
        reached through the router may not say what its service holds."""
        partner = self._partners.get(router)
        asked = None if partner is None else partner.open
        if partner is None or asked is None or source != asked.service:
            return None
        if (asked.number, len(asked.groups)) != (said.number, len(said.found)):
            return None
        rows = [row for row in zip(asked.groups, said.found, strict=True) if asked.asks(row[0])]
        later = [group for group, one in rows if one == LATER]
        partner.tries = partner.tries + 1 if later else 0
        partner.open = None
        is_over = partner.tries >= self.limits.tries_max
        partner.tries *= not is_over
        if later and not is_over:
            partner.since_s, partner.look_s = now.mono_s, now.mono_s + self.limits.later_s
            partner.waiting |= dict.fromkeys(later)
            partner.fresh |= dict.fromkeys(later)
        elif partner.waiting:
            partner.look_s = now.mono_s
        else:
            del self._partners[router]
        same = tuple([group for group, one in rows if one == SAME])
        different = [group for group, one in rows if one == DIFFERENT]
        return Outcome(router, same, (*different, *(later if is_over else ())))

    def take_silent(self, now_s: float) -> list[Outcome]:
        """Return and forget the topics of routers that have not answered in time."""
        silent = [key for key, one in self._partners.items() if one.open is not None and one.open.until_s <= now_s]
        return [self._end(router) for router in silent]

    def refused(self, router: PublicKey, *, is_unknown: bool) -> Outcome:
        """Return and forget the topics of a router that refused the question. `is_unknown`: it does not know such ones,
        and is asked none until it is connected again."""
        if is_unknown:
            if len(self._without) >= self.limits.routers_max:
                self._without.clear()
            self._without.add(router)
        return self._end(router)

    def linked(self, router: PublicKey) -> None:
        """Record that a router is connected, perhaps with another version of the service."""
        self._without.discard(router)

    def gone(self, router: PublicKey) -> Outcome:
        """Return and forget the topics of a router that is not connected any more."""
        return self._end(router)

    def left(self, group: PublicKey) -> None:
        """Forget a topic; what is answered of it does not count, also if it is wanted again by then."""
        for partner in self._partners.values():
            partner.waiting.pop(group, None)
            partner.fresh.pop(group, None)
            partner.unknown.pop(group, None)
            if partner.open is not None and partner.open.asks(group):
                partner.open.left.add(group)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _end(self, router: PublicKey) -> Outcome:
        partner = self._partners.pop(router, None)
        if partner is None:
            return Outcome(router)
        asked = [] if partner.open is None else [group for group in partner.open.groups if partner.open.asks(group)]
        return Outcome(router, different=tuple(dict.fromkeys((*asked, *partner.waiting))))

    def _look(self, router: PublicKey, partner: Partner, now: c.Now) -> Iterator[c.Deed]:
        """Ask a router, unless many of its topics are still being looked up."""
        partner.look_s = now.mono_s + self.limits.look_s
        fresh, partner.fresh = partner.fresh, {}
        self._take_known(router, partner, fresh, now)
        is_patient = now.mono_s < partner.since_s + self.limits.gather_s
        while (first := next(iter(partner.unknown), None)) and self._take_known(router, partner, [first], now):
            pass
        if partner.unknown and is_patient:
            return
        self._take_known(router, partner, list(partner.unknown), now)
        some = list(islice((one for one in partner.waiting if one not in partner.unknown), self.limits.rows_max))
        self._take_known(router, partner, some, now)
        known = [one for one in some if one in partner.waiting and one not in partner.unknown]
        if known:
            yield self._ask(router, partner, known, now)
        elif not partner.waiting:
            del self._partners[router]

    def _take_known(self, router: PublicKey, partner: Partner, groups: Collection[PublicKey], now: c.Now) -> bool:
        """Note which of these topics are not known yet, and have them looked up; return whether all are known. Those
        that are not shared any more do not wait."""
        unknown, is_known = partner.unknown, self._held.is_known
        for group in groups:
            if not self._is_shared(router, group):
                partner.waiting.pop(group, None)
                unknown.pop(group, None)
            elif is_known(group, now):
                unknown.pop(group, None)
            else:
                unknown[group] = None
                self._held.wanted(group)
        return unknown.keys().isdisjoint(groups)

    def _is_shared(self, router: PublicKey, group: PublicKey) -> bool:
        return group in self._known.topics and router in self._known.topics[group].t

    def _ask(self, router: PublicKey, partner: Partner, groups: list[PublicKey], now: c.Now) -> c.Send:
        lo = minute_at(now.wall_s) + 1 + self._ahead_min
        rows = [Sum(self._known.topics[one].t[router], self._held.sum_of(one, lo) or UNKNOWN) for one in groups]
        self._asked += 1
        number = self._asked % NUMBERS
        partner.open = OpenSums(
            partner.service, number, dict.fromkeys(groups), now.mono_s + self.limits.answer_s, set()
        )
        for group in groups:
            del partner.waiting[group]
        return say(partner.service, AskSums(number, lo, tuple(rows)), router, TAG + router.hex())
