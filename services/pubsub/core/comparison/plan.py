"""The plan of a topic's comparisons: when, with which neighbours first, and how often at most (R-C35)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from collections.abc import Set as AbstractSet
from math import inf

from msgspec import Struct, field

from router.core.link.allowance import Allowance
from router.core.wire.crypto import PublicKey
from services.pubsub.core.comparison.due_topics import DueTopics
from services.pubsub.core.comparison.fetching import Fetch
from services.pubsub.core.comparison.held import MINUTES_MAX
from services.pubsub.core.comparison.negentropy import Differences, count_ranges

GATHERED_S = 60.0
"""Seconds until topics are compared again before their time because others are due."""
TAG = "compared"
"""The tag of messages whose end is not logged for the operator: a neighbour that is away is noticed by its silence."""


class CompareLimits(Struct, frozen=True):
    """Times and bounds of comparisons.

    `period_s`: between two of a topic; up to `period_s_max` while they find nothing new; `quiet_s`: after one that
    found both sides equal, if no message of the topic has come for `quiet_after_s`, and until one comes; `apart_s`: at
    least between two of a topic with one neighbour, however often it goes and comes; with one neighbour at most
    `begins_burst` begin at once for that, and `begins_per_s` later. A message that came up to
    `before_lost_s` before a neighbour was lost may not have reached it. `answer_s`: until a neighbour counts as silent;
    it is asked again after `again_s`, and a partner looked for where there was none. `rounds_max`: frames of one
    comparison; `have_max`: messages that are sent on after one, the earliest first, unless the other lacks more than
    `lacking_max`.
    `sessions_max`: comparisons at once, `of_router_max` of them with one neighbour, and one with a neighbour that left
    the last question unanswered. `waiting_max`: questions of others that wait until the held messages are known,
    `waiting_of_router_max` of them of one neighbour. A neighbour may ask `frames_burst` times at once, and
    `frames_per_s` later, of which this node uses `frames_share`; this is counted for at most `neighbours_max`. A frame
    counts once more for each `ranges_of_frame` ranges, since these are what answering costs."""

    period_s: float = 300.0
    period_s_max: float = 3600.0
    quiet_s: float = 4 * 3600.0
    quiet_after_s: float = 1800.0
    apart_s: float = 5.0
    absence_s: float = 30.0
    before_lost_s: float = 300.0
    ahead_min: int = 2
    answer_s: float = 20.0
    again_s: float = 30.0
    rounds_max: int = 64
    have_max: int = 1_000
    lacking_max: int = 20_000
    sessions_max: int = 16
    of_router_max: int = 8
    begins_per_s: float = 1.0
    begins_burst: float = 32.0
    waiting_max: int = 64
    waiting_of_router_max: int = 16
    frames_per_s: float = 16.0
    frames_burst: float = 320.0
    frames_share: float = 0.8
    ranges_of_frame: int = 256
    neighbours_max: int = 1_000


class Plan(Struct):
    """A topic's comparisons: the time of the next one with a random neighbour, and what must be reported afterwards.

    `is_urgent`: messages are probably missing, so the next one is with a router that is connected. `is_equal`: the last
    one found both sides equal, and no message has come since; `is_quiet`: so it rests. `heard_s`: when the last message
    came.
    `missed`: messages of it that neighbours have dropped instead of bringing them here; `arrived`: how many have come
    since, whoever brought them; `came`: news that comparisons brought whose end is unknown. `named`: the neighbours
    with which it is compared as soon as possible, each with the earliest second for it, and `singly` those of them with
    which it is not compared by sums; `begun_s`: the last time with each. Seconds are monotonic."""

    next_s: float
    period_s: float
    is_awaited: bool = True
    is_urgent: bool = True
    is_equal: bool = False
    is_quiet: bool = False
    heard_s: float = -inf
    missed: int = 0
    arrived: int = 0
    came: int = 0
    named: dict[PublicKey, float] = field(default_factory=dict)
    singly: set[PublicKey] = field(default_factory=set)
    begun_s: dict[PublicKey, float] = field(default_factory=dict)

    def name(self, router: PublicKey, now_s: float, apart_s: float) -> None:
        """Plan a comparison with this neighbour, at least `apart_s` after the last one."""
        self.named[router] = max(now_s, self.begun_s.get(router, -inf) + apart_s)

    def forget(self, router: PublicKey) -> None:
        """Plan no comparison with this neighbour any more."""
        self.named.pop(router, None)
        self.singly.discard(router)

    def begin(self, router: PublicKey, now_s: float, apart_s: float) -> None:
        """Record that a comparison with this neighbour begins."""
        self.forget(router)
        self.is_urgent = False
        self.begun_s = {one: at_s for one, at_s in self.begun_s.items() if at_s > now_s - apart_s}
        self.begun_s[router] = now_s

    def nearest(
        self, free: Sequence[PublicKey], neighbours: Container[PublicKey], linked: Container[PublicKey]
    ) -> Sequence[PublicKey]:
        """Return the partners to choose from: neighbours on the ring, as a leaf has missed what this node has missed;
        if it is urgent, those that are connected."""
        near = [one for one in free if one in neighbours] or free
        return [one for one in near if self.is_urgent and one in linked] or near

    def cut_off(self, came: int, at_s: float) -> None:
        """Plan a comparison in place of one that brought so many news, and whose end is unknown."""
        self.came += came
        self.next_s, self.is_urgent = min(self.next_s, at_s), True

    def rest(self, at_s: float) -> None:
        """Plan the next one with a random neighbour no sooner than that, unless a message comes: a neighbour that gets
        one compares then, and brings it here."""
        self.is_quiet, self.next_s = True, max(self.next_s, at_s)

    def put_off(self, now_s: float) -> None:
        """Plan no comparison before a period is over."""
        self.named.clear()
        self.singly.clear()
        self.next_s = now_s + self.period_s

    def report(self) -> None:
        """Record that the apps are told: what is missed from now on counts anew."""
        self.is_awaited, self.missed, self.arrived, self.came = False, 0, 0, 0

    @property
    def due_s(self) -> float:
        """Return the second at which the next comparison may begin."""
        return min((self.next_s, *self.named.values()))

    def due(self, now_s: float) -> list[PublicKey]:
        """Return the named neighbours whose time has come."""
        return [one for one, at_s in self.named.items() if at_s <= now_s]


class Plans(dict[PublicKey, Plan]):
    """The plans of all topics, and which of them are due; call `changed` after a change of one.

    Of the topics in `unread`, which nobody here reads, none is compared: nobody here has missed anything."""

    def __init__(self, unread: AbstractSet[PublicKey] = frozenset()) -> None:
        self._due = DueTopics()
        self._unread = unread
        self._put_off: set[PublicKey] = set()
        self._gathered_s = -inf

    def __setitem__(self, group: PublicKey, plan: Plan) -> None:
        super().__setitem__(group, plan)
        self.changed(group)

    def __delitem__(self, group: PublicKey) -> None:
        super().__delitem__(group)
        self._put_off.discard(group)
        self._due.end(group)

    @property
    def due_s(self) -> float:
        """Return the second at which the next comparison may begin."""
        return self._due.due_s

    def changed(self, group: PublicKey) -> None:
        """Look anew when a plan is due."""
        self._due.put(group, self[group].due_s)

    def take_due(self, now_s: float, together_min: int) -> list[tuple[PublicKey, Plan]]:
        """Return the plans that are due; the caller changes each, and calls `changed` then.

        With one of a topic of which both sides were equal come the others alike, since one question is enough for all,
        if there are at least `together_min`."""
        due = self._due.take(now_s)
        for group in self._unread & set(due):
            self._put_off.add(group)
            self[group].put_off(now_s)
            self.changed(group)
        found = [(group, self[group]) for group in due if group not in self._unread]
        kinds = {plan.is_quiet for _, plan in found if plan.is_equal and plan.next_s <= now_s}
        if not kinds or now_s < self._gathered_s + GATHERED_S:
            return found
        more = [(group, plan) for group, plan in self.items() if plan.is_equal and plan.is_quiet in kinds]
        more = [one for one in more if one[1].next_s > now_s and one[0] not in self._unread]
        if len(found) + len(more) < together_min:
            return found
        self._gathered_s = now_s
        for _, plan in more:
            plan.next_s = now_s
        return [*found, *more]

    def is_read(self, group: PublicKey, now_s: float) -> bool:
        """Whether a topic is read here; one that was put off, because nobody here read it, is compared at once then."""
        is_read = group in self and group not in self._unread
        if is_read and group in self._put_off:
            self._put_off.discard(group)
            self.hurry(group, now_s)
        return is_read

    def name(self, group: PublicKey, router: PublicKey, now_s: float, apart_s: float) -> None:
        """Plan a comparison of a topic with this neighbour, if it has a plan; see `Plan.name`."""
        if group in self:
            self[group].name(router, now_s, apart_s)
            self.changed(group)

    def back(
        self,
        places: Iterable[tuple[PublicKey, PublicKey]],
        lost_s: dict[PublicKey, float],
        now_s: float,
        limits: CompareLimits,
    ) -> None:
        """Plan comparisons of topics with neighbours that are live again, except where there can be nothing that they
        lack: both sides of the last comparison were equal, and no message has come since shortly before the neighbour
        was lost. `places`: groups and routers; `lost_s`: the seconds at which they were lost, which are forgotten."""
        found = list(places)
        for group, router in found:
            plan = self.get(group)
            heard_before_s = lost_s.get(router, -inf) - limits.before_lost_s
            if plan is not None and not (plan.is_equal and plan.heard_s < heard_before_s):
                self.name(group, router, now_s, limits.apart_s)
        for router in {router for _, router in found}:
            lost_s.pop(router, None)

    def name_singly(self, group: PublicKey, router: PublicKey, at_s: float) -> None:
        """Plan a comparison with this neighbour at that second, not by sums, if the topic has a plan."""
        if (plan := self.get(group)) is not None:
            plan.named[router] = at_s
            plan.singly.add(router)
            self.changed(group)

    def equal(self, group: PublicKey) -> None:
        """Record that both sides were equal, until a message comes."""
        if (plan := self.get(group)) is not None:
            plan.is_equal = True

    def at_once(self, group: PublicKey, plan: Plan, router: PublicKey, now_s: float, limits: CompareLimits) -> None:
        """Plan a comparison with this neighbour for which an app waits."""
        plan.is_awaited, plan.period_s = True, limits.period_s
        self.name(group, router, now_s, limits.apart_s)

    def cut_off(self, group: PublicKey, came: int, at_s: float) -> None:
        """Plan a comparison in place of one that was cut off, if the topic has a plan; see `Plan.cut_off`."""
        if group in self:
            self[group].cut_off(came, at_s)
            self.changed(group)

    def hurry(self, group: PublicKey, now_s: float, router: PublicKey | None = None) -> None:
        """Compare a topic now, if it has a plan: with this neighbour, if it is named, or with any."""
        if (plan := self.get(group)) is None:
            return
        if router is None:
            plan.next_s = min(plan.next_s, now_s)
        elif router in plan.named:
            plan.named[router] = min(plan.named[router], now_s)
        self.changed(group)

    def wake(self, group: PublicKey, at_s: float) -> None:
        """Compare a topic at that second that rested, since a message of it came."""
        plan = self[group]
        plan.is_quiet, plan.next_s = False, min(plan.next_s, at_s)
        self.changed(group)

    def rest(self, group: PublicKey, heard_before_s: float, at_s: float) -> None:
        """Let a topic rest until that second, if no message of it came after the other one, and none is missed."""
        plan = self.get(group)
        if plan is not None and plan.heard_s < heard_before_s and not (plan.is_urgent or plan.missed):
            plan.rest(at_s)
            self.changed(group)

    def all_missed(self, now_s: float) -> None:
        """Compare every topic now, since this node may have missed messages of any."""
        for group, plan in self.items():
            plan.next_s, plan.is_awaited, plan.is_urgent = now_s, True, True
            self.changed(group)


class Session(Struct, eq=False):
    """A comparison that this node began with a neighbour. `until_s`: when the answer counts as lost; infinity: no
    question was sent yet, because the messages held here are being looked up. `asked_s`: when the last frame was sent.
    """

    group: PublicKey
    number: int
    router: PublicKey
    service: PublicKey
    t: bytes
    fetch: Fetch
    found: Differences
    lo: int = 0
    hi: int = MINUTES_MAX
    rounds: int = 0
    asked_s: float = 0.0
    until_s: float = inf


def allowance_of(
    of: dict[PublicKey, Allowance], router: PublicKey, per_s: float, burst: float, limits: CompareLimits
) -> Allowance:
    """Return the allowance of a neighbour; if there are too many, all begin anew."""
    if (found := of.get(router)) is None:
        if len(of) >= limits.neighbours_max:
            of.clear()
        found = of[router] = Allowance(per_s, burst)
    return found


def cost_of(frame: bytes, limits: CompareLimits) -> int:
    """Return how many frames this one counts for."""
    return 1 + count_ranges(frame) // limits.ranges_of_frame
