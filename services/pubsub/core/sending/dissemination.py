"""Dissemination: messages of topics are sent on to other nodes, and missed ones are asked for.

`Forwarding`, `Announcing` and `Repair` decide; this part passes the service's events to them, and carries out their
deeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import inf
from typing import Any, cast

from router.core.wire.crypto import ID_BYTES, MessageId, PublicKey
from router.core.wire.lifetime import expiry_s
from router.core.wire.message import read_header
from router.core.wire.reasons import Reason
from router.service import contract as c
from router.service.roles import overlay as o
from services.pubsub.core.comparison.id_set import key_of
from services.pubsub.core.known import Known
from services.pubsub.core.messages import Have
from services.pubsub.core.minute_notes import MinuteNotes
from services.pubsub.core.others import Others
from services.pubsub.core.sending import forwarding as f
from services.pubsub.core.sending import repair as r
from services.pubsub.core.sending.announcing import Announcing
from services.pubsub.core.sending.own_rows import OwnRows
from services.pubsub.core.sending.untaken import Own
from services.pubsub.reasons import GONE, LIMIT, MEET_FIRST, NOT_TAKEN, UNANSWERED

MINUTE_S = 60.0
WAKE_MIN_S = 0.01
"""The shortest wait: a wake that rounding brings a moment early is not repeated at once."""
COPY = "copy "
_OF_THIS_NODE = frozenset((
    Reason.QUEUE_FULL_NODE, Reason.DISK_FULL, Reason.INDEX_FULL, Reason.RATE_LIMITED, Reason.SHUTDOWN, Reason.INTERNAL,
    Reason.CLOCK_DOUBTED,
))  # fmt: skip
"""The reasons for which this node's router refuses any copy now, so that another one would be refused as well."""
_WHY = {
    f.EndCause.NOBODY_TOOK_IT: NOT_TAKEN,
    f.EndCause.NO_ROOM: LIMIT,
    f.EndCause.EXPIRED: Reason.EXPIRY_PASSED,
    f.EndCause.GONE: GONE,
    f.EndCause.LEFT: Reason.LEFT,
}


