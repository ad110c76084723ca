"""Catching up: this node and another compare the messages that they hold of a topic, and each gets those it lacks
(R-C35).

    every `period_s`, at random times   with a random neighbour of each topic in which messages come; else `quiet_s`
    when a topic is wanted              with the first neighbours that are found, since one may have come back just now
    after an absence over `absence_s`   of this node with a neighbour of each topic, of a neighbour with that one
    after any absence of a neighbour    with that one, unless the topic has rested: what was published meanwhile
                                        was not sent to it
    when a neighbour says so            that messages to this node were dropped there
    when a comparison was cut off       with any neighbour, at once

Topics that are due at one moment are compared by sums first (summing.py).

Missing messages are fetched in the order in which the other took them. Those that the other took before the topic was
wanted here are history: they are kept for other nodes, and not given to the apps of this node.

The messages held here are looked up as soon as another router is connected, since that takes longer than to meet it.

Sets are compared, not cursors, so that messages arriving meanwhile hide no gap. The window begins `ahead_min` minutes
ahead on the clock of the node that is further ahead, since messages that expire sooner would arrive too late. What is
asked here is answered in answering.py.
"""

from __future__ import annotations

from itertools import islice
from math import inf

from router.core.wire.crypto import PublicKey
from router.core.wire.reasons import Reason
from router.service import contract as c
from router.service.roles import overlay as o
from services.pubsub import reasons
from services.pubsub.core.comparison.answering import Answering
from services.pubsub.core.comparison.arrival_order import read_ranks
from services.pubsub.core.comparison.arrivals import Arrivals
from services.pubsub.core.comparison.begun import LATE_S, Begun
from services.pubsub.core.comparison.caught_up import Figures, report
from services.pubsub.core.comparison.fetching import Fetch, Fetching
from services.pubsub.core.comparison.giving import TAG as GIVEN
from services.pubsub.core.comparison.giving import Giving
from services.pubsub.core.comparison.held import MINUTES_MAX, Held, minute_at
from services.pubsub.core.comparison.negentropy import Differences, ask, go_on
from services.pubsub.core.comparison.places import Places
from services.pubsub.core.comparison.plan import TAG, CompareLimits, Plan, Plans, Session
from services.pubsub.core.comparison.summing import TAG as SUMS_TAG
from services.pubsub.core.comparison.together import Together
from services.pubsub.core.comparison.waiting import RETRY_S, Waiting
from services.pubsub.core.conduct.clock_steps import ClockSteps
from services.pubsub.core.conduct.judging import Judging
from services.pubsub.core.known import Known, Topic
from services.pubsub.core.messages import AskSums, Compare, Compared, TellSums
from services.pubsub.core.saying import say

TAGS = (TAG, SUMS_TAG)


