"""Topics that are due at once are compared by their sums, and then one by one where these differ (R-C35)."""

from __future__ import annotations

from collections.abc import Container, Mapping

from router.core.wire.crypto import PublicKey
from router.core.wire.reasons import Reason
from router.service import contract as c
from services.pubsub import reasons
from services.pubsub.core.comparison.answering import Answering
from services.pubsub.core.comparison.arrivals import Arrivals
from services.pubsub.core.comparison.fetching import Fetch
from services.pubsub.core.comparison.held import Held
from services.pubsub.core.comparison.places import Places
from services.pubsub.core.comparison.plan import CompareLimits, Plan, Plans
from services.pubsub.core.comparison.summing import TAG, Outcome, Summing
from services.pubsub.core.comparison.waiting import Waiting
from services.pubsub.core.known import Known
from services.pubsub.core.messages import AskSums, TellSums

RETRY_S = 1.0
"""Seconds after which topics whose question was not answered are compared with another neighbour."""


class Together:
    """Carries out plans by sums. `summing`: the questions and answers."""

    def __init__(
        self,
        known: Known,
        held: Held,
        plans: Plans,
        arrivals: Arrivals,
        waiting: Waiting,
        places: Places,
        chance: c.Chance,
        limits: CompareLimits,
    ) -> None:
        self.summing = Summing(known, held, limits.ahead_min)
        self._known = known
        self._plans = plans
        self._arrivals = arrivals
        self._waiting = waiting
        self._places = places
        self._chance = chance
        self._limits = limits
        self._same: list[Fetch] = []

    def __repr__(self) -> str:
        return f"<comparing together: {self.summing!r}>"

    def take_due(
        self, services: Mapping[PublicKey, PublicKey], busy: Container[tuple[PublicKey, PublicKey]], now: c.Now
    ) -> list[tuple[PublicKey, Plan]]:
        """Return the plans that were due; what is due of one still is to be compared singly. The caller calls
        `Plans.changed` for each.

        `services`: those of connected routers; `busy`: router and group of the comparisons that are open."""
        least = self.summing.limits.together_min
        due = self._plans.take_due(now.mono_s, least)
        for group, plan in due if len(due) >= least else ():
            if not plan.missed:
                self._begin(group, plan, services, busy, now)
        return due

    def read(self, message: c.Message, said: AskSums | TellSums, answering: Answering, now: c.Now) -> list[c.Deed]:
        """Handle a question or an answer about sums. `answering`: who counts the questions of each router."""
        router, source = message.via, message.source
        if router is None or source is None or not self._known.is_partner(router):
            return [c.Refuse(reasons.MEET_FIRST)]
        if isinstance(said, TellSums):
            is_answer = self._is_answer(router, source, said, now)
            return [] if is_answer else [c.Refuse(reasons.MEET_FIRST, "nothing was asked to which this is an answer")]
        if not answering.may_ask(router, len(said.sums), now):
            return [c.Refuse(reasons.LIMIT)]
        return [self.summing.answer(router, source, said, now)]

    def _is_answer(self, router: PublicKey, source: PublicKey, said: TellSums, now: c.Now) -> bool:
        """Do what follows from an answer; return False if it answers no question."""
        outcome = self.summing.answered(router, source, said, now)
        if outcome is None:
            return False
        self._places.answered(router)
        for group in outcome.same:
            plan = self._plans.get(group)
            if plan is not None and not plan.missed:
                self._arrivals.equal(group, now)
                self._same.append(Fetch(group, router, is_open=False))
        self._singly(outcome, now.mono_s)
        return True

    def take_same(self) -> list[Fetch]:
        """Return what is to be reported of topics of which both hold the same messages: nothing is to be fetched."""
        same, self._same = self._same, []
        return same

    def go_on(self, now: c.Now) -> list[c.Deed]:
        """Ask what is due; compare with others what was not answered in time."""
        for outcome in self.summing.take_silent(now.mono_s):
            self._places.left_unanswered(outcome.router)
            topics = [self._known.topics[group] for group in outcome.different if group in self._known.topics]
            if any(outcome.router in topic.neighbours for topic in topics):
                self._known.silent(outcome.router)
            self._elsewhere(outcome, now)
        return list(self.summing.go_on(now))

    def gone(self, router: PublicKey, now: c.Now) -> None:
        """Compare with others what a router was asked that is not connected any more."""
        self._elsewhere(self.summing.gone(router), now)

    def refused(self, tag: str, reason: Reason, now: c.Now) -> None:
        """Compare topics one by one if a router does not know their question, and by sums again if it refused for
        another reason; other tags are of no question, and `TAG` alone is that of an answer."""
        if not tag.startswith(TAG) or tag == TAG:
            return
        router = PublicKey(bytes.fromhex(tag.removeprefix(TAG)))
        if reason is Reason.UNSUPPORTED:
            return self._singly(self.summing.refused(router, is_unknown=True), now.mono_s)
        after_s = self._limits.apart_s if reason is reasons.MEET_FIRST else self._limits.again_s
        for group in self.summing.refused(router, is_unknown=False).different:
            self._plans.name(group, router, now.mono_s, after_s)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _begin(
        self,
        group: PublicKey,
        plan: Plan,
        services: Mapping[PublicKey, PublicKey],
        busy: Container[tuple[PublicKey, PublicKey]],
        now: c.Now,
    ) -> None:
        """Have a topic compared by sums: with the neighbours that are named, and with a random one if it is time."""
        topic = self._known.topics[group]

        def service_of(router: PublicKey) -> PublicKey | None:
            """Return the service of a router with which the topic can be compared so; None if it cannot."""
            if router not in topic.t or (router, group) in busy or not self.summing.takes(router, group):
                return None
            one = topic.neighbours.get(router)
            return services.get(router, None if one is None else one.service)

        for router in plan.due(now.mono_s):
            service = service_of(router)
            if service is not None and router not in plan.singly:
                self._put(group, plan, router, service, now)
        if plan.next_s > now.mono_s:
            return
        found = {router: service_of(router) for router in (*topic.neighbours, *services)}
        partners = {router: service for router, service in found.items() if service is not None}
        if partners:
            nearest = plan.nearest(list(partners), topic.neighbours, services)
            [router] = self._chance.sample(nearest, 1)
            self._put(group, plan, router, partners[router], now)

    def _put(self, group: PublicKey, plan: Plan, router: PublicKey, service: PublicKey, now: c.Now) -> None:
        plan.begin(router, now.mono_s, self._limits.apart_s)
        plan.next_s = max(plan.next_s, now.mono_s + plan.period_s * self._arrivals.spread())
        self._waiting.begun(group, router)
        self.summing.put(router, service, group, now.mono_s)

    def _singly(self, outcome: Outcome, now_s: float) -> None:
        for group in outcome.different:
            self._plans.name_singly(group, outcome.router, now_s)

    def _elsewhere(self, outcome: Outcome, now: c.Now) -> None:
        for group in outcome.different:
            self._plans.cut_off(group, 0, now.mono_s + RETRY_S)
