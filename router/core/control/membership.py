"""JOIN, LEAVE and HINT of neighbours, and the acknowledgements of this router's own.

Specification, "JOIN & LEAVE messages"; R-C10, R-C14, R-C15, R-C23.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec.structs import replace

from router.core.log import events as ev
from router.core.neighbours.directory import Standing
from router.core.routing.groups import Subscription
from router.core.routing.kernel import Kernel
from router.core.routing.links import Link
from router.core.routing.purges import Purges
from router.core.wire.control import Control, Join, JoinAck, Leave, LeaveAck
from router.core.wire.crypto import PublicKey
from router.core.wire.hint import Hinted
from router.core.wire.now import Now
from router.core.wire.reasons import Reason

from .hints import Hints
from .logged_rights import log_rights
from .part import Hears, Part
from .upstream import Upstream
from .wanted import WantedGroups


class Membership(Part):
    """Owns the subscriptions; whoever leaves loses what waits in its queue."""

    def __init__(self, kernel: Kernel, hints: Hints, wanted: WantedGroups, upstream: Upstream, purges: Purges) -> None:
        self._kernel = kernel
        self._directory = kernel.directory
        self._groups = kernel.groups
        self._links = kernel.links
        self._pending = kernel.pending
        self._rejections = kernel.rejections
        self._limits = kernel.limits.membership
        self._say = kernel.speaker.say
        self._hints = hints
        self._wanted = wanted
        self._upstream = upstream
        self._purges = purges
        self._unnamed: set[tuple[bytes, bytes]] = set()
        """Groups with their subscribers of which the log only counts the JOIN of this run: it may count the leave."""

    # -- requests of neighbours ------------------------------------------------------------------------------

    def join(self, link: Link, said: Join, now: Now) -> None:
        """Handle a JOIN. A known key is answered with a failure if it is not granted, a stranger not at all (R-C15)."""
        success = self._join(link, said.group, said.local, now)
        self._answer(link, JoinAck(said.group, success), success, now)
        if success:
            self._upstream.joined(link, said.group, now)

    def leave(self, link: Link, said: Leave, now: Now) -> None:
        """Handle a LEAVE, which is answered with success to known keys whether they were in the group or not."""
        was_in = self._groups.get(said.group, link.key) is not None
        self._leave(link.key, said.group, now)
        self._answer(link, LeaveAck(said.group, True), was_in, now)

    def join_service(self, link: Link, group: PublicKey, now: Now) -> bool:
        """Let a service of this node into a group, for what is published here (R-C12); return whether it is in."""
        return self._join(link, group, True, now)

    def begin_fan_out(self, link: Link, group: PublicKey, now: Now) -> None:
        """Count a group that the service which carries groups has joined, if nobody here reads it."""
        if link.key == self._groups.fanning:
            self._groups.begin_fan_out(group, link.key, False, now.mono_s)

    def leave_service(self, link: Link, group: PublicKey, now: Now) -> None:
        """Take a service of this node out of a group. What is on its way to one that hears what is published in other
        groups as well stays so: apps may have published it a moment ago."""
        self._leave(link.key, group, now, of_all=link.key == self._groups.fanning)

    def answered(self, link: Link, said: JoinAck | LeaveAck, now: Now) -> None:
        """Handle the answer to a SUB or UNSUB, if a service gives it, or to a JOIN of ours; others need no action."""
        if self._wanted.is_service(link.key):
            self.acknowledged(link, said, now)
            self._wanted.tell_more(link, now)
        elif isinstance(said, JoinAck):
            self._upstream.heard_ack(link, said.group, said.success, now)

    def acknowledged(self, link: Link, said: JoinAck | LeaveAck, now: Now) -> None:
        """Handle the acknowledgement of a service: without success it takes no part in the group."""
        awaited = self._wanted.acknowledged(link.key, said.group, isinstance(said, JoinAck))
        if awaited and not said.success:
            self._groups.decline(said.group)
            self._log("join", self._directory.me, said.group, now, refused_by=link.key)

    def hinted(self, link: Link, said: Hinted, now: Now) -> None:
        """Keep a HINT of an app or client, which is not answered, and pass it on if it says anything new."""
        if self._hints.heard(link, said):
            self._wanted.hinted(said.group, now)
            self._upstream.hinted(said.group, now)

    def _answer(self, link: Link, control: Control, success: bool, now: Now) -> None:
        if success or link.standing is not Standing.STRANGER:
            self._say(link, control, now)

    def may_join(self, link: Link, group: bytes) -> bool:
        """Whether a neighbour may be in a group, by its rights and by the limits of groups."""
        allowed = link.up and self._directory.may_subscribe(link.key, link.standing, group)
        is_service = link.key in self._directory.services  # which has a limit of its own
        room = is_service or self._groups.count_of(link.key) < self._limits.groups_per_client_max
        known = bool(self._groups.members(group)) or len(self._groups) < self._limits.groups_max
        return allowed and (self._groups.get(group, link.key) is not None or (room and known))

    def _join(self, link: Link, group: PublicKey, local: bool, now: Now) -> bool:
        node_local = self._directory.is_node_local(group)
        if not self.may_join(link, group) or (node_local and link.standing is not Standing.LOCAL):
            return False
        wanted = self._groups.is_wanted(group)
        subscription = Subscription(
            group,
            link.key,
            local or node_local or self._directory.is_lan(link.key, group),
            (link.durable and self._directory.is_known(link.key)) or link.standing is not Standing.LOCAL,
        )
        was_in = self._groups.get(group, link.key) is not None
        if self._groups.add(subscription):
            self._pending.changes.members[group, link.key] = subscription
            self._log_join(subscription, was_in=was_in, now=now)
        self._tell_of(group, wanted, now)
        return True

    def _leave(
        self, subscriber: bytes, group: bytes, now: Now, cause: Reason | None = None, *, of_all: bool = False
    ) -> None:
        """Remove a subscription, log it, and leave upstream if it was the last.

        `cause`: why, if not by the subscriber's own wish; `of_all`: its queue stays, or the caller ends all of it,
        not this group's part."""
        wanted, subscription = self._groups.is_wanted(group), self._groups.get(group, subscriber)
        if self._groups.remove(group, subscriber):
            self._pending.changes.members[group, subscriber] = None
            if not of_all:
                self._purges.queue_ends(subscriber, group)
            if subscription is not None:
                self._log_leave(subscription, cause, now)
        self._tell_of(group, wanted, now)

    def is_in_any(self, subscriber: bytes) -> bool:
        """Whether a key has subscribed to a group."""
        return self._groups.count_of(subscriber) > 0

    def leave_all(self, subscriber: bytes, now: Now) -> None:
        """End all subscriptions and the queue of a throwaway key that has gone, or of a subscriber that was removed."""
        cause = Reason.BLOCKED if self._directory.is_blocked(subscriber) else Reason.LEFT
        for group in sorted(self._groups.joined_by(subscriber)):
            self._leave(subscriber, group, now, cause, of_all=True)
        self._purges.queue_ends(subscriber, None)

    def move(self, subscriber: bytes, to: bytes) -> None:
        """Give another key the subscriptions of a renewed one; nothing in the groups or upstream changes by that."""
        for group in sorted(self._groups.joined_by(subscriber)):
            known = self._groups.get(group, subscriber)
            assert known is not None
            one = self._pending.changes.members[group, to] = replace(known, subscriber=to)
            self._groups.add(one)
            self._groups.remove(group, subscriber)
            self._unnamed.discard((group, subscriber))
            self._pending.changes.members[group, subscriber] = None

    def revoke(self, subscriber: bytes, now: Now, *, drains: bool = False) -> bool:
        """Remove a subscriber from all groups that it has no right to join any more; return whether it was in any.

        If it is connected, it is sent a JOIN_ACK with failure for each. `drains`: its queued messages stay."""
        link = self._links.to(subscriber)
        standing, may = None if link is None else link.standing, self._directory.may_subscribe
        groups = sorted(one for one in self._groups.joined_by(subscriber) if not may(subscriber, standing, one))
        for group in groups:
            self._leave(subscriber, group, now, Reason.NOT_AUTHORISED, of_all=drains)
            if link is not None:
                self._say(link, JoinAck(PublicKey(group), False), now)
        return bool(groups)

    def _log_join(self, one: Subscription, *, was_in: bool, now: Now) -> None:
        """Log a join, or only count it in the rejection log while its budget is not ample.

        One that is logged pays for its leave as well, unless it is a stranger's. `was_in`: it changes the terms of a
        subscription."""
        standing, which = self._standing_of(one), (one.group, one.subscriber)
        is_uplink = one.subscriber in self._directory.uplinks
        lines = 1 if standing is Standing.STRANGER else 2 + is_uplink
        if self._rejections.counts(standing, "join", now, lines):
            if not was_in:
                self._unnamed.add(which)
            return
        self._unnamed.discard(which)
        if is_uplink:
            log_rights(self._kernel, one.subscriber, frozenset(), now)  # which tell why it is owed nothing by that
        service = self._directory.services.get(one.subscriber)
        self._log("join", one.subscriber, one.group, now, **({} if service is None else {"service": service.name}))

    def _log_leave(self, one: Subscription, cause: Reason | None, now: Now) -> None:
        """Log a leave by this node's own decision, and whenever the log may name the join: what it names ends in it,
        also where the node is killed. A stranger's, and one of which the join was counted, may be counted."""
        standing, which = self._standing_of(one), (one.group, one.subscriber)
        is_unnamed = which in self._unnamed and cause is None
        self._unnamed.discard(which)
        if (is_unnamed or standing is Standing.STRANGER) and self._rejections.counts(standing, "leave", now):
            return
        more = {} if cause is None else {"because": cause.word}
        self._log("leave", one.subscriber, one.group, now, **more)

    def _log(self, event: str, subscriber: bytes, group: bytes, now: Now, **more: bytes | str) -> None:
        fields = (("subscriber", subscriber), ("group", group), *more.items())
        self._pending.changes.events.append(ev.RouterChange(now.wall_ns, now.mono_ns, event, fields))

    def _standing_of(self, one: Subscription) -> Standing:
        """Return the standing of a subscription's holder: known neighbour, stranger or app.

        Subscriptions of unrecorded apps are not durable, those of strangers are."""
        if one.subscriber in self._directory.neighbours:
            return Standing.CLIENT
        return Standing.STRANGER if one.durable and one.subscriber not in self._directory.locals else Standing.LOCAL

    def _tell_of(self, group: bytes, was_wanted: bool, now: Now) -> None:
        wanted = self._groups.is_wanted(group)
        if was_wanted and not wanted:
            self._hints.forget(group)
        if wanted != was_wanted:
            self._wanted.changed(group, now)
            self._upstream.changed(group, wanted, now)

    HEARS: ClassVar[Hears] = {Join: join, Leave: leave, JoinAck: answered, LeaveAck: answered, Hinted: hinted}
