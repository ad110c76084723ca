"""Maintenance of the rings: which members to ask and to meet, and which are neighbours in each topic (R-C32).

`Overlay` takes one event after the other and returns deeds; it checks no signature. Its caller knows the pub/sub
service of each router, encodes the rings, and holds the meetings.

Each period one question is sent, about the topic that has waited longest, every second time one that has changed since:
in turn to its nearest successor, its nearest predecessor and a random member. It covers all topics shared with that
partner, up to `rings_max`, each with the members next to the partner's position and some at random. Received members
are candidates; one becomes a neighbour by a meeting.

Once enough members were told of the last change of each ring, and there are no candidates, the rings are settled: a
period asks a member only if it was not heard for `settled_periods`. While more rings have changed than the questions of
so many periods cover, and no neighbour was removed for its silence lately, periods stay short.

A period looks at the rings that have changed and at those with candidates, not at all rings. Rings with the same
neighbours are one circle (ring_book.py): one that falls silent or is back costs the same for one topic and for
thousands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import NamedTuple

from msgspec import Struct, field

from router.core.wire.crypto import PublicKey
from router.service.contract import Chance
from services.pubsub.core.known import Known, Neighbour
from services.pubsub.core.meetings.candidates import CandidateLimits, Candidates
from services.pubsub.core.rings.ring import place_of
from services.pubsub.core.rings.ring_book import RingBook
from services.pubsub.core.rings.topic_ring import RANDOM, Told, TopicRing
from services.pubsub.core.rings.view import RingMembers, ViewLimits

STALLED_S = 2.0
"""Seconds by which a period begins late if this node stood still."""
LATE_S = 0.5
"""From how many seconds on that it comes late this service leaves them out of the time that others have to answer."""
LATE_MOST = 4
"""The most times `answer_s` that others have, where this service is always late."""


class OverlayLimits(Struct, frozen=True):
    """The numbers of R-C32.

    A period lasts `period_s`, give or take `jitter` of it; each of the first `fast_periods` lasts `fast_s`, after the
    start and after a group becomes wanted, and while members are to be told of more rings than `settled_periods`
    questions cover, unless a neighbour was removed for its silence within `calm_s`. Without an answer within `answer_s`
    the next on that side is asked at once, up to `questions_max` in a period. A message covers up to `rings_max`
    topics, each with up to `near` neighbours on each side of the partner and `random` others. While the rings are
    settled, a member is asked once it was not heard for `settled_periods`.
    """

    period_s: float = 10.0
    jitter: float = 0.25
    fast_s: float = 1.0
    fast_periods: int = 30
    answer_s: float = 5.0
    questions_max: int = 3
    rings_max: int = 16
    near: int = 3
    random: int = 4
    settled_periods: int = 12
    calm_s: float = 120.0
    view: ViewLimits = field(default_factory=ViewLimits)
    candidates: CandidateLimits = field(default_factory=CandidateLimits)


class RingOf(NamedTuple):
    """The members sent about a topic, by the topic's name for both ends."""

    t: bytes
    members: tuple[Told, ...]


# -- deeds ------------------------------------------------------------------------------------------------------------


class ExchangeRings(Struct, frozen=True):
    """Ask a neighbour for its rings, and send it those known here."""

    to: Neighbour
    rings: tuple[RingOf, ...]


class Reply(Struct, frozen=True):
    """Answer a neighbour's question."""

    to: Neighbour
    rings: tuple[RingOf, ...]


class MeetWith(Struct, frozen=True):
    """Meet a candidate."""

    candidate: Neighbour


Deed = ExchangeRings | Reply | MeetWith


class Question(NamedTuple):
    """An open question: the time until which its answer is accepted, its main topic, and until when it may be accepted
    at most, if this service comes late meanwhile."""

    until_s: float
    group: PublicKey
    last_s: float


