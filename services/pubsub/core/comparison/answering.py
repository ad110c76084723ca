"""Answers to the frames with which other routers compare (R-C35). A frame carries all that its answer needs, so no
comparison has a state here."""

from __future__ import annotations

from typing import NamedTuple

from router.core.link.allowance import Allowance
from router.core.wire.crypto import PublicKey
from router.service import contract as c
from services.pubsub import reasons
from services.pubsub.core.comparison.arrival_order import LISTING_BYTES_MAX, write_ranks
from services.pubsub.core.comparison.held import MINUTES_MAX, Held, minute_at
from services.pubsub.core.comparison.id_set import key_of
from services.pubsub.core.comparison.negentropy import BadFrame, answer, judge
from services.pubsub.core.comparison.plan import TAG, CompareLimits, allowance_of, cost_of
from services.pubsub.core.conduct.clock_steps import ClockSteps
from services.pubsub.core.known import Known
from services.pubsub.core.messages import Compare, Compared
from services.pubsub.core.saying import say


class WaitingQuestion(NamedTuple):
    """A question of a neighbour that waits until the messages held here are known."""

    message: c.Message
    said: Compare
    router: PublicKey
    group: PublicKey


class Answering:
    """Answers neighbours, each at a limited rate; questions wait while the messages held here are looked up, at most
    `waiting_max` of them, and `waiting_of_router_max` of one neighbour."""

    def __init__(self, known: Known, held: Held, steps: ClockSteps, limits: CompareLimits) -> None:
        self._known = known
        self._held = held
        self._steps = steps
        self._limits = limits
        self._waiting: list[WaitingQuestion] = []
        self._rates: dict[PublicKey, Allowance] = {}

    def __repr__(self) -> str:
        return f"<answering: {len(self._waiting)} waiting>"

    def asked(self, message: c.Message, said: Compare, router: PublicKey, group: PublicKey, now: c.Now) -> list[c.Deed]:
        """Answer a frame as soon as the messages held here are known."""
        limits = self._limits
        if not self._is_paid(router, cost_of(said.m, limits), now):
            return [c.Refuse(reasons.LIMIT)]
        one = WaitingQuestion(message, said, router, group)
        if self._held.is_fresh(group, now):
            return self._answer(one, now)
        of_router = sum(one.router == router for one in self._waiting)
        if len(self._waiting) >= limits.waiting_max or of_router >= limits.waiting_of_router_max:
            return [c.Refuse(reasons.LIMIT)]
        try:
            judge(said.m)  # while it can still be refused
        except BadFrame as error:
            return [c.Refuse(reasons.NOT_COMPARED, str(error))]
        self._waiting.append(one)
        return self._held.refresh(group)

    def may_ask(self, router: PublicKey, topics: int, now: c.Now) -> bool:
        """Whether a question about the sums of so many topics is answered: it counts as a frame of so many ranges."""
        return self._is_paid(router, 1 + topics // self._limits.ranges_of_frame, now)

    def _is_paid(self, router: PublicKey, cost: int, now: c.Now) -> bool:
        limits = self._limits
        rate = allowance_of(self._rates, router, limits.frames_per_s, limits.frames_burst, limits)
        if not rate.take(1, now.mono_s):
            return False
        rate.charge(cost - 1, now.mono_s)
        return True

    def now_known(self, group: PublicKey, now: c.Now) -> list[c.Deed]:
        """Answer the questions about a topic that have waited until the messages held of it are known."""
        waited = [one for one in self._waiting if one.group == group]
        self._waiting = [one for one in self._waiting if one.group != group]
        return [deed for one in waited for deed in self._answer(one, now) if not isinstance(deed, c.Refuse)]

    def left(self, group: PublicKey) -> None:
        """Forget the questions about a topic that is not wanted any more; its messages will not be known."""
        self._waiting = [one for one in self._waiting if one.group != group]

    def _answer(self, one: WaitingQuestion, now: c.Now) -> list[c.Deed]:
        said, source = one.said, one.message.source
        lo = max(said.lo, minute_at(now.wall_s) + 1)
        view = self._held.view(one.group, lo, said.hi)
        try:
            found = answer(view, said.m, LISTING_BYTES_MAX)
        except BadFrame as error:
            return [c.Refuse(reasons.NOT_COMPARED, str(error))]
        assert source is not None
        is_told = self._steps.is_steady_for(said.age, now)  # else nobody knows here what came before then
        old = self._held.came_before(one.group, now.wall_s - said.age) if is_told else 0
        if old and (waits := self._known.oldest_untaken(one.group, one.router)) is not None:
            id, own = waits
            old = min(old, view.ids.rank(key_of(minute_at(own.until_s), id)))
        order = write_ranks(found.ranks)
        compared = Compared(said.t, min(view.lo, MINUTES_MAX - 1), said.hi, found.frame, order, old)
        return [say(source, compared, one.router, TAG)]
