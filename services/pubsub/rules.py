"""Publish-subscribe: a message published at any node reaches every subscriber at every node.

The service consists of parts, each with a duty of its own; all of them share `Known` and `Others`.

    Partners       SUB and UNSUB; MEET, MET and GROUPS: the routers with which groups are shared
    Hints          HINT: routers that group links name; on a leaf they are the uplinks' business
    Rings          RINGS: the nodes next to this one in each topic
    Interests      INTERESTS: nodes that may want the same groups
    Dissemination  messages of topics, HAVE: where they are sent, and the missed ones
    Comparing      COMPARE: messages missed in an absence are fetched, and sent on
    FanOut         groups that are wanted only because something is published in them
    Barring        routers that take messages and pass none on lose their place
    Shown          the views of operators
"""

from __future__ import annotations

from router.core.wire.crypto import ID_BYTES, PublicKey
from router.core.wire.meeting import Meet, Met
from router.core.wire.pubsub import is_wanted
from router.core.wire.reasons import Reason
from router.service import contract as c
from router.service.kept_rows import judge
from router.service.parts import Parts, Reader, RulesPart
from router.service.roles import overlay as o
from services.pubsub.core.comparison.comparing import Comparing
from services.pubsub.core.conduct.barring import Barring
from services.pubsub.core.fan_out import FanOut
from services.pubsub.core.kept import FORMS, VERSION
from services.pubsub.core.known import SERVICE, Known
from services.pubsub.core.meetings.hints import Hints
from services.pubsub.core.meetings.interests import Interests
from services.pubsub.core.meetings.partners import Partners
from services.pubsub.core.messages import (
    AskGroups,
    AskInterests,
    AskRings,
    AskSums,
    Compare,
    Compared,
    Have,
    Message,
    TellGroups,
    TellInterests,
    TellRings,
    TellSums,
    decode_message,
)
from services.pubsub.core.others import Others
from services.pubsub.core.rings.overlay import OverlayLimits
from services.pubsub.core.rings.ring_messages import Rings
from services.pubsub.core.sending.dissemination import COPY, Dissemination, may_wait
from services.pubsub.core.sending.forwarding import ForwardingLimits
from services.pubsub.core.shown import Shown
from services.pubsub.settings import Settings

OUTCOMES_GATHER_S = 0.1
"""How far apart cycles are in which it is heard only that copies were taken: a message goes to several routers, which
take it one after the other, and nothing that is decided next waits for that."""