class Overlay:
    """A node's part in the rings of its topics. Seconds are monotonic."""

    __slots__ = (
        "_asked", "_away", "_began_s", "_candidates", "_chance", "_fast", "_known", "_limits", "_members", "_next_s",
        "_own", "_questions", "_rings", "_unanswered",
    )  # fmt: skip

    def __init__(self, known: Known, own: PublicKey, chance: Chance, limits: OverlayLimits | None = None) -> None:
        self._known = known
        self._own = own
        self._chance = chance
        self._limits = limits or OverlayLimits()
        self._members = RingMembers()
        barred = known.withholding.barred
        self._rings = RingBook(place_of(known.service, own), self._limits.view, self._members, barred)
        known.nearest_since = self._nearest_since
        self._candidates = Candidates(self._limits.candidates, barred)
        self._asked: dict[PublicKey, Question] = {}
        self._unanswered: dict[PublicKey, Question] = {}  # the last ones, by whom was asked
        self._away: dict[PublicKey, float] = {}  # neighbours that did not answer, and the second of their removal
        self._next_s = self._began_s = -inf
        self._fast = self._limits.fast_periods
        self._questions = 0

    def __repr__(self) -> str:
        return f"<overlay: period {self._members.period}, {len(self._rings)} rings, {len(self._asked)} questions>"

    @property
    def due_s(self) -> float:
        """Return the second at which `tick` has something to do."""
        if self._known.fell_silent and self._questions < self._limits.questions_max:
            return -inf
        return min([self._next_s, *(one.until_s for one in self._asked.values())])

    # -- topics and neighbours ---------------------------------------------------------------------------------------

    def begin(self, group: PublicKey) -> None:
        """Maintain the ring of a topic from now on; the next periods are short.

        The first one begins at once, unless one began within `fast_s`: topics of one moment share it."""
        self._rings.begin(self._known.topics[group])
        self._fast, self._next_s = self._limits.fast_periods, min(self._next_s, self._began_s + self._limits.fast_s)

    def end(self, group: PublicKey) -> None:
        """Stop maintaining the ring of a topic."""
        self._rings.end(group)

    def is_whole(self, group: PublicKey) -> bool:
        """Whether the nearest known members on both sides are neighbours."""
        return self._rings[group].is_whole

    def rearrange(self) -> None:
        """Look anew which neighbours are barred."""
        self._rings.show_all()

    def _nearest_since(self, group: PublicKey) -> dict[PublicKey, float]:
        ring = self._rings.get(group)
        return {} if ring is None else ring.nearest

    def met(self, neighbour: Neighbour, now_s: float) -> None:
        """Record a meeting with a router: it is a neighbour in exactly the topics that are shared with it."""
        router = neighbour.router
        self._away.pop(router, None)
        shared = {topic.group for topic in self._known.shared_with(router)}
        with_it = [group for group, ring in self._rings.perhaps_with_candidates() if router in ring.candidates]
        self._candidates.met(router, now_s, in_vain=not shared.issuperset(with_it) or not shared)
        for group in with_it:
            self._rings[group].candidates.remove(router)
            self._rings.changed(group)
        self._rings.seat(neighbour, shared)
        self._rings.remove(router, self._rings.keys() - shared)

    def heard(self, router: PublicKey) -> None:
        """Record that a router was heard just now. On how many rings it stands counts only if it was silent."""
        was_hidden = router in self._known.fell_silent
        self._known.fell_silent.discard(router)
        if not self._rings.hear(router) and was_hidden:
            self._rings.show(self._rings.circles_with(router))

    def stands_with(self, router: PublicKey) -> bool:
        """Whether a router is a neighbour on a ring, as far as this node knows."""
        shared = self._known.groups_shared_with(router)
        circles = self._rings.circles_with(router)
        return any(not circle.near.topics.keys().isdisjoint(shared) for circle in circles)

    def offer(self, group: PublicKey, candidate: Neighbour, age: int = 0) -> None:
        """Add a candidate for a topic that was found elsewhere."""
        ring = self._rings.get(group)
        if ring is not None and candidate.router != self._own and candidate.router not in ring.neighbours:
            ring.candidates.put(candidate, age)
            self._rings.changed(group)

    def suggest(self, found: Sequence[Neighbour]) -> None:
        """Replace the routers that may want the same groups by these, the most promising first."""
        self._candidates.suggest(found)

    def absent(self, router: PublicKey, now_s: float) -> None:
        """Record that a router could not be reached."""
        self._candidates.absent(router, now_s)
        for _, ring in self._rings.perhaps_with_candidates():
            ring.candidates.silence(router)
        question = self._asked.get(router)
        if question is not None:
            self._asked[router] = question._replace(until_s=now_s)
        else:
            self._remove(router, now_s)

    def lost(self, neighbour: Neighbour, now_s: float) -> None:
        """Let a router with which groups were shared, and which was not there, be met again after a rest."""
        self._candidates.lost(neighbour, now_s)

    # -- exchanges ---------------------------------------------------------------------------------------------------

    def hear_question(self, by: Neighbour, rings: Iterable[RingOf]) -> Reply | None:
        """Handle a neighbour's rings, and return the members to answer with; None if no topic is shared. One that was
        let go is answered, and nothing more."""
        found = self._take(by, rings)
        for ring in found if by.router not in self._known.let_go else ():
            self._rings.told(ring)
        return Reply(by, tuple([self._told(one, by) for one in found])) if found else None

    def hear_answer(self, by: Neighbour, rings: Iterable[RingOf]) -> bool:
        """Handle a neighbour's answer, which may come late; return whether it was asked."""
        if self._asked.pop(by.router, None) is None and self._unanswered.pop(by.router, None) is None:
            return False
        self._take(by, rings)
        return True

    def _take(self, by: Neighbour, rings: Iterable[RingOf]) -> list[TopicRing]:
        self.heard(by.router)
        if by.router in self._away and by.router not in self._known.let_go:
            self._put_back(by)
        found: list[TopicRing] = []
        for t, members in rings:
            topic = self._known.topic(by.router, t)
            ring = self._rings.get(topic.group) if topic is not None else None
            if ring is not None and ring not in found and len(found) < self._limits.rings_max:
                found.append(ring)
                if by.router in self._known.let_go:
                    continue
                ring.candidates.remove(by.router)
                self._rings.seat_on(ring, by)
                ring.take(by, members, self._own, self._limits.view.age_max)
                self._rings.changed(ring.topic.group)
        return found

    def _put_back(self, neighbour: Neighbour) -> None:
        """Let a router that was slow to answer be a neighbour again on all rings that it shares, not only on those of
        which it speaks just now: what was agreed with it still holds."""
        del self._away[neighbour.router]
        self._candidates.back(neighbour.router)
        router, shared = neighbour.router, set(self._known.groups_shared_with(neighbour.router))
        for group, ring in self._rings.perhaps_with_candidates():
            if group in shared and router in ring.candidates:
                ring.candidates.remove(router)
                self._rings.changed(group)
        self._rings.seat(neighbour, shared)

    def _told(self, ring: TopicRing, partner: Neighbour) -> RingOf:
        limits = self._limits
        return RingOf(ring.topic.t[partner.router], ring.told(partner, limits.near, limits.random, self._chance))

    # -- a period ----------------------------------------------------------------------------------------------------

    def tick(self, now_s: float) -> list[Deed]:
        """Ask and meet the members whose time has come."""
        self._leave_out(now_s - self.due_s)
        for router in self._candidates.overdue(now_s):
            self.absent(router, now_s)
        deeds: list[Deed] = list(self._give_up(now_s))
        if now_s >= self._next_s:
            deeds += self._begin_period(now_s)
        return [*deeds, *self._ask_the_silent(now_s)]

    def _leave_out(self, late_s: float) -> None:
        """Give those more time who are asked, if this service comes late: what they answered may still be unread, and
        on a machine that is overloaded they come late as well."""
        if LATE_S < late_s < inf:
            for router, one in self._asked.items():
                self._asked[router] = one._replace(until_s=min(one.until_s + late_s + LATE_S, one.last_s))

    def _begin_period(self, now_s: float) -> Iterator[Deed]:
        limits = self._limits
        if -inf < self._next_s < now_s - STALLED_S:
            self._known.withholding.stalled()
        self._members.period += 1
        self._questions = 0
        self._fast = max(0, self._fast - 1)
        self._began_s = now_s
        spread = limits.jitter * (2 * self._chance.random() - 1)
        self._rings.look(now_s)
        is_short = self._fast or self._is_behind(now_s)
        self._next_s = now_s + (limits.fast_s if is_short else limits.period_s * (1 + spread))
        yield from self._ask_unheard(now_s) if self._rings.is_settled and not self._fast else self._ask_next(now_s)
        rings = [self._rings[group] for group in self._rings.with_candidates]
        chosen = self._candidates.choose(rings, self._chance, now_s, is_any_alone=bool(self._rings.alone))
        yield from map(MeetWith, chosen)

    def _is_behind(self, now_s: float) -> bool:
        """Whether members are still to be told of many rings. Where neighbours fall silent, the machine or the network
        may be overloaded, and more questions would only add to that."""
        is_behind = len(self._rings.to_ask) > self._limits.rings_max * self._limits.settled_periods
        return is_behind and all(at_s <= now_s - self._limits.calm_s for at_s in self._away.values())

    def _ask_next(self, now_s: float) -> Iterator[ExchangeRings]:
        """Ask about the topic that has waited longest, among those for which a member can be asked."""
        for group in self._rings.in_turn(changed_first=self._members.period % 2 == 0):
            ring = self._rings[group]
            partner = ring.partner(self._chance)
            if partner is None:
                ring.next_turn()
            elif partner.router not in self._asked:
                yield self._ask(ring, partner, now_s)
                return

    def _ask_unheard(self, now_s: float) -> Iterator[ExchangeRings]:
        """Ask the neighbour that was not heard for longest, if that is too long."""
        not_now = self._asked.keys() | self._known.withholding.barred
        live = (PublicKey(one) for one, member in self._members.items() if not member.is_silent)
        router = min((one for one in live if one not in not_now), key=self._unheard_since, default=None)
        if router is None or self._members.period - self._unheard_since(router) < self._limits.settled_periods:
            return
        ring = self._rings.first_shared_with(router)
        seat = None if ring is None else ring.neighbours.get(router)
        if ring is not None and seat is not None:
            yield self._ask(ring, seat.neighbour, now_s)

    def _unheard_since(self, router: PublicKey) -> int:
        return self._members[router].heard

    def _ask(self, first: TopicRing, partner: Neighbour, now_s: float) -> ExchangeRings:
        most, shared = self._limits.rings_max - 1, self._known.groups_shared_with(partner.router)
        rings = [first, *self._rings.riders(first, partner.router, shared, most)]
        for ring in rings:
            if ring is first or ring.turn == RANDOM or ring.partner(self._chance) == partner:
                self._rings.asked(ring, self._members.period)
        self._questions += 1
        answer_s = self._limits.answer_s
        self._unanswered.pop(partner.router, None)
        self._asked[partner.router] = Question(now_s + answer_s, first.topic.group, now_s + LATE_MOST * answer_s)
        return ExchangeRings(partner, tuple([self._told(one, partner) for one in rings]))

    def _ask_the_silent(self, now_s: float) -> Iterator[ExchangeRings]:
        """Ask the members that did not take something whether they are there."""
        silent = self._known.fell_silent
        while silent and self._questions < self._limits.questions_max:
            router = silent.pop()
            circle = self._rings.silence(router)
            seat = None if circle is None else circle.view.get(router)
            if circle is not None and seat is not None and router not in self._asked:
                yield self._ask(self._rings.first_of(circle), seat.neighbour, now_s)

    def _give_up(self, now_s: float) -> Iterator[ExchangeRings]:
        """Remove the members that did not answer, and ask the next on that side."""
        for router, question in [one for one in self._asked.items() if one[1].until_s <= now_s]:
            self._unanswered[router] = self._asked.pop(router)
            if len(self._unanswered) > self._limits.candidates.resting_max:
                del self._unanswered[next(iter(self._unanswered))]
            self._remove(router, now_s)
            ring = self._rings.get(question.group)
            if ring is None or self._questions >= self._limits.questions_max:
                continue
            ring.last_turn()
            partner = ring.partner(self._chance)
            if partner is not None and partner.router not in self._asked:
                yield self._ask(ring, partner, now_s)

    def _remove(self, router: PublicKey, now_s: float) -> None:
        """Remove a neighbour that is not there; it is met again after a rest."""
        lost = self._rings.remove(router)
        if lost is not None:
            self._away.pop(router, None)
            while len(self._away) >= self._limits.candidates.resting_max:
                del self._away[next(iter(self._away))]
            self._away[router] = now_s
            while len(self._known.lost_s) >= self._limits.candidates.resting_max:
                del self._known.lost_s[next(iter(self._known.lost_s))]
            self._known.lost_s.setdefault(router, now_s)
            self._candidates.lost(lost, now_s)
