"""Control messages to and from this router: JOIN and LEAVE of neighbours and at uplinks, PULL, inquiries.

Specification, "JOIN & LEAVE messages"; R-C10, R-C14, R-C15, R-C23.
"""

from __future__ import annotations

from collections.abc import Callable

from router.core.log import events as ev
from router.core.neighbours.advertisements import Advertised
from router.core.neighbours.directory import UNKNOWN, WHY, Directory, Standing
from router.core.routing.door_log import DoorLog
from router.core.routing.effects import Inquire, NeighbourAnswered, Pending, SendOwn
from router.core.routing.groups import Groups, Subscription
from router.core.routing.intake import Row
from router.core.routing.limits import MembershipLimits
from router.core.routing.links import Flight, Link, Links
from router.core.wire.admin import (
    ASK_BYTES_MAX,
    SERVICE_BYTES_MAX,
    Answer,
    Inquiry,
    decode_inquiry,
    encode_inquiry,
    is_inquiry,
)
from router.core.wire.codec import Malformed
from router.core.wire.control import (
    CARRIED,
    Control,
    Join,
    JoinAck,
    Leave,
    LeaveAck,
    Pull,
    UnknownControl,
    decode_control,
    encode_control,
)
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.hint import TO_ROUTER, TO_SERVICE, Hinted, decode_hint, encode_hint
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import MULTICAST, seal_unicast
from router.core.wire.now import Now
from router.core.wire.pubsub import Wanted, encode_wanted
from router.core.wire.reasons import Reason
from router.core.wire.redemption import (
    AskTerms,
    Redeem,
    Redeemed,
    Redemption,
    Terms,
    encode_redemption,
    is_redemption,
)

from .addressed import ADVERTISED, body_of, kind_in_group, out_of_place
from .guests import ORDERS
from .hints import Hints
from .linked import LinkedServices
from .service_words import WORDS
from .upstream import Upstream
from .wanted import WantedGroups

CONTROL_LIFE_S = 3600