class Comparing:
    """A part of the service; it records in each topic when it was compared, and which messages nobody had."""

    def __init__(
        self, setup: c.Setup, known: Known, limits: CompareLimits | None = None, *, is_leaf: bool = False
    ) -> None:
        self._chance, self._known = setup.chance, known
        self._limits = limits or CompareLimits()
        self._steps = ClockSteps(setup.kept)
        self.since = Begun(setup.kept, self._steps)
        self._held = Held(scratch=setup.scratch)
        self._answering = Answering(known, self._held, self._steps, self._limits)
        self._fetching, self._giving = Fetching(), Giving()
        self._plans = Plans(known.unread)
        self._waiting = Waiting(self._plans)
        self._judging = Judging(known, self._fetching, self._plans, self._limits)
        self._sessions: dict[tuple[PublicKey, PublicKey], Session] = {}  # by router and group
        self._presence = _Presence(self._limits)
        self._places = Places(self._sessions, self._limits)
        self._figures = Figures(setup.kept)
        self._arrivals = Arrivals(self._plans, self._held, self._figures, setup.chance, self._limits, is_leaf=is_leaf)
        self._together = Together(
            known, self._held, self._plans, self._arrivals, self._waiting, self._places, setup.chance, self._limits
        )
        every, summing = (self._fetching, self._giving, self._held, self._judging), self._together.summing
        self._timed = (*every, self._plans, self._waiting, summing)
        self._of_topics = (*every, self._answering, self._waiting, summing)
        self._early = self._figures.all_missed()  # of groups that are not wanted yet
        self._slept_s, self._begun = inf, 0
        known.is_history, known.is_asked = self._fetching.is_history, self._fetching.is_asked

    def __repr__(self) -> str:
        return f"<comparing: {len(self._sessions)} open, {self._held!r}>"

    def hear(self, heard: c.Heard, now: c.Now) -> list[c.Deed]:
        deeds = self._steps.look(now)
        match heard:
            case c.Message(id=id, group=group) if group is not None:
                found, is_awake = self._arrivals.came(group, now)
                deeds += found
                self._judging.arrived(heard, now)
                was_fetched = self._fetching.arrived(id)
                if not is_awake and not (was_fetched and self._fetching.is_due):
                    return deeds
            case o.HeldPage(group=group):
                deeds += self._held.heard(heard, now)
                if self._held.is_fresh(group, now):
                    deeds += self._now_known(group, now)
            case o.PulledFrom():
                if (fetch := self._fetching.pulled_from(heard, now)) is not None:
                    self._cut_off(fetch, now, self._limits.again_s)
            case c.Pulled():
                deeds += self._giving.pulled(heard)
            case c.Sent(tag, id, refused) if tag.startswith(GIVEN) and refused is not None:
                self._giving.gave(id, PublicKey(bytes.fromhex(tag.removeprefix(GIVEN))), is_taken=False)
            case c.HopOutcome(tag, id, to, reason=reason) if tag.startswith(GIVEN):
                self._giving.gave(id, to, is_taken=reason is None)
            case c.HopOutcome(tag, reason=reason) | c.Sent(tag, refused=reason) if reason and tag.startswith(TAGS):
                self._refused(tag, reason, now)
            case o.Linked(router, service):
                self._linked(router, service, now)
            case o.Dropped(router, group, count):
                deeds.append(self._dropped(router, group, count, now))
            case o.SaidCaughtUp(group, at_s, app):
                return [*deeds, *self._figures.heard(group, at_s, app)]
            case c.Started():
                deeds += self._figures.again(now.wall_s)
            case o.Wanted(group):  # several of one moment are compared together, as the next `Tick` comes at once
                return [*deeds, *self._wanted(group, now), c.Wake(now.wall_s)]
            case c.Tick():
                pass
            case _ if not self._arrivals.was_published(heard, now):
                return deeds
        return [*deeds, *self._go_on(now)]

    def read(self, message: c.Message, said: Compare | Compared | AskSums | TellSums, now: c.Now) -> list[c.Deed]:
        """Handle a frame of a neighbour of the topics that it names."""
        router = message.via
        if isinstance(said, AskSums | TellSums):
            return [*self._together.read(message, said, self._answering, now), *self._go_on(now)]
        topic = None if router is None else self._known.topic(router, said.t)
        if router is None or topic is None:
            return [c.Refuse(reasons.MEET_FIRST)]
        if isinstance(said, Compare):
            return self._answering.asked(message, said, router, topic.group, now)
        session = self._sessions.get((router, topic.group))
        if session is None or session.until_s == inf or message.source != session.service:
            return [c.Refuse(reasons.MEET_FIRST, "nothing was asked to which this could be the answer")]
        return [*self._answered(session, said, now), *self._go_on(now)]

    def _linked(self, router: PublicKey, service: PublicKey | None, now: c.Now) -> None:
        """Record a connected router; compare with a neighbour that is back after an absence."""
        if service is None:
            self._presence.gone(router, now)
            self._together.gone(router, now)
            for session in [one for one in self._sessions.values() if one.router == router]:
                self._end(session, now)
            for fetch in self._fetching.lost(router):
                self._cut_off(fetch, now)
            return
        self._together.summing.linked(router)
        self._waiting.partner_came((topic.group for topic in self._known.shared_with(router)), now.mono_s)
        if self._presence.came(router, service, now):
            for group, plan in self._plans.items():
                if group in self._known.topics and router in self._known.topics[group].t:
                    self._plans.at_once(group, plan, router, now.mono_s, self._limits)

    def _cut_off(self, fetch: Fetch, now: c.Now, after_s: float = RETRY_S) -> None:
        """Have another comparison in place of one whose end is unknown."""
        fetch.is_void = True
        self._plans.cut_off(fetch.group, fetch.came, now.mono_s + after_s)

    def _dropped(self, router: PublicKey, group: PublicKey, count: int, now: c.Now) -> c.Deed:
        plan = self._plans.get(group)
        if plan is not None:
            plan.missed += count
            if group not in self._known.topics or router not in self._presence.partners(self._known.topics[group]):
                plan.next_s = now.mono_s
            self._plans.at_once(group, plan, router, now.mono_s, self._limits)
            return self._figures.missed(group, plan.missed, plan.arrived)
        missed, arrived = self._early.get(group, (0, 0))
        if missed or len(self._early) < self._limits.neighbours_max:
            self._early[group] = missed + count, arrived
        return self._figures.missed(group, *self._early.get(group, (0, 0)))

    def _go_on(self, now: c.Now) -> list[c.Deed]:
        """Do everything that is due, and wake at the next due time."""
        self._look_back(now)
        deeds = self._held.tick(now)
        if self._presence.services:
            deeds += self._held.begin()
        self._fetching.tick(now)
        self._giving.tick(now)
        self._judging.begin_due(now)
        deeds += self._begin_due(now)
        for session in [one for one in self._sessions.values() if one.until_s <= now.mono_s]:
            self._end(session, now, is_silent=True)
        for _ in self._waiting.take_turns(now.mono_s, self._sessions):
            deeds += self._begin_due(now)
        deeds += self._together.go_on(now)
        deeds += self._fetching.go_on(now)
        deeds += self._giving.give_more(now)
        for fetch in (*self._fetching.take_over(), *self._together.take_same()):
            deeds += self._fetched(fetch, now)
        due_s = min([one.until_s for one in self._sessions.values()] + [part.due_s for part in self._timed])
        return deeds if due_s == inf else [*deeds, c.Wake(now.wall_s + max(1.0, due_s - now.mono_s))]

    def _begin_due(self, now: c.Now) -> list[c.Deed]:
        deeds = list[c.Deed]()
        for group, plan in self._together.take_due(self._presence.services, self._sessions, now):
            deeds += self._begin(group, plan, now)
            self._plans.changed(group)
        return deeds

    def _wanted(self, group: PublicKey, now: c.Now) -> list[c.Deed]:
        """Begin with a topic that is wanted, or end one that is not."""
        if (group in self._known.topics) is (group in self._plans):
            return self.since.read(group, now) if self._plans.is_read(group, now.mono_s) else []
        if group in self._plans:
            del self._plans[group]
            for part in self._of_topics:
                part.left(group)
            for place in [place for place in self._sessions if place[1] == group]:
                del self._sessions[place]
            return [*self._figures.left(group), *self.since.end(group)]
        missed, arrived = self._early.pop(group, (0, 0))
        self._plans[group] = Plan(now.mono_s, self._limits.period_s, missed=missed, arrived=arrived)
        self._held.wanted(group)
        return [] if group in self._known.unread else self.since.read(group, now)

    def _look_back(self, now: c.Now) -> None:
        """Compare with neighbours that are back; after a sleep of this machine, compare every topic."""
        if now.slept_s > self._slept_s + self._limits.absence_s:
            self._plans.all_missed(now.mono_s)
        self._slept_s = now.slept_s
        self._plans.back(self._known.back, self._known.lost_s, now.mono_s, self._limits)
        self._known.back.clear()
        self._waiting.partner_came(self._known.newly_shared, now.mono_s)
        self._known.newly_shared.clear()

    def _begin(self, group: PublicKey, plan: Plan, now: c.Now) -> list[c.Deed]:
        """Compare with the named neighbours for which there is room, and with a random one if it is time.

        The others are tried again in their turn. A topic without a partner waits until it
        has one: a node may have thousands of them."""
        topic, deeds = self._known.topics[group], list[c.Deed]()
        partners = self._presence.partners(topic)
        for router in plan.due(now.mono_s):
            is_busy = (router, group) in self._sessions or self._together.summing.is_under_way(router, group)
            may_begin = self._places.has_one if router in plan.singly else self._places.may_begin
            if router not in partners:
                plan.forget(router)
            elif is_busy or not self._fetching.has_room or not may_begin(router, now):
                plan.named[router] = now.mono_s + self._waiting.pause_s
                self._waiting.for_place(group, router)
            else:
                deeds += self._compare(topic, plan, router, partners[router], now)
        if plan.next_s <= now.mono_s:
            free = [one for one in partners if (one, group) not in self._sessions and self._places.has_one(one, now)]
            if not (free and self._fetching.has_room):
                (self._waiting.for_place if partners else self._waiting.for_partner)(group)
                plan.next_s = now.mono_s + (self._waiting.pause_s if partners else self._limits.again_s)
                return deeds
            [router] = self._chance.sample(plan.nearest(free, topic.neighbours, self._presence.services), 1)
            deeds += self._compare(topic, plan, router, partners[router], now)
        return deeds

    def _compare(self, topic: Topic, plan: Plan, router: PublicKey, service: PublicKey, now: c.Now) -> list[c.Deed]:
        group = topic.group
        plan.begin(router, now.mono_s, self._limits.apart_s)
        self._waiting.begun(group, router)
        if plan.next_s <= now.mono_s + self._waiting.pause_s:
            plan.next_s = now.mono_s + plan.period_s * self._arrivals.spread()
        fetch = self._fetching.begin(group, router)
        found = Differences(self._limits.lacking_max, self._judging.watched(router, group, now))
        self._begun += 1
        session = Session(group, self._begun, router, service, topic.t[router], fetch, found)
        self._sessions[router, group] = session
        return self._held.refresh(group) if not self._held.is_fresh(group, now) else self._ask(session, now)

    def _ask(self, session: Session, now: c.Now) -> list[c.Deed]:
        """Send the first frame."""
        session.lo = minute_at(now.wall_s) + 1 + self._limits.ahead_min
        view = self._held.view(session.group, session.lo, session.hi)
        session.lo = view.lo
        return self._say(session, ask(view), now)

    def _say(self, session: Session, frame: bytes, now: c.Now) -> list[c.Deed]:
        session.rounds += 1
        self._places.asked(session.router, frame, now)
        session.asked_s, session.until_s = now.mono_s, now.mono_s + self._limits.answer_s
        age_s = self.since.age_s(session.group, now)
        said = Compare(session.t, session.lo, min(session.hi, MINUTES_MAX - 1), frame, age_s)
        return [say(session.service, said, session.router, f"{TAG} {session.number}")]

    def _answered(self, session: Session, said: Compared, now: c.Now) -> list[c.Deed]:
        """Handle an answer: send the next frame, or end. The answerer may narrow the window."""
        session.lo, session.hi = max(session.lo, said.lo), min(session.hi, said.hi)
        session.until_s = inf
        self._places.answered(session.router)
        view = self._held.view(session.group, session.lo, session.hi)
        before = len(session.found.need)
        try:
            frame = go_on(view, said.m, session.found, ranks=read_ranks(said.order))
        except ValueError as error:
            self._end(session, now, is_silent=True)
            return [c.Refuse(reasons.NOT_COMPARED, str(error))]
        if now.mono_s - session.asked_s <= LATE_S:
            session.fetch.old = said.old
        session.fetch.add(dict(islice(session.found.need.items(), before, None)))
        if frame and session.rounds < self._limits.rounds_max and session.lo < session.hi:
            return self._say(session, frame, now)
        if not session.found.is_cut:  # else nobody knows here which came first, and the other asks for them itself
            ours = sorted(session.found.have, key=view.ids.rank)[: self._limits.have_max]
            self._giving.give(session.group, session.router, ours, now)
        if not frame:
            self._judging.compared(session, view, now)
            self._arrivals.compared(session, now)
        self._end(session, now)
        return []

    def _end(self, session: Session, now: c.Now, *, is_silent: bool = False) -> None:
        """End a comparison; the missing messages it found are still fetched. A silent neighbour is tried again soon."""
        del self._sessions[session.router, session.group]
        session.fetch.close()
        self._waiting.freed()
        plan = self._plans.get(session.group)
        if is_silent:
            self._places.left_unanswered(session.router)
        if is_silent and plan is not None:
            topic = self._known.topics[session.group]
            if session.router in topic.neighbours:
                self._known.silent(session.router)
            self._cut_off(session.fetch, now, self._limits.again_s if topic.is_alone else RETRY_S)

    def _refused(self, tag: str, reason: Reason, now: c.Now) -> None:
        """End a comparison whose frame was refused, and try again; this does not show that the neighbour is gone."""
        session = next((one for one in self._sessions.values() if tag == f"{TAG} {one.number}"), None)
        if session is None:
            return self._together.refused(tag, reason, now)
        self._end(session, now)
        session.fetch.is_void = True
        after_s = self._limits.apart_s if reason is reasons.MEET_FIRST else self._limits.again_s
        self._plans.name(session.group, session.router, now.mono_s, after_s)

    def _fetched(self, fetch: Fetch, now: c.Now) -> list[c.Deed]:
        """Report the result of a comparison if an app waits for it, or something was missing."""
        plan = self._plans.get(fetch.group)
        if plan is None or fetch.is_void:
            return []
        self._judging.fetched(fetch)
        return report(fetch, plan, self._known.topics[fetch.group], self._figures, self._limits, now)

    def _now_known(self, group: PublicKey, now: c.Now) -> list[c.Deed]:
        """Answer and ask as soon as the messages held of a topic are known."""
        deeds = self._answering.now_known(group, now)
        for session in [one for one in self._sessions.values() if one.group == group and not one.rounds]:
            deeds += self._ask(session, now)
        return deeds


class _Presence:
    """The routers that are connected, and since when others are not, of which at most `neighbours_max` are known.
    `services`: the pub/sub services of connected routers."""

    def __init__(self, limits: CompareLimits) -> None:
        self.services: dict[PublicKey, PublicKey] = {}
        self._away_s: dict[PublicKey, float] = {}
        self._limits = limits

    def partners(self, topic: Topic) -> dict[PublicKey, PublicKey]:
        """Return the routers with which a topic can be compared, and their services.

        These are neighbours on the ring and, above all on a leaf, connected routers."""
        found = {router: one.service for router, one in topic.neighbours.items()} | self.services
        return {router: service for router, service in found.items() if router in topic.t}

    def gone(self, router: PublicKey, now: c.Now) -> None:
        if self.services.pop(router, None) is not None:
            if len(self._away_s) >= self._limits.neighbours_max:
                del self._away_s[next(iter(self._away_s))]
            self._away_s[router] = now.mono_s

    def came(self, router: PublicKey, service: PublicKey, now: c.Now) -> bool:
        """Record a connected router; return whether it is new or was away for over `absence_s`."""
        self.services[router] = service
        since_s = self._away_s.pop(router, None)
        return since_s is None or now.mono_s - since_s > self._limits.absence_s
