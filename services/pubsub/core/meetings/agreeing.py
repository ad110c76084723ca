"""Agreements by ranges with the services of other routers, each after a meeting of both (R-D20).

`Agreeing` takes one input after the other and returns deeds. Each agreement belongs to one meeting, by whose nonces it
is named, and its frames are numbered: one that was recorded, of an earlier meeting or said twice, is not used.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import inf

from msgspec import Struct

from router.core.link.allowance import Allowance, Shares
from router.core.service.meetings import GoOn
from router.core.wire.crypto import KEY_BYTES, PublicKey, digest
from router.core.wire.meeting import TAG_BYTES, TAGS_STEP, Meeting
from router.core.wire.reasons import Reason
from services.pubsub.core.meetings.group_sets import Agreement, BrokenAgreement, GroupSet
from services.pubsub.core.messages import ROUNDS_MAX, AskGroups, TellGroups
from services.pubsub.reasons import NOT_AGREED

_NAME_LABEL = b"upsycle agreement 1"


class AgreeingLimits(Struct, frozen=True):
    """At most `open_max` agreements are under way, beyond which one without groups in common yet is cut off, else the
    one begun first; each waits `answer_s` for a word, and is cut off after `whole_s`, or `ROUNDS_MAX` frames of each
    side. `groups_per_s` of all agreements are compared, `groups_burst` of them at once: further ones are cut off.

    With one router `of_one_max` are under way, beyond which its first is cut off, and `of_one_per_s` are begun,
    `of_one_burst` at once: so one that meets again and again leaves room for others. That is remembered of
    `routers_max` routers."""

    open_max: int = 16
    answer_s: float = 15.0
    whole_s: float = 60.0
    groups_per_s: float = 20_000.0
    groups_burst: float = 200_000.0
    of_one_max: int = 2
    of_one_per_s: float = 1 / 15
    of_one_burst: float = 4.0
    routers_max: int = 1_024


# -- deeds -------------------------------------------------------------------------------------------------------------


class SayGroups(Struct, frozen=True):
    """Send a word to the service `to`, through its router and no other."""

    to: PublicKey
    via: PublicKey
    word: AskGroups | TellGroups


class Agreed(Struct, frozen=True):
    """The groups that both want; `is_whole`: these are all, otherwise the agreement was cut off, or never begun."""

    router: PublicKey
    meeting: Meeting
    groups: frozenset[bytes]
    is_whole: bool


class Unused(Struct, frozen=True):
    """Count a word of a router that was not used."""

    by: PublicKey
    reason: Reason


Deed = SayGroups | Agreed | Unused


class Run(Struct):
    """An agreement under way. `round`: the number of the next frame to come; `agreement`: None until the first."""

    told: GoOn
    name: bytes
    end_s: float
    until_s: float
    agreement: Agreement | None = None
    round: int = 0


class Agreeing:
    """The agreements of one service. `wanted()` returns the groups that are wanted now; seconds are monotonic."""

    def __init__(
        self,
        wanted: Callable[[], Collection[bytes]],
        random: Callable[[int], bytes],
        limits: AgreeingLimits | None = None,
    ) -> None:
        self._wanted = wanted
        self._random = random
        self._limits = limits = limits or AgreeingLimits()
        self._runs: dict[bytes, Run] = {}
        self._groups = Allowance(limits.groups_per_s, limits.groups_burst)
        self._of_one: Shares[bytes] = Shares(limits.of_one_per_s, limits.of_one_burst, limits.routers_max)

    def __repr__(self) -> str:
        return f"<{len(self._runs)} agreements by ranges>"

    @property
    def due_s(self) -> float:
        """Return the second at which `tick` cuts off an agreement; infinity if none is under way."""
        return min((min(one.until_s, one.end_s) for one in self._runs.values()), default=inf)

    def begin(self, told: GoOn, now_s: float) -> list[Deed]:
        """Begin an agreement: say the first word, or wait for it."""
        deeds, limits, meeting = list[Deed](), self._limits, told.meeting
        its = [name for name, one in self._runs.items() if one.told.router == told.router]
        for name in its[: max(0, len(its) + 1 - limits.of_one_max)]:
            deeds += self._cut_off(name)
        while len(self._runs) >= limits.open_max:
            in_vain = (name for name, one in self._runs.items() if one.agreement is None or not one.agreement.common)
            deeds += self._cut_off(next(in_vain, next(iter(self._runs))))
        name = digest(_NAME_LABEL + meeting.first + meeting.second)[:TAG_BYTES]
        run = self._runs[name] = Run(told, name, now_s + limits.whole_s, now_s + limits.answer_s)
        if told.asks:
            groups = self._group_set(told, now_s)
            if groups is None:
                return [*deeds, *self._cut_off(name)]
            run.agreement = Agreement(groups, asks=True)
            deeds.append(self._ask(run))
        return deeds

    def hear_question(self, router: PublicKey, word: AskGroups, now_s: float) -> list[Deed]:
        """Answer a frame of the side that began the meeting."""
        run = self._run(router, word, now_s, asks=False)
        if run is None:
            return [Unused(router, Reason.NOT_AUTHORISED)]
        if run.agreement is None:
            groups = self._group_set(run.told, now_s)
            if groups is None:
                return [Unused(router, Reason.RATE_LIMITED)]
            run.agreement = Agreement(groups, asks=False)
        if not self._is_read(run, run.agreement, word.m, now_s):
            return [Unused(router, NOT_AGREED), *self._cut_off(run.name)]
        run.round += 1
        deeds = list[Deed]()
        if run.agreement.owes_frame:
            answer = TellGroups(run.name, word.round, run.agreement.next_frame())
            deeds.append(SayGroups(run.told.service, router, answer))
        return [*deeds, *self._end_if_done(run, run.agreement)]

    def hear_answer(self, router: PublicKey, word: TellGroups, now_s: float) -> list[Deed]:
        """Go on after an answer to our frame."""
        run = self._run(router, word, now_s, asks=True)
        if run is None or run.agreement is None:
            return [Unused(router, Reason.NOT_AUTHORISED)]
        if not self._is_read(run, run.agreement, word.m, now_s):
            return [Unused(router, NOT_AGREED), *self._cut_off(run.name)]
        run.round += 1
        if run.round < ROUNDS_MAX and run.agreement.owes_frame:
            return [self._ask(run), *self._end_if_done(run, run.agreement)]
        return self._end_if_done(run, run.agreement) or self._cut_off(run.name)

    def tick(self, now_s: float) -> list[Deed]:
        """Cut off the agreements whose time is over."""
        over = [name for name, one in self._runs.items() if min(one.until_s, one.end_s) <= now_s]
        return [deed for name in over for deed in self._cut_off(name)]

    # -- inside --------------------------------------------------------------------------------------------------------

    def _group_set(self, told: GoOn, now_s: float) -> GroupSet | None:
        """Return what is wanted, filled up with random keys, so that no count is told exactly; None if too many groups
        are compared already, or this router has begun too many agreements."""
        wanted = self._wanted()
        if not self._of_one.take(told.router, 1, now_s) or not self._groups.take(max(1, len(wanted)), now_s):
            return None
        missing = -len(wanted) % TAGS_STEP if wanted else TAGS_STEP
        return GroupSet(told.meeting, [*wanted, *[self._random(KEY_BYTES) for _ in range(missing)]])

    def _run(self, router: PublicKey, word: AskGroups | TellGroups, now_s: float, *, asks: bool) -> Run | None:
        run = self._runs.get(word.a)
        if run is None or (run.told.router, run.told.asks, run.round) != (router, asks, word.round):
            return None
        return run if now_s <= min(run.until_s, run.end_s) else None

    def _is_read(self, run: Run, agreement: Agreement, frame: bytes, now_s: float) -> bool:
        run.until_s = now_s + self._limits.answer_s
        try:
            agreement.hear(frame)
        except BrokenAgreement:
            return False
        return True

    def _ask(self, run: Run) -> SayGroups:
        assert run.agreement is not None
        word = AskGroups(run.name, run.round, run.agreement.next_frame())
        return SayGroups(run.told.service, run.told.router, word)

    def _end_if_done(self, run: Run, agreement: Agreement) -> list[Deed]:
        if not agreement.is_done:
            return []
        del self._runs[run.name]
        return [Agreed(run.told.router, run.told.meeting, frozenset(agreement.common), True)]

    def _cut_off(self, name: bytes) -> list[Deed]:
        """End an agreement with what was proved; the side that began it tries again later."""
        run = self._runs.pop(name)
        found = run.agreement.common if run.agreement is not None else ()
        is_news = found or run.told.asks
        return [Agreed(run.told.router, run.told.meeting, frozenset(found), False)] if is_news else []
