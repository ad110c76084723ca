"""Meetings of a service with those of its role on other routers, to find the groups that both routers want (R-D20).

    one   → other   MEET {n}                 one's nonce
    other → one     MET  {n, to, tags}       the answer
    one   → other   MET  {n, to, tags}       closes it; both know now what they share

`Meetings` takes one input after the other and returns deeds; it checks no signature. Its caller encodes the words,
sends them through the partner's router, and names the router that brought each input: tags are valid for that router
alone. Partners meet again every hour, and a moment after the own set of groups has changed.

If more than `TAGS_MAX` groups are wanted, a meeting compares those whose topics come first: topics are derived from
both nonces, so both ends choose the same groups, and others each time. Groups found earlier and left out of a meeting
stay valid until their time is over. Where both services agree by ranges as well (`BY_RANGES`), they go on so for all
groups: a `GoOn` says it, and the caller reports by `agreed` what was found.

There may be more routers than partners: one that is met by all others as a link's hint names it. Their questions wait
for their turn, and a partner that the caller can do without is let go for the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum
from heapq import nsmallest
from itertools import chain
from math import ceil, inf
from typing import NamedTuple

from msgspec import Struct, field

from router.core.link.allowance import Allowance
from router.core.wire.crypto import PublicKey
from router.core.wire.meeting import BY_RANGES, FILLER_BYTES, NONCE_BYTES, TAGS_MAX, TAGS_STEP, Meet, Meeting, Met

DOUBLED_MAX = 16
PLACE_S = 0.25
"""Seconds after which it is looked again for a place for a router whose question waits."""
SHARE_MIN = 24
"""What a meeting costs is counted in parts of one about `TAGS_MAX` groups: at least one part of so many."""


class MeetingLimits(Struct, frozen=True):
    """The times and bounds of meetings, in seconds.

    `again_s`: between two meetings with a partner; `changed_s`: from a change of the own set to the next meeting;
    `apart_s`: at least between two meetings begun here; `cut_off_s`: to the next one after an agreement by ranges that
    was cut off. For `start_s` after the start nobody is answered, as the own set may be incomplete. `answer_s`: how
    long a nonce is valid; `patience_s`: how long a partner that shares nothing keeps its place for its word, if others
    need it. `tries_max`: MEETs without an answer, with pauses that
    double up to `pause_s_max`, before a partner is forgotten (None: never). `agreed_s`: how long a group in common
    stays valid; `groups_max`: groups in common that are kept per partner. `answers_per_s` limits the meetings begun
    here, and likewise the answers to routers without a group in common, if each is about `TAGS_MAX` groups: those about
    fewer cost less, down to a 24th of that, and those by ranges more. `by_ranges`: whether this service agrees by
    ranges as well. `waiting_max`: routers without a group in common whose questions wait for
    that, each for `answer_s` at most; `partner_per_s` and the burst `partner_burst` limit the answers to one partner.
    """

    again_s: float = 3600.0
    changed_s: float = 0.5
    apart_s: float = 5.0
    cut_off_s: float = 60.0
    start_s: float = 1.0
    answer_s: float = 30.0
    patience_s: float = 1.0
    tries_max: int | None = 4
    pause_s_max: float = 300.0
    agreed_s: float = 7200.0
    partners_max: int = 256
    groups_max: int = 512
    answers_per_s: float = 10.0
    waiting_max: int = 2_048
    partner_per_s: float = 0.5
    partner_burst: float = 8.0
    by_ranges: bool = False


class Cause(Enum):
    """Why an input was not used."""

    OWN_KEY = "a meeting with this router itself"
    UNASKED = "an answer to no question of ours, or after its time"
    TOO_SOON = "more questions of one router than are answered"
    TOO_MANY = "more questions than may wait of all routers with which nothing is shared"
    NO_ROOM = "a question of one router more than are met, none of which can be let go"


# -- deeds ------------------------------------------------------------------------------------------------------------


class Say(Struct, frozen=True):
    """Send MEET or MET to the service `to`, through its router and no other."""

    to: PublicKey
    via: PublicKey
    word: Meet | Met


class Common(Struct, frozen=True):
    """The groups in common with a router and their topics, valid for `agreed_s`; they replace the earlier ones.

    `left_out`: how many more than `groups_max` were found."""

    router: PublicKey
    topics: Mapping[bytes, bytes]
    left_out: int = 0


class LetGo(Struct, frozen=True):
    """A partner gave way to another, though groups are shared with it: its meetings end."""

    router: PublicKey


class Drop(Struct, frozen=True):
    """Count an input of that router that was not used."""

    by: PublicKey
    cause: Cause


class GoOn(Struct, frozen=True):
    """Agree by ranges on all groups with the service of a router, as one of both may want more than a meeting compares.

    `asks`: whether this side says the first word."""

    router: PublicKey
    service: PublicKey
    meeting: Meeting
    asks: bool


Deed = Say | Common | LetGo | Drop | GoOn


# -- partners ---------------------------------------------------------------------------------------------------------


class Open(NamedTuple):
    """A meeting that waits for the partner's MET: both nonces (`theirs` is None until it answers), and its end.

    `revision`: the own set at its begin; a partner that began the meeting was sent tags of this set."""

    own: bytes
    theirs: bytes | None
    until_s: float
    revision: int


class InTurn(NamedTuple):
    """A MEET that waits for its answer: the service that said it, and the second from which it is answered no more."""

    service: PublicKey
    meet: Meet
    until_s: float


class CommonGroup(NamedTuple):
    """A group in common: its topic, and the monotonic second until which it is valid."""

    topic: bytes
    until_s: float


class Partner(Struct, eq=False):
    """A router that is met, and the service of our role there.

    `asked`: the meeting that we began; `answered`: the one that it began. `next_s`: when we begin the next meeting;
    `began_s`: when we began the last; `tries`: number of unanswered MEETs in a row; `is_told`: whether a `Common` was
    returned for it."""

    router: PublicKey
    service: PublicKey
    allowance: Allowance
    heard_s: float
    next_s: float
    began_s: float = -inf
    tries: int = 0
    asked: Open | None = None
    answered: Open | None = None
    found: dict[bytes, CommonGroup] = field(default_factory=dict)
    is_told: bool = False

    def is_open(self, at_s: float) -> bool:
        """Whether a meeting waits for the partner's word at that second."""
        return any(one is not None and at_s <= one.until_s for one in (self.asked, self.answered))

    def __repr__(self) -> str:
        return f"<partner {self.router.hex()[:8]}: {len(self.found)} groups in common>"