class Dissemination:
    """Sends messages on. `is_leaf`: this node forwards nothing, and only asks for missed messages. `room_of(group)`:
    how many more messages of this node may wait in a topic for a neighbour, besides the limit of all topics."""

    def __init__(
        self,
        setup: c.Setup,
        known: Known,
        others: Others,
        limits: f.ForwardingLimits | None = None,
        *,
        is_leaf: bool = False,
    ) -> None:
        self._rows = OwnRows(setup.kept)
        self._is_leaf = is_leaf
        self._known = known
        self._others = others
        self._announcing = Announcing(known)
        self.forwarding = f.Forwarding({} if is_leaf else known.topics, setup.chance, limits)
        known.oldest_untaken = self._oldest_untaken
        self.repair = r.Repair(known.topics, setup.chance)
        self._notes = MinuteNotes()
        self._notes_s = inf
        self._wake_s = inf
        self._now_s = -inf
        self.received = self.repaired = self.unanswered = 0
        self.room_of: Callable[[PublicKey], int] = lambda _: self.forwarding.room

    def __repr__(self) -> str:
        return f"<dissemination: {self.forwarding!r}, {self.repair!r}>"

    # -- hearing -----------------------------------------------------------------------------------------------------

    def hear(self, heard: c.Heard, now: c.Now) -> list[c.Deed]:
        if isinstance(heard, c.Tick):
            self._wake_s = inf
        self._now_s = now.mono_s
        found = list(self._hear(heard, now))
        return [*found, *self._wake(now)]

    def read(self, message: c.Message, said: Any, now: c.Now) -> list[c.Deed]:
        assert isinstance(said, Have)
        topic = self._announcing.topic_of(message, said)
        if topic is None or message.via is None:
            return [c.Refuse(MEET_FIRST)]
        self.repair.named(said.ids, topic.group, message.via, r.Named.HAVE, now.mono_s)
        return self._wake(now)

    def _hear(self, heard: c.Heard, now: c.Now) -> Iterator[c.Deed]:
        match heard:
            case c.Message(group=group) if group in self._known.topics:
                yield from self._came(heard, now)
            case o.Published(group=group) if group in self._known.topics:
                yield from self._published(heard, now)
            case c.HopOutcome(tag, id, to, state, None, was_known) if tag.startswith(COPY):
                self._is_there(to)
                if state == "acked":
                    self._known.withholding.taken(to, id, now.mono_s)
                yield from self._forward(self.forwarding.taken(id, to, now.mono_s, was_known=was_known))
            case c.HopOutcome(tag, id, to) if tag.startswith(COPY):
                yield from self._forward(self.forwarding.refused(id, to, now.mono_s))
            case c.Sent(tag, id, refused) if refused is not None and tag.startswith(COPY):
                if refused not in _OF_THIS_NODE:
                    to = PublicKey(bytes.fromhex(tag.removeprefix(COPY)))
                    yield from self._forward(self.forwarding.refused(id, to, now.mono_s))
            case o.PulledFrom(id=id, state=state):
                yield from self._pulled_from(id, state, now)
            case c.Pulled(id=id, wire=wire):
                yield from self._forward(self.forwarding.fetched(id, wire, now.mono_s))
            case c.Started():
                yield from self._forward(self.forwarding.restore(self._rows.load(), now.mono_s))
            case o.Wanted(group, wanted=False):
                yield from self._forward(self.forwarding.left(group))
                yield from self._mend(self.repair.left(group, now.mono_s))
            case c.Tick():
                yield from self._forward(self.forwarding.tick(now.mono_s, now.wall_s))
                yield from self._mend(self.repair.tick(now.mono_s))
                if now.mono_s >= self._notes_s:
                    yield from self._summary()
            case c.Asked(number, "forwarding"):
                yield c.Answer(number, self.figures())

    def _came(self, message: c.Message, now: c.Now) -> Iterator[c.Deed]:
        """Send on a message that has come for the first time, and handle the ids that it names; not for history."""
        group, via = message.group, message.via
        assert group is not None
        topic = self._known.topics[group]
        topic.received, self.received = topic.received + 1, self.received + 1
        found = self.repair.arrived(message.id, via, now.mono_s)
        if via is not None:
            self._judge(message, group, via, found)
            self._is_there(via)
        yield from self._mend(found)
        if self._known.is_history(message.id):
            return
        if via is not None:
            self.repair.named(message.seen, group, via, r.Named.SEEN, now.mono_s)
        is_member = via is not None and via in topic.t and self._others.service_of(via) is not None  # no leaf
        until_s = None if is_member or self._is_leaf else _end_of(message.wire)
        origin = f.Origin(via, is_member, until_s)
        yield from self._forward(self.forwarding.received(message.id, group, message.wire, origin, now.mono_s))

    def _judge(self, message: c.Message, group: PublicKey, via: PublicKey, found: Iterable[r.Deed]) -> None:
        """Record who brought a message unasked; if it was missed, doubt those that are nearest on the ring."""
        id, withholding = message.id, self._known.withholding
        asked = next((one for one in found if isinstance(one, r.Repaired) and one.id == id), None)
        if withholding.wants_latest(group, self._now_s):
            header = read_header(message.wire, 0, len(message.wire))
            withholding.arrived(group, key_of(header.expiry_min, id), self._now_s)
        if asked is not None and not asked.is_announced:
            withholding.doubt(group, self._known.nearest_since(group))
        elif not self._known.is_asked(id):
            withholding.brought(via)

    def _remember(self, to: PublicKey, group: PublicKey, id: MessageId, wire: bytes) -> None:
        """Remember a copy by which its router may be judged later."""
        if self._known.withholding.wants(to, self._now_s):
            header = read_header(wire, 0, len(wire))
            if header.ttl_s:  # else nobody keeps it
                self._known.withholding.sent(to, group, key_of(header.expiry_min, id), self._now_s)

    def _published(self, heard: o.Published, now: c.Now) -> Iterator[c.Deed]:
        """Take note of messages that apps of this node have published while it has nobody to send them on to."""
        group, raw, at, left_out = heard.group, heard.ids, 0, heard.left_out
        topic, count = self._known.topics[group], len(raw) // ID_BYTES + left_out
        topic.received, self.received = topic.received + count, self.received + count
        for minute, times in heard.expiries:  # mostly one
            most = times if self._is_leaf else min(times, self.forwarding.room, self.room_of(group))
            split = [raw[each : each + ID_BYTES] for each in range(at, at + most * ID_BYTES, ID_BYTES)]
            at, ids = at + times * ID_BYTES, cast(list[MessageId], split)
            left_out += times - most
            self.repair.published(ids)
            if ids and not self._is_leaf:
                own = Own(group, expiry_s(minute))
                yield from self._forward(self.forwarding.published(ids, own, now.mono_s))
        if left_out:
            self.leave_out(left_out)

    def leave_out(self, times: int) -> None:
        """Count messages of this node that are not sent on, for lack of room."""
        self._notes.count("pubsub_given_up", LIMIT, times=times)

    def hurry(self, group: PublicKey, now: c.Now) -> None:
        """Send the messages of a topic that nobody has taken, as soon as this part gets its `Tick`."""
        self.forwarding.hurry(group, now.mono_s)

    def groups_untaken(self) -> list[PublicKey]:
        """Return the groups in which messages of this node wait for a neighbour to take them."""
        return self.forwarding.groups_untaken()

    def _oldest_untaken(self, group: PublicKey, router: PublicKey) -> tuple[MessageId, Own] | None:
        return None if self._others.service_of(router) is None else self.forwarding.oldest_untaken(group)

    def _is_there(self, router: PublicKey) -> None:
        """Record that a router that had fallen silent takes or sends messages again."""
        if router in self._known.fell_silent and self._others.overlay is not None:
            self._others.overlay.heard(router)

    def _pulled_from(self, id: MessageId, state: str, now: c.Now) -> Iterator[c.Deed]:
        """Handle the result of a PULL by this node's router; if it asked, the message comes or does not."""
        if state == "known":
            yield from self._mend(self.repair.known_here(id, now.mono_s))
        elif state == "away":
            yield from self._mend(self.repair.not_asked(id, now.mono_s))
        elif state == "later":
            yield from self._mend(self.repair.postponed(id, now.mono_s))

    def figures(self) -> dict[str, int]:
        """Return the counts of received, sent and repaired messages since the service started, and of those in
        progress."""
        forwarding, repair = self.forwarding, self.repair
        return {
            "received": self.received,
            "copies": forwarding.copies,
            "copies_again": forwarding.copies_again,
            "announced": forwarding.announced,
            "left_out": forwarding.left_out,
            "under_way": forwarding.pending,
            "not_taken": forwarding.untaken,
            "missing": len(repair),
            "asked_for": repair.open,
            "repaired": self.repaired,
            "unanswered": self.unanswered,
        }

    # -- what follows ------------------------------------------------------------------------------------------------

    def _forward(self, decided: Iterable[f.Deed]) -> Iterator[c.Deed]:
        announced: list[f.Announce] = []
        for one in decided:
            match one:
                case f.SendCopy(id, group, wire, to):
                    self._remember(to, group, id, wire)
                    if (topic := self._known.topics.get(group)) is not None:
                        topic.copies += 1
                    yield c.Forward(wire, to, COPY + to.hex())
                case f.Announce():
                    announced.append(one)
                case f.Silent(router):
                    self._known.silent(router)
                case f.FetchBytes(id, group):
                    yield c.Pull(group, MessageId(id))  # published ids are cut out of bytes as they are
                case f.Remember(id, own):
                    yield self._rows.remember(id, own)
                case f.RememberRun(ids, own):
                    yield from self._rows.remember_run(ids, own)
                case f.Forget(id):
                    yield from self._rows.forget(id)
                case f.GaveUp(id, _, cause, tried, is_own):
                    if is_own:
                        yield from self._notes.note("pubsub_given_up", id, _WHY[cause], {"tried": tried})
                    else:
                        self._notes.count("pubsub_not_taken", _WHY[cause])
        yield from self._announcing.announce(announced)

    def _mend(self, decided: Iterable[r.Deed]) -> Iterator[c.Deed]:
        for one in decided:
            match one:
                case r.AskForMessage(router, group, id):
                    yield o.PullFrom(router, group, id)
                case r.Repaired(id, group, asks, by):
                    self.repaired += 1
                    if (topic := self._known.topics.get(group)) is not None:
                        topic.repaired += 1
                    yield from self._notes.note("pubsub_repaired", id, None, {"asks": asks, "router": _hex(by)})
                case r.Unanswered(id, _, asks):
                    self.unanswered += 1
                    yield from self._notes.note("pubsub_unanswered", id, UNANSWERED, {"asks": asks})

    def _summary(self) -> Iterator[c.Deed]:
        """Write the counts of the last minute."""
        for (cause, source), times in self.repair.left_out.items():
            self._notes.count("pubsub_not_asked", UNANSWERED if cause is r.SkipCause.GIVEN_UP else LIMIT, source, times)
        self.repair.left_out.clear()
        self._notes_s = inf
        yield from self._notes.take()

    def _wake(self, now: c.Now) -> list[c.Deed]:
        """Return the next wake, unless one that is as early is planned."""
        if self._notes_s == inf and (self._notes or self.repair.left_out):
            self._notes_s = now.mono_s + MINUTE_S
        due_s = min(self.forwarding.due_s, self.repair.due_s, self._notes_s)
        if due_s >= self._wake_s:
            return []
        self._wake_s = due_s
        return [c.Wake(now.wall_s + max(WAKE_MIN_S, due_s - now.mono_s))]


def may_wait(wire: bytes) -> bool:
    """Whether a message may wait for somebody who takes it: its ttl is not 0."""
    return _end_of(wire) is not None


def _hex(router: PublicKey | None) -> str:
    return "" if router is None else router.hex()


def _end_of(wire: bytes) -> float | None:
    """Return the Unix second at which a message expires; None if it is not to wait for anybody (ttl 0)."""
    header = read_header(wire, 0, len(wire))
    return expiry_s(header.expiry_min) if header.ttl_s else None