class Membership:
    """Owns the subscriptions; `upstream`: the JOINs sent to neighbours.

    `left(subscriber, group)` is called when a subscriber's queue for a group (None: its whole queue) ends;
    `service_says` handles inquiries of services, `advertised` the advertisements of the discovery service, `orders` the
    operator's orders about invitations, `redeems` bodies about invitations, `pulls` the PULLs of neighbours.
    """

    def __init__(
        self,
        key: SigningKey,
        directory: Directory,
        groups: Groups,
        links: Links,
        pending: Pending,
        door: DoorLog,
        limits: MembershipLimits,
        left: Callable[[bytes, bytes | None], None],
        service_says: Callable[[Link, Inquiry, Now], tuple[Reason, str] | None],
        advertised: Callable[[Advertised, Now], tuple[Reason, str] | None],
        orders: Callable[[Link, Inquiry, Now], None],
        redeems: Callable[[Link, bytes, Now], tuple[Reason, str] | None],
        pulls: Callable[[Link, bytes, bytes, Now, bool], None],
    ) -> None:
        self._key = key
        self._directory = directory
        self._groups = groups
        self._links = links
        self._pending = pending
        self._door = door
        self._limits = limits
        self._left = left
        self._service_says = service_says
        self._advertised = advertised
        self._orders = orders
        self._redeems = redeems
        self._pulls = pulls
        self.hints = Hints(directory, groups, pending)
        self.upstream = Upstream(directory, groups, self.hints, links, pending, self.say)
        self._wanted = WantedGroups(directory, groups, self.hints, links, self.say)
        self._linked = LinkedServices(directory, links, self.say)
        self._awaited: dict[bytes, int] = {}  # by neighbour's router: number of answers due on the present link

    # -- requests of neighbours ------------------------------------------------------------------------------

    def judge(self, link: Link, row: Row, data: bytes) -> tuple[Reason, str] | None:
        """Return why a message for this router is refused before it is verified, or None."""
        if row.head.kind == MULTICAST and kind_in_group(self._directory, link, row, data) is None:
            return Reason.NO_SUBSCRIBERS, ""
        most = SERVICE_BYTES_MAX if link.key in self._directory.services else ASK_BYTES_MAX
        return out_of_place(link, row, data, is_awaited=link.key in self._awaited, ask_bytes_max=most)

    def overhear(self, link: Link, row: Row, data: bytes, now: Now) -> None:
        """Handle a multicast as a subscriber of the groups of this node's services; other subscribers get it as
        well."""
        if self.judge(link, row, data) is None:
            self.hear(link, row, data, now)

    def hear(self, link: Link, row: Row, data: bytes, now: Now) -> tuple[Reason, str] | None:
        """Handle a message for this router that passed `judge`; return why it is refused, or None.

        A known key is answered with a failure if its request is not granted, a stranger not at all (R-C15)."""
        start, end = body_of(row, data)
        if row.head.kind == MULTICAST:
            kind = kind_in_group(self._directory, link, row, data)
            if kind == ADVERTISED:
                return self._advertised(Advertised(link.key, data[start:end]), now)
            if kind is None:
                return Reason.NO_SUBSCRIBERS, ""
        if data[start : start + 2] == CARRIED:
            return None  # the carried message is judged separately, together with its carrier
        body = data[start:end]
        if is_redemption(body):
            return self._redeems(link, body, now)
        if body[:2] == TO_ROUTER:
            return self._hear_hint(link, body, now)
        try:
            said = decode_inquiry(body, SERVICE_BYTES_MAX) if is_inquiry(body) else decode_control(body)
        except UnknownControl as error:
            return Reason.UNSUPPORTED, str(error)
        except Malformed as error:
            return Reason.MALFORMED, str(error)
        if isinstance(said, Inquiry | Answer):
            if isinstance(said, Inquiry) and said.ask in WORDS:
                return self._service_says(link, said, now)
            return self._hear_inquiry(link, said, now)
        self._hear_control(link, said, now)
        return None

    def _hear_control(self, link: Link, control: Control, now: Now) -> None:
        match control:
            case Join(group, local):
                success = self._join(link, group, local, now)
                self._answer(link, JoinAck(group, success), success, now)
                if success:
                    self.upstream.joined(link, group, now)
            case Leave(group):
                was_in = self._groups.get(group, link.key) is not None
                self._leave(link.key, group, now)
                self._answer(link, LeaveAck(group, True), was_in, now)
            case JoinAck(group, success) | LeaveAck(group, success) if self._wanted.is_service(link.key):
                awaited = self._wanted.acknowledged(link.key, group, isinstance(control, JoinAck))
                if awaited and not success:
                    self._groups.decline(group)
                    self._log("join", self._directory.me, group, now, refused_by=link.key)
            case JoinAck(group, success):
                self.upstream.heard_ack(link, group, success, now)
            case Pull(group, message):
                self._pulls(link, group, message, now, self._may_join(link, group))
            case _:  # other acks and reports need no action
                pass

    def _hear_hint(self, link: Link, body: bytes, now: Now) -> tuple[Reason, str] | None:
        """Handle a HINT, which is not answered; return why it is refused, or None."""
        try:
            said = decode_hint(body)
        except Malformed as error:
            return Reason.MALFORMED, str(error)
        if self.hints.heard(link, said):
            self._wanted.hinted(said.group, now)
            self.upstream.hinted(said.group, now)
        return None

    def _hear_inquiry(self, link: Link, inquiry: Inquiry | Answer, now: Now) -> tuple[Reason, str] | None:
        """Pass on an inquiry or a neighbour's answer; return why it is refused, or None.

        On the owner's socket any inquiry is allowed. Elsewhere only `why` is allowed, from local services about their
        own messages and from known neighbours' routers."""
        if isinstance(inquiry, Inquiry) and link.owner and link.standing is Standing.LOCAL:
            if inquiry.ask in ORDERS:
                self._orders(link, inquiry, now)
                return None
            self._pending.effects.append(Inquire(link.id, inquiry))
        elif link.standing in UNKNOWN:
            return Reason.NOT_AUTHORISED, "strangers ask this router nothing"
        elif isinstance(inquiry, Answer):
            if not self._take_awaited(link.key):
                return Reason.NOT_AUTHORISED, "it was answered already"
            self._pending.effects.append(NeighbourAnswered(link.key, inquiry.text))
        elif inquiry.ask != WHY:
            return Reason.NOT_AUTHORISED, "a router's own state is asked on its owner's socket only"
        elif link.standing is Standing.LOCAL:
            self._pending.effects.append(Inquire(link.id, inquiry, service=link.key))
        elif link.app:
            return Reason.NOT_AUTHORISED, "only routers and local apps ask why"
        else:
            self._pending.effects.append(Inquire(link.id, inquiry, link.key))
        return None

    def ask(self, link: Link, inquiry: Inquiry, now: Now) -> None:
        """Ask a neighbour's router, which may answer each question once, on this link."""
        self._awaited[link.key] = self._awaited.get(link.key, 0) + 1
        self.say(link, inquiry, now)

    def _take_awaited(self, key: bytes) -> bool:
        left = self._awaited.pop(key, 0) - 1
        if left > 0:
            self._awaited[key] = left
        return left >= 0

    def _answer(self, link: Link, control: Control, success: bool, now: Now) -> None:
        if success or link.standing is not Standing.STRANGER:
            self.say(link, control, now)

    def say(
        self,
        link: Link,
        control: Control | Answer | Inquiry | Wanted | Hinted | Redemption,
        now: Now,
        to: PublicKey | None = None,
    ) -> bool:
        """Send a control message of this router to a neighbour, or through it to `to`: never queued, so its ttl is 0.

        If it does not fit the window and its slack, because the neighbour settles nothing, it is dropped and this
        returns False; a JOIN is repeated by its sender if the answer is missing.
        """
        expiry = expiry_min(now.judged_s + CONTROL_LIFE_S)
        to = to or PublicKey(link.key)
        match control:
            case Answer() | Inquiry():
                body = encode_inquiry(control)
            case Wanted():
                body = encode_wanted(control)
            case Hinted():
                body = encode_hint(control, TO_SERVICE if link.standing is Standing.LOCAL else TO_ROUTER)
            case Redeem() | Redeemed() | AskTerms() | Terms():
                body = encode_redemption(control)
            case _:
                body = encode_control(control)
        wire = seal_unicast(self._key, to, body, ttl_s=0, expiry_min=expiry)
        if not link.outgoing.takes_control(len(wire)):
            return False
        n = link.outgoing.send(1, len(wire))
        link.fly(Flight(n, None, 0, 1))
        self._pending.effects.append(SendOwn(link.id, wire))
        return True

    def _may_join(self, link: Link, group: bytes) -> bool:
        allowed = link.up and self._directory.may_subscribe(link.key, link.standing, group)
        joined = self._groups.joined_by(link.key)
        room = len(joined) < self._limits.groups_per_client_max
        known = bool(self._groups.members(group)) or len(self._groups) < self._limits.groups_max
        return allowed and (group in joined or (room and known))

    def _join(self, link: Link, group: PublicKey, local: bool, now: Now) -> bool:
        node_local = self._directory.is_node_local(group)
        if not self._may_join(link, group) or (node_local and link.standing is not Standing.LOCAL):
            return False
        wanted = self._groups.is_wanted(group)
        subscription = Subscription(
            group,
            link.key,
            local or node_local or self._directory.is_lan(link.key, group),
            link.durable or link.standing is not Standing.LOCAL,
        )
        if self._groups.add(subscription):
            self._pending.changes.members[group, link.key] = subscription
            self._log("join", link.key, group, now, subscription)
        self._tell_of(group, wanted, now)
        return True

    def _leave(
        self, subscriber: bytes, group: bytes, now: Now, cause: Reason | None = None, *, of_all: bool = False
    ) -> None:
        """Remove a subscription, log it, and leave upstream if it was the last.

        `cause`: why, if not by the subscriber's own wish; `of_all`: the caller ends its whole queue, not this group's
        part."""
        wanted, subscription = self._groups.is_wanted(group), self._groups.get(group, subscriber)
        if self._groups.remove(group, subscriber):
            self._pending.changes.members[group, subscriber] = None
            if not of_all:
                self._left(subscriber, group)
            self._log(
                "leave", subscriber, group, now, subscription, **({} if cause is None else {"because": cause.word})
            )
        self._tell_of(group, wanted, now)

    def leave_all(self, subscriber: bytes, now: Now) -> None:
        """End all subscriptions and the queue of a throwaway key that has gone, or of a subscriber that was removed."""
        cause = Reason.BLOCKED if self._directory.is_blocked(subscriber) else Reason.LEFT
        for group in sorted(self._groups.joined_by(subscriber)):
            self._leave(subscriber, group, now, cause, of_all=True)
        self._left(subscriber, None)

    def revoke(self, subscriber: bytes, now: Now, *, drains: bool = False) -> bool:
        """Remove a subscriber from all groups that it has no right to join any more; return whether it was in any.

        If it is connected, it is sent a JOIN_ACK with failure for each. `drains`: its queued messages stay."""
        link = self._links.to(subscriber)
        standing, may = None if link is None else link.standing, self._directory.may_subscribe
        groups = sorted(one for one in self._groups.joined_by(subscriber) if not may(subscriber, standing, one))
        for group in groups:
            self._leave(subscriber, group, now, Reason.NOT_AUTHORISED, of_all=drains)
            if link is not None:
                self.say(link, JoinAck(PublicKey(group), False), now)
        return bool(groups)

    def _log(
        self,
        event: str,
        subscriber: bytes,
        group: bytes,
        now: Now,
        subscription: Subscription | None = None,
        **more: bytes | str,
    ) -> None:
        """Log a join or leave, or only count it in the door log while its budget is not ample.

        A leave by this node's own decision is always logged, unless it is a stranger's."""
        standing = None if subscription is None else self._standing_of(subscription)
        may_be_counted = standing is Standing.STRANGER or (standing is not None and "because" not in more)
        if standing is not None and may_be_counted and self._door.counts(standing, event, now):
            return
        fields = (("subscriber", subscriber), ("group", group), *more.items())
        self._pending.changes.events.append(ev.State(now.wall_ns, now.mono_ns, event, fields))

    def _standing_of(self, one: Subscription) -> Standing:
        """Return the standing of a subscription's holder: known neighbour, stranger or app.

        Subscriptions of unrecorded apps are not durable, those of strangers are."""
        if one.subscriber in self._directory.neighbours:
            return Standing.CLIENT
        return Standing.STRANGER if one.durable and one.subscriber not in self._directory.locals else Standing.LOCAL

    # -- this node's own JOINs -------------------------------------------------------------------------------

    def link_up(self, link: Link, now: Now) -> None:
        """Tell a service that came up which groups are wanted, or join the groups that are to be joined at a
        neighbour."""
        self._wanted.link_up(link, now)
        self._linked.link_up(link, now)
        self.upstream.link_up(link, now)

    def link_down(self, link: Link) -> None:
        self._awaited.pop(link.key, None)
        self._wanted.link_down(link)
        self._linked.link_down(link)
        self.upstream.link_down(link)

    def ask_again(self, now: Now) -> None:
        """Repeat each request that was not acknowledged, as far as the link's window allows; the rest next time."""
        self._wanted.ask_again(now)
        self._linked.tell(now)
        self.upstream.ask_again(now)

    def _tell_of(self, group: bytes, was_wanted: bool, now: Now) -> None:
        wanted = self._groups.is_wanted(group)
        if not wanted:
            self.hints.forget(group)
        if wanted != was_wanted:
            self._wanted.changed(group, now)
            self.upstream.changed(group, wanted, now)
