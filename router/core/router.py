"""The message router's decisions: events in, changes and effects out (laws 1 and 2).

The caller runs cycles: feed events, `take()` the decisions, commit the changes, then carry out the effects. All
state is here or in the parts made here, and nothing else touches it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from router.core.control.address_book import AddressBook
from router.core.control.as_history import AsHistory
from router.core.control.catch_ups import CatchUps
from router.core.control.departure import Departure
from router.core.control.guests import Guests
from router.core.control.hints import Hints
from router.core.control.introductions import Introductions
from router.core.control.linked import LinkedServices
from router.core.control.membership import Membership
from router.core.control.moving import Moving
from router.core.control.node_copies import NodeCopies
from router.core.control.part import Part
from router.core.control.part_calls import call_each
from router.core.control.published import PublishedIds
from router.core.control.pulls import Pulls
from router.core.control.questions import AwaitedAnswers
from router.core.control.reception import Reception
from router.core.control.redeeming import Redeeming
from router.core.control.revocation import Revocation
from router.core.control.rights import Rights
from router.core.control.speaker import Speaker
from router.core.control.stranded import Stranded
from router.core.control.succeeding import Succeeding
from router.core.control.taking_part import TakingPart
from router.core.control.terms_said import TermsSaid
from router.core.control.upstream import Upstream
from router.core.control.verb_finder import load_verbs
from router.core.control.wanted import WantedGroups
from router.core.control.witness import Witness
from router.core.link.machine import RemoteProtocolError
from router.core.log import events as ev
from router.core.log.histogram import Histogram
from router.core.neighbours.book import Book
from router.core.neighbours.directory import Directory, Neighbour
from router.core.routing.acceptance import Acceptance
from router.core.routing.admission import Admission
from router.core.routing.arrivals import Arrivals
from router.core.routing.away import Away
from router.core.routing.delivery import Delivery
from router.core.routing.duplicate_index import Index
from router.core.routing.effects import Close, Decision, Effect, Pending
from router.core.routing.examination import Examination
from router.core.routing.groups import Groups
from router.core.routing.intake import Arrived
from router.core.routing.job import Job
from router.core.routing.kernel import Kernel
from router.core.routing.limits import CoreLimits
from router.core.routing.links import Link, Links
from router.core.routing.outcomes import FollowedOutcomes
from router.core.routing.owed import Damaged, Due, Owed
from router.core.routing.plans import Plans, Routing
from router.core.routing.purges import Purges
from router.core.routing.queues import RecipientQueues
from router.core.routing.recovered import Holding, Recovered
from router.core.routing.rejection_log import RejectionLog
from router.core.routing.room import Rooms
from router.core.routing.route_changes import end_route
from router.core.routing.routes import Routes
from router.core.routing.seen import Seen
from router.core.service.roles import Role
from router.core.wire import link_items
from router.core.wire.admin import Answer, Inquiry
from router.core.wire.crypto import SigningKey
from router.core.wire.message import MULTICAST
from router.core.wire.now import Now
from router.core.wire.reasons import Reason
from router.core.wire.run_claim import RunClaim, RunStopped


class Router:
    """The deciding core; `directory`: standings and rights of keys; `key` signs the router's own messages."""

    def __init__(
        self, key: SigningKey, directory: Directory, limits: CoreLimits, recovered: Recovered, now: Now
    ) -> None:
        self._kernel = kernel = _kernel(key, directory, limits, recovered)
        self.directory, self.links, self.groups, self.life = directory, kernel.links, kernel.groups, recovered.life
        self.queues, self.routes, self.seen, self.index = kernel.queues, kernel.routes, kernel.seen, kernel.index
        self.advertisements, self.rejections, self._limits = kernel.book.advertisements, kernel.rejections, limits
        self.purges, self.admission = Purges(kernel, recovered.purges), Admission(kernel, self.link_down)
        self._away = Away(kernel.pending, recovered.away, directory, limits.away_s_max, limits.lan_keep_s)
        self.outcomes = FollowedOutcomes(directory, kernel.links, kernel.pending, limits.outcomes, recovered.missed)
        self._delivery = delivery = Delivery(kernel, self.purges, self.outcomes)
        self.refusals, self._pending = delivery.refusals, kernel.pending
        self._hints = hints = Hints(kernel)
        wanted, self.upstream, terms = WantedGroups(kernel, hints), Upstream(kernel, hints), TermsSaid(kernel)
        membership, linked = Membership(kernel, hints, wanted, self.upstream, self.purges), LinkedServices(kernel)
        self._departure = departure = Departure(membership, self.outcomes, self._away)
        self._revocation = Revocation(
            kernel, membership, self.upstream, linked, terms, departure, delivery, self.admission, self.purges
        )
        self.rights = rights = Rights(kernel, self._revocation)
        self.guests, self.redeeming = Guests(kernel, rights, self.admission), Redeeming(kernel, self.upstream, delivery)
        self.copies = copies = NodeCopies(kernel, self.admission, recovered.life.number)
        self.succeeding = Succeeding(kernel, rights, self.admission, copies, departure, delivery)
        self.renewing, self.moving = self.succeeding.renewing, Moving(kernel, rights)
        self.questions, self.witness, as_history = AwaitedAnswers(kernel), Witness(kernel), AsHistory(kernel)
        self.catch_ups, self._published, introductions = CatchUps(kernel), PublishedIds(kernel), Introductions(kernel)
        self.pulls, self.stranded = Pulls(kernel, membership, as_history), Stranded(kernel, self._published)
        # A link that comes up reaches rights and invitations first: an inviter's is shut before any JOIN goes there.
        first = rights, self.redeeming, wanted, linked, self.upstream, membership, self.questions, self.renewing
        taking, book = TakingPart(membership, wanted, self._published), AddressBook(kernel, rights)
        then = self.catch_ups, self._published, self.stranded, taking, self.pulls, book, terms, self.guests
        verbs = [one(kernel, rights) for one in load_verbs()]
        self._parts: tuple[Part, ...] = (*first, *then, self.moving, copies, self.succeeding, introductions, *verbs)
        self.reception = reception = Reception(kernel, self.questions, introductions, self._parts)
        plans, self._rooms = _plans(kernel), Rooms(kernel)
        self._examination = Examination(kernel, plans, reception.judge)
        self._acceptance = Acceptance(
            kernel, plans, self._rooms, delivery, self.outcomes, reception, as_history, self._published
        )
        self._recover(recovered, now)

    def __repr__(self) -> str:
        return f"<router {self.directory.me.hex()[:8]}: {len(self.links)} links, {self.groups!r}, {self.routes!r}>"

    def _recover(self, recovered: Recovered, now: Now) -> None:
        for one in recovered.held:
            self.queues.hold(*one)
        self.directory.locals.update(recovered.locals)
        self.renewing.began(recovered.book)
        self.copies.began(recovered.book)
        self._rooms.set_closed(self.copies.is_barred)
        self._hints.load(recovered.book)
        self.rights.began(recovered.book, now)
        self.guests.began(now)
        self.moving.began(now)
        _recover_routes(self._kernel, recovered, now)
        for recipient, signer, neighbour, messages, size in recovered.backlog:
            queue = self.queues.reserve(recipient, signer, neighbour, messages, size)
            queue.recovered()
        self._delivery.disorder.load(recovered.book, self.queues.by_recipient)
        for subscription in recovered.subscriptions:
            self.groups.add(subscription)
        self._revocation.recovered({one.subscriber for one in recovered.subscriptions if not one.durable}, now)
        for key in dict.fromkeys([*self.groups.subscribers, *recovered.locals, *self.directory.agreements.lan]):
            if key not in self._away:
                self._away.went(key, now)
        self._delivery.recovered()

    # -- links -----------------------------------------------------------------------------------------------

    def link_up(
        self,
        number: int,
        key: bytes,
        owner: bool,
        hello: link_items.Hello,
        now: Now,
        *,
        dialled: bool = False,
        place: str = "",
        ip: str = "",
    ) -> Link | None:
        """Admit a neighbour that has proven `key`; return its link, or None if a `Close` rejects it."""
        if hello.role == "router" and (
            self.copies.ends_link(number, key, hello)
            or (hello.was and self.succeeding.ends_link(number, key, hello.was, now))
        ):
            return None
        self.rights.signed_on(key, now)
        link = self.admission.admit(number, key, owner, hello, now, dialled=dialled, place=place, ip=ip)
        if link is None:
            return None
        self._away.came(key)
        self.rejections.link_up(link, now)
        self.routes.neighbour_up(key)
        call_each(self._parts, Part.link_up, link, now)
        self._delivery.link_up(link)
        self.outcomes.link_up(key)
        return link

    def neighbours_changed(self, neighbours: Iterable[Neighbour], now: Now) -> None:
        """Apply a new configuration of neighbours; everything that depends on revoked rights ends."""
        self.rights.configured(neighbours, now)

    def tell_service(self, key: bytes, inquiry: Inquiry, now: Now) -> bool:
        """Send an inquiry to a service of this node; return whether it is connected and can be told."""
        link = self.links.to(key)
        return link is not None and self._kernel.speaker.say(link, inquiry, now)

    def link_down(self, number: int, now: Now, *, replaced: bool = False, because: str = "") -> None:
        """Handle the end of a link. `replaced`: by another link of the same neighbour, which keeps its rights."""
        link = self.links.get(number)
        if link is None:
            return
        self.links.remove(link)
        self.rejections.link_down(link, now, because)
        self._delivery.link_down(link)
        call_each(self._parts, Part.link_down, link, now)
        self.routes.neighbour_down(link.key, now.judged_s)
        if replaced:
            return
        self.rights.signed_off(link.key, now)
        if not self.directory.is_known(link.key):
            self._departure.gone(link.key, now)
        else:
            self._revocation.went_away(link.key, now)
            kept = link.key in self.directory.locals or link.key in self.directory.agreements.lan
            if kept or self.groups.joined_by(link.key):
                self._away.went(link.key, now)
        self._delivery.dial_if_owed(link.key)

    def shown_run(self, said: RunClaim | RunStopped, now: Now) -> str:
        """Take a verified statement about another run of this node's key; return a warning, "" if it is no news."""
        copies = self.copies
        is_news = copies.shown(said, now) if isinstance(said, RunClaim) else copies.shown_stopped(said, now)
        self._rooms.set_closed(copies.is_barred)
        return copies.problem if is_news else ""

    # -- messages in -----------------------------------------------------------------------------------------

    def examine(self, arrived: Arrived, now: Now) -> Job | None:
        """Judge a read in every way that needs no signature; None if the link, and with it everything unsettled, is
        gone."""
        link = self.links.get(arrived.link)
        return None if link is None else self._examination.examine(link, arrived, now)

    def decide(self, jobs: Sequence[Job], on_disk: Collection[bytes], now: Now) -> None:
        """Decide verified reads, given in the order in which they arrived; `on_disk`: the ids known to the index."""
        self.admission.end(self._acceptance.decide(jobs, on_disk, now), now)
        for job in jobs:
            if job.refusals and (job.link.uplink or job.link.key in self.directory.agreements.lan):
                by_k = {row.k: row.head.signer for row in job.arrived.rows}
                unwanted = [by_k[k] for k, reason, _ in job.refusals if reason is Reason.NO_SUBSCRIBERS and k in by_k]
                for group in dict.fromkeys(unwanted):
                    self.upstream.not_wanted(job.link, group, now)

    def set_disk_full(self, full: bool) -> None:
        self._rooms.set_disk_full(full)

    # -- messages out ----------------------------------------------------------------------------------------

    def settled(self, number: int, n: int, now: Now) -> None:
        link = self.links.get(number)
        if link is None:
            return
        if n > link.outgoing.settled:
            link.active_s = now.mono_s
        try:
            self._delivery.settled(link, n, now)
            self._kernel.speaker.settled(link, now)
        except RemoteProtocolError as error:
            self._pending.effects.append(Close(number, error.reason, error.text))

    def refused(self, number: int, k: int, reason: Reason, text: str) -> None:
        link = self.links.get(number)
        if link is None:
            return
        try:
            link.outgoing.check_refusal(k)
        except RemoteProtocolError as error:
            self._pending.effects.append(Close(number, error.reason, error.text))
        else:
            link.refused[k] = reason, text
            self.redeeming.refused(link, k, reason, text)

    def fetched(self, recipient: bytes, owed: Sequence[Owed], more: bool, now: Now) -> None:
        self._delivery.fetched(recipient, owed, more, now)

    def expire(self, due: Iterable[Due], now: Now) -> None:
        self._delivery.expire(due, now)

    def drop(self, recipient: bytes, owed: Sequence[Owed], now: Now) -> None:
        self._delivery.drop(recipient, owed, now)
        for parcel, start, stop in owed:  # whoever is still in the group is told what it has missed
            if parcel.kind == MULTICAST and self.groups.get(parcel.signer, recipient) is not None:
                self.outcomes.miss(recipient, parcel, start, stop, Reason.LEFT)

    def lose(self, damaged: Iterable[Damaged], now: Now) -> None:
        self._delivery.lose(damaged, now)

    def clear_queue(self, recipient: bytes, now: Now) -> None:
        """Begin to drop a recipient's queue, as the operator asked by `queue drop`."""
        self.purges.ordered(recipient, now)

    def answer(self, number: int, text: bytes, now: Now) -> None:
        """Send the answer to an `AnswerInquiry`."""
        link = self.links.get(number)
        if link is not None:
            self._kernel.speaker.say(link, Answer(text), now)

    def ask(self, key: bytes, inquiry: Inquiry, now: Now) -> bool:
        """Ask a neighbour's router, whose answer comes as `NeighbourAnswered`; False if it is not connected."""
        link = self.links.to(key)
        if link is not None and not link.app:
            self.questions.ask(link, inquiry, now)
        return link is not None and not link.app

    def released(self, parcels: Iterable[Holding]) -> None:
        """Count messages that the store has released, as nobody is owed them any more."""
        for neighbour, messages, size in parcels:
            self.queues.hold(neighbour, -messages, -size)

    def forgot(self, entries: Mapping[bytes, int]) -> None:
        """Count ids that the store has removed from the duplicate index, by holder."""
        for holder, count in entries.items():
            self.index.add(holder, -count)

    def tick(self, now: Now) -> None:
        """Once a second, retry, ask again for joins, write the rejection log, remove old routes, close silent
        strangers."""
        self.admission.end_silent(now)
        self._delivery.retry(now)
        call_each(self._parts, Part.tick, now)
        self.rejections.tick(now)
        for route in self.routes.aged(now.judged_s):
            end_route(self.routes, self._pending, route, now)

    @property
    def delivery_times(self) -> Histogram:
        """Return the seconds from acceptance until a recipient has settled, of what was delivered in this run."""
        return self._delivery.times

    @property
    def next_arrival(self) -> int:
        return self._kernel.arrivals.following

    @property
    def has_decided(self) -> bool:
        """Whether `take` would return anything."""
        return bool(self._pending)

    @property
    def has_more_to_fetch(self) -> bool:
        """Whether another cycle should follow at once, though nothing has happened."""
        return self._delivery.is_passing_over

    def note(self, event: str, fields: ev.Fields, now: Now) -> None:
        """Write a state event of the node itself."""
        self._pending.changes.events.append(ev.RouterChange(now.wall_ns, now.mono_ns, event, fields))

    def begin(self, now: Now) -> None:
        """Log the first events of a run, before what was decided about the state on disk: its start and the limits."""
        self.note("start", (("arrival", self.next_arrival), *self.life.told()), now)
        self.note("config", self._limits.told(), now)
        events = self._pending.changes.events
        events[:] = [*events[-2:], *events[:-2]]

    def clock_judged(self, by_s: int, doubted: bool, now: Now) -> None:
        """Record that the wall clock stepped by `by_s` s, or (0) that it is now doubted, or trusted again. While it is
        doubted nothing expires. Otherwise absences count from now, as earlier times are by another clock."""
        self.witness.clock_judged(by_s, doubted, now)
        self._delivery.clock_judged()
        if not doubted:
            self._away.count_anew(now)

    def lapse(self, now: Now) -> None:
        """End, about once a minute, the subscriptions, queues and records of keys that were away for too long."""
        for key in self._away.too_long(now):
            self.rights.lan_ends(key, now)
            self._departure.gone(key, now)
            if self.directory.forget_local(key):
                self._pending.changes.locals_gone.append(key)

    # -- the end of a cycle ----------------------------------------------------------------------------------

    def take(self, now: Now) -> Decision:
        """Return the decisions of this cycle, after adding fetches for open windows and what recipients missed."""
        self.renewing.carry_out(now)
        if not self.copies.is_barred:
            self._delivery.fetch_what_is_wanted()
        self.outcomes.tell_missed()
        self._published.tell(now)
        self.pulls.look_up_more(now)
        return self._pending.take()

    def take_effects(self) -> list[Effect]:
        return self._pending.take_effects()


