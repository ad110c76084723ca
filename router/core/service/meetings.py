"""Meetings of a service with those of its role on other routers: which groups both routers want (R-D20).

    one   → other   MEET {n}                 one's nonce
    other → one     MET  {n, to, tags}       the answer
    one   → other   MET  {n, to, tags}       closes it; both know now what they share

`Meetings` takes in one thing after the other and returns deeds; it reads no signature. Its caller encodes the words,
sends them through the partner's router, and says of what came which router brought it: tags hold for that router alone.
Partners meet again every hour, and a moment after the own set of groups has changed.

Beyond `TAGS_MAX` wanted groups a meeting is about those whose topics come first: the topics follow from both nonces, so
that both ends choose alike, and differently each time. What such a meeting leaves out holds until its time is over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from heapq import nsmallest
from math import inf
from typing import NamedTuple

from router.core.link.allowance import Allowance
from router.core.wire.crypto import PublicKey
from router.core.wire.meeting import FILLER_BYTES, NONCE_BYTES, TAGS_MAX, Meet, Meeting, Met

DOUBLED_MAX = 16


@dataclass(frozen=True, slots=True)
class MeetingLimits:
    """The times and bounds of meetings.

    `again_s` passes between two meetings with a partner, `changed_s` from a change of the own set to the next, at least
    `apart_s` between two that begin here. For `start_s` after the start the own set may be incomplete: nobody is
    answered yet. A nonce is good for `answer_s`. There are `tries_max` MEETs without an answer (None: any number), with
    pauses that double up to `pause_s_max`; then the partner is forgotten. `agreed_s`: how long a group found holds;
    `groups_max`: of how many groups found with one partner. Own beginnings are limited to `answers_per_s` in all, and
    so are answers to routers with which nothing is shared; answers to one partner to `partner_per_s`, of which
    `partner_burst` may come at once.
    """

    again_s: float = 3600.0
    changed_s: float = 0.5
    apart_s: float = 5.0
    start_s: float = 1.0
    answer_s: float = 30.0
    tries_max: int | None = 4
    pause_s_max: float = 300.0
    agreed_s: float = 7200.0
    partners_max: int = 256
    groups_max: int = 512
    answers_per_s: float = 10.0
    partner_per_s: float = 0.5
    partner_burst: float = 8.0


class Cause(Enum):
    """Why something that came in was not used."""

    OWN_KEY = "a meeting with this router itself"
    UNASKED = "an answer to no question of ours, or after its time"
    TOO_SOON = "more questions of one router than are answered"
    TOO_MANY = "more questions than are answered of all routers with which nothing is shared"
    NO_ROOM = "a question of one router more than are met, all of which share groups"


# -- deeds ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Say:
    """Send MEET or MET to the service `to`, through its router and no other."""

    to: PublicKey
    via: PublicKey
    word: Meet | Met


@dataclass(frozen=True, slots=True)
class Common:
    """The groups in common with a router, in place of those before, each with its topic; they hold for `agreed_s`.

    `left_out`: how many more were found than `groups_max`."""

    router: PublicKey
    topics: Mapping[bytes, bytes]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Drop:
    """Count what that router brought and was not used."""

    by: PublicKey
    cause: Cause


Deed = Say | Common | Drop


# -- partners ---------------------------------------------------------------------------------------------------------


class Open(NamedTuple):
    """A meeting that waits for the partner's MET: both nonces, the partner's None until it answers, and its end.

    `revision`: which of the own sets it was begun with; a partner that began it was sent this one's tags."""

    own: bytes
    theirs: bytes | None
    until_s: float
    revision: int


class Found(NamedTuple):
    """A group in common: what both call it, and the monotonic second until which it holds."""

    topic: bytes
    until_s: float


@dataclass(slots=True, eq=False)
class Partner:
    """A router met or to be met, and the service of our role there.

    `asked`: the meeting that we began; `answered`: the one that it began; `held`: its MEET that came before we could
    answer. `next_s`: when we begin the next meeting; `began_s`: when we began the last; `tries`: how many MEETs in a
    row were not answered; `is_told`: whether a `Common` has told of it."""

    router: PublicKey
    service: PublicKey
    allowance: Allowance
    heard_s: float
    next_s: float
    began_s: float = -inf
    tries: int = 0
    asked: Open | None = None
    answered: Open | None = None
    held: Meet | None = None
    found: dict[bytes, Found] = field(default_factory=dict)
    is_told: bool = False

    def __repr__(self) -> str:
        return f"<partner {self.router.hex()[:8]}: {len(self.found)} groups in common>"


