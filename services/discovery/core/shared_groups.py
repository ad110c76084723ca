"""Groups that this node shares with routers on local networks, found by MEET and MET (R-D20, R-C25).

`Meetings` decides; this file turns its words into messages, and shared groups into a `ShareGroups`. Only routers
nearby are met, and no group is named, so a router that does not know a group learns nothing of it. An agreement
outlasts the nearness: the node's router keeps it for a while, and the next meeting renews it or ends it. It ends at
once when this node is on no local network any more. The routers' keys are kept, so this includes routers met before a
restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from router.core.service.meetings import Cause, Common, Drop, MeetingLimits, Meetings, Say
from router.core.service.meetings import Deed as Decided
from router.core.wire.crypto import PublicKey
from router.core.wire.meeting import Meet, Met
from router.core.wire.reasons import Reason
from router.service import contract as c
from router.service.roles import discovery as d
from services.discovery.core.known import SERVICE, Known
from services.discovery.core.messages import Message, Named, encode_message
from services.discovery.core.refusals import RouterRefusals, notes

KEPT = b"agreed"
KEY_BYTES = 32
AGREED_MAX = 256
"""Most routers whose agreements are kept; the router itself keeps no more."""
TTL_S = 30
AGREED_S = 7200
NOTED_S = 60.0
WAKE_MIN_S = 0.01
"""The shortest wait: a wake that rounding brings a moment early is not repeated at once."""
_RATES = frozenset((Cause.TOO_SOON, Cause.TOO_MANY, Cause.NO_ROOM))


class InCommon:
    """Meets each router nearby about the groups wanted here. It gets each event after the part that knows which routers
    are near."""

    def __init__(self, setup: c.Setup, known: Known) -> None:
        self._known = known
        self._chance = setup.chance
        self._named = Named(setup.node_name if setup.settings.say_name else "")
        kept = setup.kept.get(KEPT, b"")
        self._agreed = known.agreed
        self._agreed.update({PublicKey(kept[at : at + KEY_BYTES]): None for at in range(0, len(kept), KEY_BYTES)})
        self._meetings: Meetings | None = None
        self._near: frozenset[PublicKey] = frozenset()
        self._refusals = RouterRefusals()
        self._note_s = 0.0

    def __repr__(self) -> str:
        return f"<in common: {self._meetings!r}>"

    def hear(self, heard: c.Heard, now: c.Now) -> list[c.Deed]:
        if isinstance(heard, c.Started):
            limits = MeetingLimits(tries_max=None)  # whoever is near may yet answer
            self._meetings = Meetings(heard.router, self._chance.randbytes, now.mono_s, limits)
        if self._meetings is None:
            return []
        deeds: list[c.Deed] = []
        if isinstance(heard, d.Wanted):
            self._meetings.want(heard.group, heard.wanted, now.mono_s)
            deeds.append(d.AckWanted(heard.group, heard.wanted))
        self._look_around(self._meetings, now)
        if not self._known.on_lan:
            deeds += self._end_all()
        return [*deeds, *self._carry_out(self._meetings.tick(now.mono_s), now), *self._later(self._meetings, now)]

    def read(self, message: c.Message, said: Message, now: c.Now) -> list[c.Deed]:
        assert isinstance(said, Meet | Met) and message.source is not None
        router = message.via
        if self._meetings is None or router is None or self._service_of(router) != message.source:
            return [c.Refuse(Reason.NOT_AUTHORISED, "only the discovery services of routers nearby are met")]
        hear = self._meetings.hear_meet if isinstance(said, Meet) else self._meetings.hear_met
        decided = hear(router, message.source, said, now.mono_s)  # type: ignore[arg-type]
        return [*self._carry_out(decided, now), *self._later(self._meetings, now)]

    def _service_of(self, router: PublicKey) -> PublicKey | None:
        near = self._known.nearby.get(router)
        return None if near is None else near.services.get(SERVICE)

    def _look_around(self, meetings: Meetings, now: c.Now) -> None:
        near = frozenset(self._known.nearby)
        for router in self._near - near:
            meetings.forget(router)
        for router in near - self._near:
            service = self._service_of(router)
            if service is not None:
                meetings.meet(router, service, now.mono_s)
        self._near = near

    def _note_agreed(self, router: PublicKey, is_agreed: bool) -> Iterator[c.Deed]:
        """Record whether any groups are agreed on with a router."""
        if (router in self._agreed) == is_agreed:
            return
        if is_agreed:
            self._agreed[router] = None
            for first in list(self._agreed)[:-AGREED_MAX]:
                del self._agreed[first]
        else:
            del self._agreed[router]
        yield c.Put(KEPT, b"".join(self._agreed) or None)

    def _end_all(self) -> Iterator[c.Deed]:
        """End the agreements with all routers."""
        for router in self._agreed:
            yield from (c.AddNeighbour(router), d.ShareGroups(router, (), 0, lan=True))
        if self._agreed:
            self._agreed.clear()
            yield c.Put(KEPT, None)

    def _carry_out(self, decided: Iterable[Decided], now: c.Now) -> Iterator[c.Deed]:
        for one in decided:
            match one:
                case Say(to, via, word):
                    yield c.Send(to, encode_message(word), TTL_S, via=via)
                case Common(router, topics, left_out):
                    groups = tuple(PublicKey(group) for group in sorted(topics))
                    yield d.ShareGroups(router, groups, int(now.wall_s) + AGREED_S, lan=True)
                    yield from self._note_agreed(router, bool(groups))
                    if groups and (service := self._service_of(router)) is not None:
                        yield c.Send(service, encode_message(self._named), TTL_S, via=router)
                    if left_out:
                        yield c.LogEvent("discovery_left_out", fields={"router": router.hex(), "groups": left_out})
                case Drop(by, cause):
                    self._refusals.refuse(by, Reason.RATE_LIMITED if cause in _RATES else Reason.NOT_AUTHORISED)

    def _later(self, meetings: Meetings, now: c.Now) -> Iterator[c.Deed]:
        """Yield once a minute the inputs that were refused, and the time to continue."""
        if now.mono_s >= self._note_s:
            self._note_s = now.mono_s + NOTED_S
            yield from notes(self._refusals)
        if len(meetings):
            yield c.Wake(now.wall_s + max(WAKE_MIN_S, meetings.due_s - now.mono_s))