def _kernel(key: SigningKey, directory: Directory, limits: CoreLimits, recovered: Recovered) -> Kernel:
    """Return the state that the parts share, as the store has recovered it."""
    pending = Pending()
    return Kernel(
        key=key,
        directory=directory,
        book=Book(limits.learned_max),
        links=Links(),
        groups=Groups(directory.with_role(Role.OVERLAY)),
        queues=RecipientQueues(limits.queues, directory.met),
        routes=Routes(limits.routes, directory.rank),
        seen=Seen(limits.seen_recent_max),
        index=Index(limits.index, recovered.index_entries, recovered.index_shares, directory.met),
        arrivals=Arrivals(recovered.next_arrival),
        pending=pending,
        rejections=RejectionLog(directory.me, pending, limits.rejections),
        speaker=Speaker(key, pending),
        limits=limits,
    )


def _plans(kernel: Kernel) -> Plans:
    """Return the plans of messages, by the routing algorithms."""
    links, router_of = kernel.links, kernel.book.advertisements.router_of
    routing = Routing(kernel.directory, kernel.groups, kernel.routes, links.standing_of, router_of, links.is_app)
    return Plans(routing, kernel.revision)


def _recover_routes(kernel: Kernel, recovered: Recovered, now: Now) -> None:
    """Learn the routes that the store holds, and end those that do not count any more; no neighbour is there yet."""
    for route in recovered.routes:
        learned = kernel.directory.rank(route.neighbour) and kernel.routes.learn(route, now.judged_s) is not None
        kernel.routes.neighbour_down(route.neighbour, now.judged_s)
        if not learned:
            end_route(kernel.routes, kernel.pending, route, now)