class Meetings:
    """The meetings of one service. `random(n)` returns n unpredictable bytes; seconds are monotonic. `may_go(router)`:
    whether a partner that shares groups may be let go for another router."""

    def __init__(
        self,
        me: PublicKey,
        random: Callable[[int], bytes],
        now_s: float,
        limits: MeetingLimits | None = None,
        may_go: Callable[[PublicKey], bool] = lambda _: False,
    ) -> None:
        self._me = me
        self._random = random
        self._limits = limits = limits or MeetingLimits()
        self._may_go = may_go
        self._ready_s = now_s + limits.start_s
        per_s = SHARE_MIN * limits.answers_per_s
        self._answers = Allowance(per_s, max(SHARE_MIN, per_s))
        self._begins = Allowance(per_s, max(SHARE_MIN, per_s))
        self._waiting: dict[PublicKey, InTurn] = {}
        self._next_answer_s = inf
        self._let_go: list[LetGo] = []
        self._wanted: set[bytes] = set()
        self._revision = 0  # of the own set, raised by each change
        self._partners: dict[bytes, Partner] = {}

    def __repr__(self) -> str:
        return f"<meetings about {len(self._wanted)} groups with {len(self._partners)} partners>"

    def __len__(self) -> int:
        """Return the number of partners."""
        return len(self._partners)

    def __contains__(self, router: bytes) -> bool:
        """Whether a router is a partner; one that has long been silent and has no group in common is forgotten."""
        return router in self._partners

    @property
    def due_s(self) -> float:
        """Return the monotonic second at which `tick` has something to do; infinity if there is nothing."""
        if self._let_go:
            return -inf
        next_s = min((one.next_s for one in self._partners.values()), default=inf)
        return max(self._ready_s, min(next_s, self._next_answer_s))

    @property
    def wanted(self) -> frozenset[bytes]:
        """Return the groups that this router wants now."""
        return frozenset(self._wanted)

    def shared_with(self, router: bytes) -> int:
        """Return how many groups are known to be in common with a router."""
        partner = self._partners.get(router)
        return len(partner.found) if partner is not None else 0

    # -- what happens here --------------------------------------------------------------------------------------

    def want(self, group: bytes, wanted: bool, now_s: float) -> None:
        """Record whether this router wants a group; a change soon leads to new meetings with all partners."""
        if wanted is (group in self._wanted):
            return
        (self._wanted.add if wanted else self._wanted.discard)(group)
        self._revision += 1
        for partner in self._partners.values():
            partner.next_s = min(partner.next_s, self._earliest(partner, now_s + self._limits.changed_s))

    def meet(self, router: PublicKey, service: PublicKey, now_s: float, *, is_back: bool = False) -> bool:
        """Begin a meeting with the service of our role on a router at the next `tick`; return whether there is room.

        `is_back`: the router is connected again and may have forgotten the last meeting, so it is met again at once. An
        open meeting goes on, because the link may have come up for it. No partner that shares groups is let go for one
        that is met because it is connected: it will ask, if it has something to share."""
        if (partner := self._partner(router, service, now_s, lets_go=not is_back)) is None:
            return False
        partner.service, partner.tries = service, 0
        if is_back and (partner.asked is None or partner.asked.until_s < now_s):
            partner.began_s = -inf
        partner.next_s = self._earliest(partner, now_s)
        return True

    def forget(self, router: bytes) -> None:
        """Stop meeting a router; the groups agreed with it stay valid."""
        self._partners.pop(router, None)

    def tick(self, now_s: float) -> list[Deed]:
        """Answer those whose MEET waits, and begin the meetings that are due."""
        if now_s < self._ready_s:
            return []
        deeds = self._answer_waiting(now_s)
        for partner in list(self._partners.values()):
            if partner.next_s <= now_s:
                deeds += self._begin(partner, now_s)
        let_go, self._let_go = self._let_go, []
        return [*let_go, *deeds]

    # -- what others say ----------------------------------------------------------------------------------------

    def hear_meet(self, router: PublicKey, service: PublicKey, meet: Meet, now_s: float) -> list[Deed]:
        """Answer a MEET of the service whose router brought it."""
        if router == self._me:
            return [Drop(router, Cause.OWN_KEY)]
        partner = self._partners.get(router)
        if partner is not None:
            partner.service, partner.heard_s = service, now_s
            if not partner.allowance.take(1, now_s):
                return [Drop(router, Cause.TOO_SOON)]
            if partner.found and now_s >= self._ready_s:  # so strangers take nothing from those who share
                return self._answer(partner, meet, now_s)
        if router not in self._waiting and len(self._waiting) >= self._limits.waiting_max:
            return [Drop(router, Cause.TOO_MANY)]
        self._waiting[router] = InTurn(service, meet, now_s + self._limits.answer_s)
        self._next_answer_s = min(self._next_answer_s, now_s)
        return self.tick(now_s)

    def hear_met(self, router: PublicKey, service: PublicKey, met: Met, now_s: float) -> list[Deed]:
        """Handle a MET: the answer to our MEET, or the closing of a meeting that we have answered."""
        partner = self._partners.get(router)
        if partner is None:
            return [Drop(router, Cause.UNASKED)]
        asked, answered = partner.asked, partner.answered
        if asked is not None and asked.own == met.to and now_s <= asked.until_s:
            partner.asked, partner.tries, partner.service = None, 0, service
            meeting = Meeting(self._me, router, asked.own, met.nonce)
            partner.next_s = now_s + self._limits.again_s
            found = self._met(partner, meeting, met.tags, now_s)
            closing = self._tags(partner, meeting, asked.own, met.nonce)
            return [closing, *found, *self._go_on(partner, meeting, met.tags, asks=True)]
        if (
            answered is not None
            and (answered.own, answered.theirs) == (met.to, met.nonce)
            and now_s <= answered.until_s
        ):
            partner.answered = None
            if answered.revision == self._revision:  # it knows all that is wanted here, so let it begin again
                partner.next_s = max(partner.next_s, now_s + self._limits.again_s * 1.1)
            meeting = Meeting(self._me, router, met.nonce, answered.own)
            found = self._met(partner, meeting, met.tags, now_s)
            return [*found, *self._go_on(partner, meeting, met.tags, asks=False)]
        return [Drop(router, Cause.UNASKED)]

    def agreed(
        self, router: bytes, meeting: Meeting, groups: Iterable[bytes], now_s: float, *, is_whole: bool
    ) -> list[Deed]:
        """Record the groups in common that were found by ranges. `is_whole`: these are all; otherwise the agreement was
        cut off, and those found earlier stay until their time is over."""
        partner = self._partners.get(router)
        if partner is None:
            return []
        had_some = bool(partner.found)
        if is_whole:
            partner.found = {}
        else:
            partner.next_s = min(partner.next_s, self._earliest(partner, now_s + self._limits.cut_off_s))
        for group in groups:
            partner.found[group] = CommonGroup(meeting.topic(group), now_s + self._limits.agreed_s)
        self._lapse(partner, now_s)
        return self._common(partner, meeting, had_some=had_some)

    # -- inside -------------------------------------------------------------------------------------------------

    def _earliest(self, partner: Partner, at_s: float) -> float:
        """Return when the next meeting may begin: meetings about many groups are further apart, as each costs as much
        as several."""
        return max(at_s, partner.began_s + self._limits.apart_s * max(1.0, len(self._wanted) / TAGS_MAX))

    def _partner(self, router: PublicKey, service: PublicKey, now_s: float, *, lets_go: bool = True) -> Partner | None:
        """Return a router's partner, created if missing; None if there are too many, and none can give way."""
        if (known := self._partners.get(router)) is not None:
            return known
        if len(self._partners) >= self._limits.partners_max:
            one = self._to_give_way(now_s, lets_go=lets_go)
            if one is None:
                return None
            del self._partners[one.router]
            if one.found:
                self._let_go.append(LetGo(one.router))
        limits = self._limits
        allowance = Allowance(limits.partner_per_s, limits.partner_burst)
        partner = Partner(router, service, allowance, now_s, now_s + limits.again_s)
        return self._partners.setdefault(router, partner)

    def _to_give_way(self, now_s: float, *, lets_go: bool) -> Partner | None:
        """Return the partner that gives way to another, the one that was silent longest: of those that share nothing,
        and whose word is not awaited just now; else of those that share something and may go."""
        by_silence = sorted(self._partners.values(), key=lambda one: one.heard_s)
        since_s = now_s + self._limits.answer_s - self._limits.patience_s
        idle = (one for one in by_silence if not one.found and not one.is_open(since_s))
        may_go = (one for one in by_silence if lets_go and one.found and self._may_go(one.router))
        return next(chain(idle, may_go), None)

    def _answer_waiting(self, now_s: float) -> list[Deed]:
        """Answer those whose MEET waits, in turn, as far as the allowance goes."""
        deeds: list[Deed] = []
        while self._waiting:
            router, (service, meet, until_s) = next(iter(self._waiting.items()))
            if now_s <= until_s:
                cost = self._cost()
                if not self._answers.take(cost, now_s):
                    self._next_answer_s = now_s + cost / self._answers.per_s
                    return deeds
                is_new = router not in self._partners
                partner = self._partner(router, service, now_s)
                if partner is None and any(not one.found for one in self._partners.values()):
                    self._next_answer_s = now_s + PLACE_S
                    return deeds
                if partner is not None and is_new:
                    partner.allowance.take(1, now_s)
                deeds += [Drop(router, Cause.NO_ROOM)] if partner is None else self._answer(partner, meet, now_s)
            del self._waiting[router]
        self._next_answer_s = inf
        return deeds

    def _cost(self) -> int:
        """Return what a meeting about the own set costs: at most all that is allowed in a second."""
        compared = len(self._wanted) if self._limits.by_ranges else min(len(self._wanted), TAGS_MAX)
        return max(1, min(ceil(SHARE_MIN * compared / TAGS_MAX), int(self._begins.per_s)))

    def _begin(self, partner: Partner, now_s: float) -> list[Deed]:
        cost = self._cost()
        if not self._begins.take(cost, now_s):
            partner.next_s = now_s + cost / self._begins.per_s
            return []
        if partner.tries == self._limits.tries_max:
            partner.tries, partner.next_s = 0, now_s + self._limits.again_s
            self._lapse(partner, now_s)
            if not partner.found:
                self.forget(partner.router)
            return []
        own = self._random(NONCE_BYTES)
        partner.asked = Open(own, None, now_s + self._limits.answer_s, self._revision)
        partner.began_s = now_s
        doubled = 2.0 ** min(partner.tries, DOUBLED_MAX)
        partner.next_s = now_s + min(self._limits.apart_s * doubled, self._limits.pause_s_max)
        partner.tries += 1
        return [Say(partner.service, partner.router, Meet(own))]

    def _answer(self, partner: Partner, meet: Meet, now_s: float) -> list[Deed]:
        partner.heard_s = now_s
        own = self._random(NONCE_BYTES)
        partner.answered = Open(own, meet.nonce, now_s + self._limits.answer_s, self._revision)
        partner.next_s = min(partner.next_s, self._earliest(partner, now_s + self._limits.answer_s))  # if not closed
        meeting = Meeting(self._me, partner.router, meet.nonce, own)
        return [self._tags(partner, meeting, own, meet.nonce)]

    def _tags(self, partner: Partner, meeting: Meeting, own: bytes, theirs: bytes) -> Say:
        subjects = [*self._subjects(meeting), *([BY_RANGES] if self._limits.by_ranges else [])]
        tags = meeting.tags(subjects, self._random(FILLER_BYTES))
        return Say(partner.service, partner.router, Met(own, theirs, tags))

    def _subjects(self, meeting: Meeting) -> Collection[bytes]:
        """Return the groups that a meeting compares: all wanted ones, or those whose topics come first."""
        most = TAGS_MAX - self._limits.by_ranges
        return self._wanted if len(self._wanted) <= most else nsmallest(most, self._wanted, key=meeting.topic)

    def _go_on(self, partner: Partner, meeting: Meeting, tags: Collection[bytes], *, asks: bool) -> list[Deed]:
        """Go on by ranges if both services do, and one of both said as many tags as there may be."""
        may_be_cut = len(tags) >= TAGS_MAX or len(self._wanted) >= TAGS_MAX - TAGS_STEP
        if not (self._limits.by_ranges and may_be_cut and meeting.shared((BY_RANGES,), tags)):
            return []
        return [GoOn(partner.router, partner.service, meeting, asks)]

    def _met(self, partner: Partner, meeting: Meeting, tags: Collection[bytes], now_s: float) -> list[Deed]:
        """Handle the partner's tags; return the groups in common, unless there were none and are none."""
        had_some = bool(partner.found)
        partner.heard_s = now_s
        self._lapse(partner, now_s)
        subjects = self._subjects(meeting)
        if len(tags) < TAGS_MAX:  # all that it wants is in them
            missed = partner.found.keys() & set(subjects)
            partner.found = {group: one for group, one in partner.found.items() if group not in missed}
        for group in meeting.shared(subjects, tags):
            partner.found[group] = CommonGroup(meeting.topic(group), now_s + self._limits.agreed_s)
        return self._common(partner, meeting, had_some=had_some)

    def _common(self, partner: Partner, meeting: Meeting, *, had_some: bool) -> list[Deed]:
        groups_max = self._limits.groups_max
        left_out = max(0, len(partner.found) - groups_max)
        if left_out:
            first = nsmallest(groups_max, partner.found, key=meeting.topic)
            partner.found = {group: partner.found[group] for group in first}
        if partner.is_told and not had_some and not partner.found:
            return []
        partner.is_told = True
        return [Common(partner.router, {group: one.topic for group, one in partner.found.items()}, left_out)]

    def _lapse(self, partner: Partner, now_s: float) -> None:
        """Forget groups in common that are not wanted any more or whose time is over."""
        wanted = self._wanted
        partner.found = {group: one for group, one in partner.found.items() if group in wanted and one.until_s > now_s}
