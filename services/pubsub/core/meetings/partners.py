"""The groups wanted here, and the routers with which they are shared, found by MEET, MET and GROUPS (R-D20, R-C27).

`Meetings` decides; here its words become messages, and shared groups become a `ShareGroups` and a place on the rings. A
router that does not know a group learns nothing of it. Routers whose pub/sub service is not public, as those of leaves,
are met as well, but are on no ring.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import takewhile
from math import inf

from router.core.service.meetings import Cause, Common, Drop, GoOn, LetGo, MeetingLimits, Meetings, Say
from router.core.service.meetings import Deed as Decided
from router.core.wire.advert import ADVERTISEMENT_BYTES_MAX, decode_advertisement
from router.core.wire.crypto import PublicKey
from router.core.wire.meeting import Meet, Met
from router.core.wire.reasons import Reason
from router.service import contract as c
from router.service.roles import overlay as o
from services.pubsub.core.conduct.refusals import Refusals
from services.pubsub.core.known import Known, Topic
from services.pubsub.core.meetings.agreeing import Agreed, Agreeing, SayGroups, Unused
from services.pubsub.core.meetings.agreeing import Deed as AgreeingDeed
from services.pubsub.core.meetings.told_groups import ToldGroups
from services.pubsub.core.messages import AskGroups, TellGroups
from services.pubsub.core.others import Others
from services.pubsub.core.rings.overlay import Overlay, OverlayLimits
from services.pubsub.core.saying import say
from services.pubsub.reasons import LIMIT

TOPICS_MAX = 16_384
SHARED_MAX = 8_192
"""Number of groups that are agreed on with one partner."""
PARTNERS_KEPT_MAX = 50
FORGET_S = 600.0
"""Seconds for which a router stays known once no group is shared with it any more: after a restart, its apps or those
of this node may not have come back yet."""
FORGOTTEN_MAX = 256
"""Number of routers that are still known so; beyond it the oldest are forgotten at once."""
LET_GO_S = 30.0
"""Seconds for which a router that was let go is still answered, so that it finds others of the group."""
LET_GO_MAX = 2_048
"""Number of such routers; beyond it the oldest are answered no more."""
AGAIN_S = 60.0
"""Seconds after which a connected router whose pub/sub service has not answered is met again; a leaf also meets one
that fell silent, as its service may have started again. On a core the rings find that out."""
WAKE_MIN_S = 0.01
"""The shortest wait: a wake that rounding brings a moment early is not repeated at once."""
KEPT = b"partner/"
TAG = "partner"
"""The tag of messages whose end is not logged for the operator: a partner that is away is noticed by its silence."""
_RATES = frozenset((Cause.TOO_SOON, Cause.TOO_MANY, Cause.NO_ROOM))


class Partners:
    """Records which groups are wanted, and meets routers about them. `limits`: those of the rings, None on a leaf."""

    def __init__(self, setup: c.Setup, known: Known, others: Others, limits: OverlayLimits | None) -> None:
        self._known = known
        self._others = others
        self._limits = limits
        self._kept = setup.kept
        self._chance = setup.chance
        self._refusals = Refusals()
        self._meetings: Meetings | None = None
        self._agreeing = Agreeing(
            lambda: () if self._meetings is None else self._meetings.wanted, setup.chance.randbytes
        )
        self._look_s = inf  # when routers that are connected and have not answered are met again
        self._told = ToldGroups(self._agreed_with, setup.chance.random)
        self._forget_s: dict[PublicKey, float] = {}  # when a router is forgotten with which a group was shared

    def __repr__(self) -> str:
        return f"<partners: {self._meetings!r}>"

    def hear(self, heard: c.Heard, now: c.Now) -> list[c.Deed]:
        if isinstance(heard, c.Started):
            return [*self._start(heard.router, now), *self._go_on(now)]
        if self._meetings is None:
            return []
        match heard:
            case o.Wanted(group, wanted):
                deeds = list(self._begin(group, now) if wanted else self._end(group, now))
            case o.Linked(router, service):
                deeds = list(self._linked(router, service, now))
            case o.NeighbourUnreachable(router):
                deeds = list(self._unreached(router, now))
            case o.GroupsShared():
                self._told.heard(heard, now)
                deeds = []
            case c.Tick():
                deeds = []
            case _:
                return []
        return [*deeds, *self._go_on(now)]

    def read(self, message: c.Message, said: Meet | Met | AskGroups | TellGroups, now: c.Now) -> list[c.Deed]:
        """Return what follows from a word of a meeting; only the service that a router names speaks for that router."""
        router, service = message.via, message.source
        if self._meetings is None or router is None or service is None:
            return [c.Refuse(Reason.NOT_AUTHORISED, "only services of other routers are met")]
        if self._others.service_of(router) not in (None, service):
            return [c.Refuse(Reason.NOT_AUTHORISED, "only the pub/sub service that a router names speaks for it")]
        match said:
            case Meet():
                deeds = self._carry_out(self._meetings.hear_meet(router, service, said, now.mono_s), now)
            case Met():
                deeds = self._carry_out(self._meetings.hear_met(router, service, said, now.mono_s), now)
            case AskGroups():
                deeds = self._say_groups(self._agreeing.hear_question(router, said, now.mono_s), now)
            case TellGroups():
                deeds = self._say_groups(self._agreeing.hear_answer(router, said, now.mono_s), now)
        return [*deeds, *self._go_on(now)]

    @property
    def due_s(self) -> float:
        """Return the second at which a meeting continues; a part that calls `meet` wakes it."""
        if self._meetings is None:
            return inf
        let_go_s = next(iter(self._known.let_go.values()), inf)
        forget_s = min(self._forget_s.values(), default=inf)
        others_s = min(self._agreeing.due_s, self._told.due_s)
        return min(self._meetings.due_s, others_s, self._look_s, let_go_s, forget_s)

    def meet(self, router: PublicKey, now: c.Now, *, is_back: bool = False) -> Iterator[c.Deed]:
        """Begin a meeting with a router whose pub/sub service is known; it is made known to our router first."""
        service = self._others.service_of(router)
        if self._meetings is None or service is None or router == self._known.router:
            return
        yield from self._others.learn(router, now)
        if not self._meetings.meet(router, service, now.mono_s, is_back=is_back) and self._others.overlay is not None:
            self._others.overlay.absent(router, now.mono_s)
        yield from self.tick(now)

    def keep(self, router: PublicKey) -> Iterator[c.Deed]:
        """Keep the advertisement of a partner, if it is known and there is room, so that a node that starts again knows
        whom to meet."""
        row, advert = KEPT + router, self._others.adverts.newest(router)
        if advert is None or self._kept.get(row) == advert.message:
            return
        if row in self._kept or self._has_room():
            yield c.Put(row, advert.message)

    # -- what happens here -------------------------------------------------------------------------------------------

    def _start(self, router: PublicKey, now: c.Now) -> Iterator[c.Deed]:
        limits = MeetingLimits(groups_max=SHARED_MAX, by_ranges=True)
        self._meetings = Meetings(router, self._chance.randbytes, now.mono_s, limits, self._may_go)
        if self._limits is not None:
            self._others.overlay = Overlay(self._known, router, self._chance, self._limits)
        for _, row in c.kept_under(self._kept, KEPT):
            advert = decode_advertisement(row, ADVERTISEMENT_BYTES_MAX)
            self._others.adverts.remember(advert)
            yield from self.meet(advert.router, now)

    def _begin(self, group: PublicKey, now: c.Now) -> Iterator[c.Deed]:
        known, overlay = self._known, self._others.overlay
        if group not in known.topics:
            if len(known.topics) >= TOPICS_MAX:
                yield c.LogEvent("pubsub_refused", None, LIMIT, {"group": group.hex(), "topics": TOPICS_MAX})
                yield o.AckWanted(group, True, success=False)
                return
            known.topics[group] = Topic(group, known.back, known.moved)
            if overlay is not None:
                overlay.begin(group)
            assert self._meetings is not None
            self._meetings.want(group, True, now.mono_s)
        known.moved.add(group)

    def _end(self, group: PublicKey, now: c.Now) -> Iterator[c.Deed]:
        assert self._meetings is not None
        self._meetings.want(group, False, now.mono_s)
        for router in self._known.topics[group].t if group in self._known.topics else ():
            self._told.changed(router)  # with the next meeting the group is taken back from it
        if self._others.overlay is not None:
            self._others.overlay.end(group)
        self._known.end(group)
        yield o.TakePart(group, "none")

    # -- links -------------------------------------------------------------------------------------------------------

    def _linked(self, router: PublicKey, service: PublicKey | None, now: c.Now) -> Iterator[c.Deed]:
        """Meet a router that is connected again, as its groups may have changed; mark a router that is gone as silent,
        so that it is asked at once."""
        self._told.changed(router)  # what was agreed with it may have ended with the link
        if service is None:
            self._others.linked.pop(router, None)
            self._known.silent(router)
            return
        self._others.linked[router] = service
        yield from self.meet(router, now, is_back=True)
        self._show(router, now)

    def _unreached(self, router: PublicKey, now: c.Now) -> Iterator[c.Deed]:
        if self._others.overlay is not None:
            self._others.overlay.absent(router, now.mono_s)
        assert self._meetings is not None
        if not self._meetings.shared_with(router) and router not in self._forget_s:
            self._meetings.forget(router)
            yield c.AddNeighbour(router)
            self._meet_later(router, now)

    def _meet_later(self, router: PublicKey, now: c.Now) -> None:
        """Let a partner of before the start be met again after a rest: each of two that start at about the same time
        may find the other one down."""
        overlay, neighbour = self._others.overlay, self._others.neighbour(router)
        if overlay is not None and neighbour is not None and KEPT + router in self._kept:
            overlay.lost(neighbour, now.mono_s)

    # -- meetings ----------------------------------------------------------------------------------------------------

    def _carry_out(self, decided: Iterable[Decided], now: c.Now) -> Iterator[c.Deed]:
        for one in decided:
            match one:
                case Say(to, via, word):
                    yield say(to, word, via, TAG)
                case Common(router, topics, left_out):
                    yield from self._shared(router, {PublicKey(group): t for group, t in topics.items()}, left_out, now)
                case GoOn():
                    yield from self._say_groups(self._agreeing.begin(one, now.mono_s), now)
                case LetGo(router):
                    yield from self._let_go(router, now)
                case Drop(by, cause):
                    self._refusals.count(by, Reason.RATE_LIMITED if cause in _RATES else Reason.NOT_AUTHORISED)

    def _say_groups(self, decided: Iterable[AgreeingDeed], now: c.Now) -> Iterator[c.Deed]:
        assert self._meetings is not None
        for one in decided:
            match one:
                case SayGroups(to, via, word):
                    yield say(to, word, via, TAG)
                case Agreed(router, meeting, groups, is_whole):
                    found = self._meetings.agreed(router, meeting, groups, now.mono_s, is_whole=is_whole)
                    yield from self._carry_out(found, now)
                case Unused(by, reason):
                    self._refusals.count(by, reason)

    def _shared(self, router: PublicKey, topics: dict[PublicKey, bytes], left_out: int, now: c.Now) -> Iterator[c.Deed]:
        before = frozenset(self._known.groups_shared_with(router))
        was_shared = bool(self._known.shared_with(router)) or KEPT + router in self._kept
        self._known.share(router, topics)
        self._known.let_go.pop(router, None)
        if before != topics.keys():
            self._told.changed(router)
        yield from self._told.met(router, now)
        if left_out:
            yield c.LogEvent("pubsub_left_out", fields={"router": router.hex(), "groups": left_out})
        self._show(router, now)
        if topics:
            self._forget_s.pop(router, None)
            yield from self.keep(router)
        elif was_shared:
            yield from self._forget_later(router, now)
        else:
            yield c.AddNeighbour(router)

    def _agreed_with(self, router: PublicKey) -> Collection[PublicKey]:
        """Return the groups on which our router is to agree with another one."""
        return () if router in self._known.let_go else [one.group for one in self._known.shared_with(router)]

    def _may_go(self, router: PublicKey) -> bool:
        """Whether a router need not be met on, as it stands on no ring with this node; on a leaf none goes."""
        return self._others.overlay is not None and not self._others.overlay.stands_with(router)

    def _let_go(self, router: PublicKey, now: c.Now) -> Iterator[c.Deed]:
        """Agree on nothing more with a router whose place another one needs, and answer it for a while."""
        let_go = self._known.let_go
        self._told.changed(router)
        yield o.ShareGroups(router, (), 0)
        while len(let_go) >= LET_GO_MAX:
            yield from self._part(next(iter(let_go)))
        let_go.pop(router, None)
        let_go[router] = now.mono_s + LET_GO_S

    def _part(self, router: PublicKey) -> Iterator[c.Deed]:
        """Forget a router that was let go."""
        del self._known.let_go[router]
        self._known.share(router, {})
        yield from self._forget(router)

    def _forget_later(self, router: PublicKey, now: c.Now) -> Iterator[c.Deed]:
        """Let a router with which nothing is shared any more stay known for a while, with its kept advertisement."""
        while len(self._forget_s) >= FORGOTTEN_MAX:
            yield from self._forget(next(iter(self._forget_s)))
        self._forget_s.setdefault(router, now.mono_s + FORGET_S)

    def _forget(self, router: PublicKey) -> Iterator[c.Deed]:
        self._forget_s.pop(router, None)
        yield c.AddNeighbour(router)
        if KEPT + router in self._kept:
            yield c.Put(KEPT + router, None)

    def _show(self, router: PublicKey, now: c.Now) -> None:
        """Give a router its places on the rings; on a leaf, show the routers with which a group is shared."""
        overlay, neighbour = self._others.overlay, self._others.neighbour(router)
        if overlay is not None:
            if neighbour is not None:
                overlay.met(neighbour, now.mono_s)
            return
        self._known.fell_silent.discard(router)
        for topic in self._known.topics.values():
            members = map(self._others.neighbour, topic.t)
            live = tuple([one for one in members if one is not None and one.router in self._others.linked])
            topic.show((), (), live)

    def _has_room(self) -> bool:
        return len(c.kept_under(self._kept, KEPT)) < PARTNERS_KEPT_MAX

    def tick(self, now: c.Now) -> Iterator[c.Deed]:
        """Yield the deeds that are due, and the refusals of the last minute."""
        meetings = self._meetings
        assert meetings is not None
        for router in [one for one, at_s in self._forget_s.items() if at_s <= now.mono_s]:
            yield from self._forget(router)
        over = list(takewhile(lambda one: self._known.let_go[one] <= now.mono_s, self._known.let_go))
        for router in over:
            yield from self._part(router)
        linked, is_leaf = self._others.linked, self._others.overlay is None
        if now.mono_s >= self._look_s:
            for router, service in linked.items():
                if router not in meetings or (is_leaf and router in self._known.fell_silent):
                    meetings.meet(router, service, now.mono_s)
        yield from self._carry_out(meetings.tick(now.mono_s), now)
        yield from self._say_groups(self._agreeing.tick(now.mono_s), now)
        yield from self._told.tick(now)
        if not linked or (not is_leaf and all(router in meetings for router in linked)):
            self._look_s = inf
        elif self._look_s <= now.mono_s or self._look_s == inf:
            self._look_s = now.mono_s + AGAIN_S
        yield from self._refusals.take(now)

    def _go_on(self, now: c.Now) -> Iterator[c.Deed]:
        yield from self.tick(now)
        if self.due_s < inf:
            yield c.Wake(now.wall_s + max(WAKE_MIN_S, self.due_s - now.mono_s))