class PubSub:
    """The rules of pub/sub. `known` and `others`: the state that its parts share; `readers`: the part that reads
    messages of each type."""

    def __init__(self, setup: c.Setup) -> None:
        self._first = judge(setup.kept, setup.name, VERSION, FORMS)
        settings: Settings = setup.settings
        is_leaf = self._is_leaf = settings.mode == "leaf"
        self.known, self.others = Known(setup.key), Others()
        limits = None if is_leaf else OverlayLimits(period_s=settings.period_s, fast_s=min(1.0, settings.period_s))
        partners = Partners(setup, self.known, self.others, limits)
        copies = ForwardingLimits(settings.fanout, settings.failover_s, settings.large_bytes)
        dissemination = self._dissemination = Dissemination(setup, self.known, self.others, copies, is_leaf=is_leaf)
        shown = Shown(self.known, self.others)
        self.parts: tuple[RulesPart, ...] = (partners, dissemination, shown)
        self.readers: dict[type[Message], Reader] = dict.fromkeys((Meet, Met, AskGroups, TellGroups), partners)
        self.readers[Have] = dissemination
        comparing = self._comparing = Comparing(setup, self.known, is_leaf=is_leaf)
        barring = self._barring = Barring(self.known, self.others)
        self.parts = (*self.parts, comparing, barring)
        self.readers |= dict.fromkeys((Compare, Compared, AskSums, TellSums), comparing)
        sent = dissemination.forwarding
        self._fan_out = FanOut(settings.fanout_s, sent.untaken_in, lambda: sent.untaken)
        if not is_leaf:
            dissemination.room_of = self._fan_out.room
            self.parts = (*self.parts, self._fan_out)
            rings = Rings(setup, self.known, self.others, partners)
            interests = Interests(setup, self.known, self.others)
            self.parts = (*self.parts, Hints(self.known, self.others), rings, interests)
            self.readers |= {AskRings: rings, TellRings: rings, AskInterests: interests, TellInterests: interests}
        self._parts = Parts(SERVICE, self.parts, self.readers, decode_message)

    def batch_delay_s(self, now: c.Now) -> float:
        """Return for how long after a cycle the routers that take copies are waited for."""
        return OUTCOMES_GATHER_S

    def is_urgent(self, heard: c.Heard, now: c.Now) -> bool:
        """Whether somebody waits for what follows from this, as for all but a copy that was taken and an agreement that
        was made."""
        if isinstance(heard, o.GroupsShared):
            return False
        return not (isinstance(heard, c.HopOutcome) and heard.reason is None and heard.tag.startswith(COPY))

    def hear(self, heard: c.Heard, now: c.Now) -> list[c.Deed]:
        if isinstance(heard, c.Started):
            self.known.router = heard.router
        if isinstance(heard, c.Message) and heard.group is None and is_wanted(heard.body):
            return [c.Refuse(Reason.NOT_AUTHORISED, "only the router of this node says which groups are wanted")]
        if isinstance(heard, o.PulledFrom) and heard.state == "asked":
            return []  # the message comes, or it does not
        deeds, self._first = self._first, []
        deeds += self._parts.hear(heard, now) if self._is_leaf else self._hear_and_fan_out(heard, now)
        if self.known.withholding.is_changed:
            deeds += self._parts.go_on(self._barring, now)
        if self.known.moved:
            deeds += self._tell_moved(now)
        has_partners = self.known.back or self.known.newly_shared
        return [*deeds, *self._parts.go_on(self._comparing, now)] if has_partners else deeds

    def _hear_and_fan_out(self, heard: c.Heard, now: c.Now) -> list[c.Deed]:
        """Pass an event to the parts; a group in which something is published here is wanted from then on for a while,
        though nobody here reads it."""
        fan_out, deeds = self._fan_out, list[c.Deed]()
        match heard:
            case o.Wanted(group, True):
                fan_out.is_read(group)
                self.known.unread.discard(group)
            case o.Wanted(group) if fan_out.stays(group, now.mono_s):
                self.known.unread.add(group)
                deeds += [o.AckWanted(group, False), *self._comparing.since.end(group)]
                return [*deeds, *self._parts.go_on(fan_out, now)]
            case c.Message() | o.Published() if heard.group not in (None, self.known.finder):
                deeds += self._published_here(heard, now)
                if (refused := self._refused(heard)) is not None:
                    return [*deeds, *refused]
        deeds += self._parts.hear(heard, now)
        if isinstance(heard, c.Started):
            deeds += fan_out.tell()
            for group in fan_out.restore(self._dissemination.groups_untaken(), now.mono_s):
                deeds += self._begin(group, now)
        for group in fan_out.take_over():
            self.known.unread.discard(group)
            deeds += self._parts.hear(o.Wanted(group, False), now)
        return [*deeds, *fan_out.tell()]

    def _published_here(self, heard: c.Message | o.Published, now: c.Now) -> list[c.Deed]:
        """Begin with the group of a message that an app or client of this node has published, if nobody here reads it,
        there is room, and the message may wait."""
        group, is_new = heard.group, heard.group not in self.known.topics
        assert group is not None
        if isinstance(heard, c.Message):
            if heard.via is not None and self.known.has_shared(heard.via, group):
                return []  # a copy of another router, perhaps on its way since before the group was left
            if is_new and not may_wait(heard.wire):
                return []
        is_wanted = self._fan_out.published(group, now.mono_s)
        return self._begin(group, now) if is_wanted and is_new else []

    def _refused(self, heard: c.Message | o.Published) -> list[c.Deed] | None:
        """Return the answer to what is published in a group that is not wanted, or of which too much waits already;
        None if there is room."""
        group = heard.group
        assert group is not None
        if isinstance(heard, o.Published):
            if group in self.known.topics:
                return None
            self._dissemination.leave_out(len(heard.ids) // ID_BYTES + heard.left_out)
            return []
        if group not in self.known.topics:
            return [c.Refuse(Reason.NO_SUBSCRIBERS)]
        is_copy = heard.via is not None and heard.via in self.known.topics[group].t
        if is_copy or self._fan_out.room(group) or not may_wait(heard.wire):
            return None
        return [c.Refuse(Reason.NO_SUBSCRIBERS, "as many messages as may wait for a node that reads the group")]

    def _begin(self, group: PublicKey, now: c.Now) -> list[c.Deed]:
        self.known.unread.add(group)
        deeds = self._parts.hear(o.Wanted(group, True), now)
        if group not in self.known.topics:
            self._fan_out.forget(group)
            self.known.unread.discard(group)
        return deeds

    def _tell_moved(self, now: c.Now) -> list[c.Deed]:
        """Be in the groups that are wanted: the router tells ids of what is published here while nobody needs the
        bytes, which a leaf never does."""
        deeds, topics = list[c.Deed](), self.known.topics
        for group in [one for one in self.known.moved if one in topics]:
            is_alone = topics[group].is_alone
            deeds.append(o.TakePart(group, "ids" if self._is_leaf or is_alone else "whole"))
            if not (self._is_leaf or is_alone):
                self._dissemination.hurry(group, now)
        self.known.moved.clear()
        return [*deeds, *self._parts.go_on(self._dissemination, now)]