class Meetings:
    """The meetings of one service. `random(n)` returns n bytes that nobody can guess; seconds are monotonic."""

    def __init__(
        self, me: PublicKey, random: Callable[[int], bytes], now_s: float, limits: MeetingLimits | None = None
    ) -> None:
        self._me = me
        self._random = random
        self._limits = limits = limits or MeetingLimits()
        self._ready_s = now_s + limits.start_s
        self._answers = Allowance(limits.answers_per_s, max(1.0, limits.answers_per_s))
        self._begins = Allowance(limits.answers_per_s, max(1.0, limits.answers_per_s))
        self._wanted: set[bytes] = set()
        self._revision = 0  # of the own set, raised by each change
        self._partners: dict[bytes, Partner] = {}

    def __repr__(self) -> str:
        return f"<meetings about {len(self._wanted)} groups with {len(self._partners)} partners>"

    def __len__(self) -> int:
        """Return the number of partners."""
        return len(self._partners)

    def __contains__(self, router: bytes) -> bool:
        """Whether a router is met or to be met; one that has not answered for long and shares nothing is not."""
        return router in self._partners

    @property
    def due_s(self) -> float:
        """Return the monotonic second at which `tick` has something to do; infinity: never."""
        times = (one.next_s if one.held is None else self._ready_s for one in self._partners.values())
        return max(self._ready_s, min(times, default=inf))

    def shared_with(self, router: bytes) -> int:
        """Return how many groups are known to be in common with a router."""
        partner = self._partners.get(router)
        return len(partner.found) if partner is not None else 0

    # -- what happens here --------------------------------------------------------------------------------------

    def want(self, group: bytes, wanted: bool, now_s: float) -> None:
        """Note that this router wants a group, or does not any more; a change is soon met about with all partners."""
        if wanted is (group in self._wanted):
            return
        (self._wanted.add if wanted else self._wanted.discard)(group)
        self._revision += 1
        for partner in self._partners.values():
            partner.next_s = min(partner.next_s, self._earliest(partner, now_s + self._limits.changed_s))

    def meet(self, router: PublicKey, service: PublicKey, now_s: float, *, is_back: bool = False) -> bool:
        """Begin a meeting with the service of our role on a router at the next `tick`; return whether there is room.

        With one that is connected again (`is_back`) also right after the last, which it may have forgotten, but not
        while that one is open: the link may have come up for its sake."""
        partner = self._partner(router, service, now_s)
        if partner is None:
            return False
        partner.service, partner.tries = service, 0
        if is_back and (partner.asked is None or partner.asked.until_s < now_s):
            partner.began_s = -inf
        partner.next_s = self._earliest(partner, now_s)
        return True

    def forget(self, router: bytes) -> None:
        """Meet a router no more; what was agreed with it stays as it is."""
        self._partners.pop(router, None)

    def tick(self, now_s: float) -> list[Deed]:
        """Answer who was held back, and begin the meetings that are due."""
        if now_s < self._ready_s:
            return []
        deeds: list[Deed] = []
        for partner in list(self._partners.values()):
            if partner.held is not None:
                meet, partner.held = partner.held, None
                deeds += self._answer(partner, meet, now_s)
            if partner.next_s <= now_s:
                deeds += self._begin(partner, now_s)
        return deeds

    # -- what others say ----------------------------------------------------------------------------------------

    def hear_meet(self, router: PublicKey, service: PublicKey, meet: Meet, now_s: float) -> list[Deed]:
        """Answer the MEET of a service that its router brought."""
        if router == self._me:
            return [Drop(router, Cause.OWN_KEY)]
        partner = self._partner(router, service, now_s)
        if partner is None:
            return [Drop(router, Cause.NO_ROOM)]
        partner.service, partner.heard_s = service, now_s
        if now_s < self._ready_s:
            partner.held = meet
            return []
        return self._answer(partner, meet, now_s)

    def hear_met(self, router: PublicKey, service: PublicKey, met: Met, now_s: float) -> list[Deed]:
        """Take in the answer to our MEET, and close the meeting; or what closes one that we have answered."""
        partner = self._partners.get(router)
        if partner is None:
            return [Drop(router, Cause.UNASKED)]
        asked, answered = partner.asked, partner.answered
        if asked is not None and asked.own == met.to and now_s <= asked.until_s:
            partner.asked, partner.tries, partner.service = None, 0, service
            meeting = Meeting(self._me, router, asked.own, met.nonce)
            partner.next_s = now_s + self._limits.again_s
            return [self._tags(partner, meeting, asked.own, met.nonce), *self._met(partner, meeting, met.tags, now_s)]
        if (
            answered is not None
            and (answered.own, answered.theirs) == (met.to, met.nonce)
            and now_s <= answered.until_s
        ):
            partner.answered = None
            if answered.revision == self._revision:  # it knows all that is wanted here, so let it begin again
                partner.next_s = max(partner.next_s, now_s + self._limits.again_s * 1.1)
            return self._met(partner, Meeting(self._me, router, met.nonce, answered.own), met.tags, now_s)
        return [Drop(router, Cause.UNASKED)]

    # -- inside -------------------------------------------------------------------------------------------------

    def _earliest(self, partner: Partner, at_s: float) -> float:
        return max(at_s, partner.began_s + self._limits.apart_s)

    def _partner(self, router: PublicKey, service: PublicKey, now_s: float) -> Partner | None:
        """Return a router's partner, a new one if need be.

        Of too many, the one that shares nothing and was silent longest gives way; None if all share something."""
        if (known := self._partners.get(router)) is not None:
            return known
        if len(self._partners) >= self._limits.partners_max:
            idle = [one for one in self._partners.values() if not one.found]
            if not idle:
                return None
            del self._partners[min(idle, key=lambda one: one.heard_s).router]
        limits = self._limits
        allowance = Allowance(limits.partner_per_s, limits.partner_burst)
        partner = Partner(router, service, allowance, now_s, now_s + limits.again_s)
        return self._partners.setdefault(router, partner)

    def _begin(self, partner: Partner, now_s: float) -> list[Deed]:
        if not self._begins.take(1, now_s):
            partner.next_s = now_s + 1 / self._limits.answers_per_s
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
        if not partner.allowance.take(1, now_s):
            return [Drop(partner.router, Cause.TOO_SOON)]
        if not partner.found and not self._answers.take(1, now_s):  # so strangers take nothing from those who share
            return [Drop(partner.router, Cause.TOO_MANY)]
        own = self._random(NONCE_BYTES)
        partner.answered = Open(own, meet.nonce, now_s + self._limits.answer_s, self._revision)
        partner.next_s = min(partner.next_s, self._earliest(partner, now_s + self._limits.answer_s))  # if not closed
        meeting = Meeting(self._me, partner.router, meet.nonce, own)
        return [self._tags(partner, meeting, own, meet.nonce)]

    def _tags(self, partner: Partner, meeting: Meeting, own: bytes, theirs: bytes) -> Say:
        tags = meeting.tags(self._subjects(meeting), self._random(FILLER_BYTES))
        return Say(partner.service, partner.router, Met(own, theirs, tags))

    def _subjects(self, meeting: Meeting) -> Collection[bytes]:
        """Return the groups that a meeting is about: all that are wanted, or those whose topics come first."""
        if len(self._wanted) <= TAGS_MAX:
            return self._wanted
        return nsmallest(TAGS_MAX, self._wanted, key=meeting.topic)

    def _met(self, partner: Partner, meeting: Meeting, tags: Collection[bytes], now_s: float) -> list[Deed]:
        """Take in the partner's tags; tell of the groups in common, unless there were none and are none."""
        limits, before = self._limits, partner.found
        partner.heard_s = now_s
        self._lapse(partner, now_s)
        subjects = self._subjects(meeting)
        if len(tags) < TAGS_MAX:  # all that it wants is in them
            missed = partner.found.keys() & set(subjects)
            partner.found = {group: one for group, one in partner.found.items() if group not in missed}
        for group in meeting.shared(subjects, tags):
            partner.found[group] = Found(meeting.topic(group), now_s + limits.agreed_s)
        left_out = max(0, len(partner.found) - limits.groups_max)
        if left_out:
            first = nsmallest(limits.groups_max, partner.found, key=meeting.topic)
            partner.found = {group: partner.found[group] for group in first}
        if partner.is_told and not before and not partner.found:
            return []
        partner.is_told = True
        return [Common(partner.router, {group: one.topic for group, one in partner.found.items()}, left_out)]

    def _lapse(self, partner: Partner, now_s: float) -> None:
        """Forget what was in common and is not wanted any more, or whose time is over."""
        wanted = self._wanted
        partner.found = {
            group: one for group, one in partner.found.items() if group in wanted and one.until_s > now_s
        }  # fmt: skip
