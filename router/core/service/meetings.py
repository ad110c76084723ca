"""Meetings of a service with those of its role on other routers, to find the groups that both routers want (R-D20).

    one   → other   MEET {n}                 one's nonce
    other → one     MET  {n, to, tags}       the answer
    one   → other   MET  {n, to, tags}       closes it; both know now what they share

`Meetings` takes one input after the other and returns deeds; it checks no signature. Its caller encodes the words,
sends them through the partner's router, and names the router that brought each input: tags are valid for that router
alone. Partners meet again every hour, and a moment after the own set of groups has changed.

If more than `TAGS_MAX` groups are wanted, a meeting compares those whose topics come first: topics are derived from
both nonces, so both ends choose the same groups, and others each time. Groups found earlier and left out of a meeting
stay valid until their time is over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import Enum
from heapq import nsmallest
from math import inf
from typing import NamedTuple

from msgspec import Struct, field

from router.core.link.allowance import Allowance
from router.core.wire.crypto import PublicKey
from router.core.wire.meeting import FILLER_BYTES, NONCE_BYTES, TAGS_MAX, Meet, Meeting, Met

DOUBLED_MAX = 16


class MeetingLimits(Struct, frozen=True):
    """The times and bounds of meetings, in seconds.

    `again_s`: between two meetings with a partner; `changed_s`: from a change of the own set to the next meeting;
    `apart_s`: at least between two meetings begun here. For `start_s` after the start nobody is answered, as the own
    set may be incomplete. `answer_s`: how long a nonce is valid. `tries_max`: MEETs without an answer, with pauses that
    double up to `pause_s_max`, before a partner is forgotten (None: never). `agreed_s`: how long a group in common
    stays valid; `groups_max`: groups in common that are kept per partner. `answers_per_s` limits the meetings begun
    here, and likewise the answers to routers without a group in common; `partner_per_s` and the burst `partner_burst`
    limit the answers to one partner.
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
    """Why an input was not used."""

    OWN_KEY = "a meeting with this router itself"
    UNASKED = "an answer to no question of ours, or after its time"
    TOO_SOON = "more questions of one router than are answered"
    TOO_MANY = "more questions than are answered of all routers with which nothing is shared"
    NO_ROOM = "a question of one router more than are met, all of which share groups"


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


class Drop(Struct, frozen=True):
    """Count an input of that router that was not used."""

    by: PublicKey
    cause: Cause


Deed = Say | Common | Drop


# -- partners ---------------------------------------------------------------------------------------------------------


class Open(NamedTuple):
    """A meeting that waits for the partner's MET: both nonces (`theirs` is None until it answers), and its end.

    `revision`: the own set at its begin; a partner that began the meeting was sent tags of this set."""

    own: bytes
    theirs: bytes | None
    until_s: float
    revision: int


class CommonGroup(NamedTuple):
    """A group in common: its topic, and the monotonic second until which it is valid."""

    topic: bytes
    until_s: float


class Partner(Struct, eq=False):
    """A router that is met, and the service of our role there.

    `asked`: the meeting that we began; `answered`: the one that it began; `held`: its MEET that came before we could
    answer. `next_s`: when we begin the next meeting; `began_s`: when we began the last; `tries`: number of unanswered
    MEETs in a row; `is_told`: whether a `Common` was returned for it."""

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
    found: dict[bytes, CommonGroup] = field(default_factory=dict)
    is_told: bool = False

    def __repr__(self) -> str:
        return f"<partner {self.router.hex()[:8]}: {len(self.found)} groups in common>"


class Meetings:
    """The meetings of one service. `random(n)` returns n unpredictable bytes; seconds are monotonic."""

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
        """Whether a router is a partner; one that has long been silent and has no group in common is forgotten."""
        return router in self._partners

    @property
    def due_s(self) -> float:
        """Return the monotonic second at which `tick` has something to do; infinity if there is nothing."""
        times = (one.next_s if one.held is None else self._ready_s for one in self._partners.values())
        return max(self._ready_s, min(times, default=inf))

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
        open meeting goes on, because the link may have come up for it."""
        partner = self._partner(router, service, now_s)
        if partner is None:
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
        """Answer partners whose MEET was held back, and begin the meetings that are due."""
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
        """Answer a MEET of the service whose router brought it."""
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
        """Handle a MET: the answer to our MEET, or the closing of a meeting that we have answered."""
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
        """Return a router's partner, created if missing.

        If there are too many, the one that shares nothing and was silent longest is replaced; None if all share
        something."""
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
        """Return the groups that a meeting compares: all wanted ones, or those whose topics come first."""
        if len(self._wanted) <= TAGS_MAX:
            return self._wanted
        return nsmallest(TAGS_MAX, self._wanted, key=meeting.topic)

    def _met(self, partner: Partner, meeting: Meeting, tags: Collection[bytes], now_s: float) -> list[Deed]:
        """Handle the partner's tags; return the groups in common, unless there were none and are none."""
        limits, before = self._limits, partner.found
        partner.heard_s = now_s
        self._lapse(partner, now_s)
        subjects = self._subjects(meeting)
        if len(tags) < TAGS_MAX:  # all that it wants is in them
            missed = partner.found.keys() & set(subjects)
            partner.found = {group: one for group, one in partner.found.items() if group not in missed}
        for group in meeting.shared(subjects, tags):
            partner.found[group] = CommonGroup(meeting.topic(group), now_s + limits.agreed_s)
        left_out = max(0, len(partner.found) - limits.groups_max)
        if left_out:
            first = nsmallest(limits.groups_max, partner.found, key=meeting.topic)
            partner.found = {group: partner.found[group] for group in first}
        if partner.is_told and not before and not partner.found:
            return []
        partner.is_told = True
        return [Common(partner.router, {group: one.topic for group, one in partner.found.items()}, left_out)]

    def _lapse(self, partner: Partner, now_s: float) -> None:
        """Forget groups in common that are not wanted any more or whose time is over."""
        wanted = self._wanted
        partner.found = {group: one for group, one in partner.found.items() if group in wanted and one.until_s > now_s}
