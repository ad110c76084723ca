"""The message router's cycle, without I/O and without waiting: hear, feed, decide, apply; then, once committed, carry
out.

    job = cycle.hear(event)       # at each event; a read's job goes to the verifiers at once
    if cycle.begin():             # feed, decide, apply: there is a transaction to commit
        ...                       # the caller commits it, and `hear` may be called meanwhile
    cycle.finish()                # it is on disk: carry out the decisions
    cycle.take_deeds()            # after each of these: slow work, which the caller starts

The message router (`node/message_router.py`) runs it on LMDB, sockets and the clocks of the machine; the simulated
world of the tests runs the same code.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Protocol

from msgspec import Struct

from router.core.control.guests import FileLooked, FileWritten
from router.core.log import events as ev
from router.core.log.histogram import BRIEF_S, Histogram
from router.core.log.service_traffic import TrafficCounts
from router.core.neighbours.directory import STRANGERS, WHY, Standing
from router.core.router import Router
from router.core.routing.effects import (
    AnswerInquiry,
    Asking,
    Changes,
    Decision,
    Effect,
    Fetch,
    LookAtQueue,
    LookUpPulled,
    LookUpPulls,
    NeighbourAnswered,
    Outside,
    ServiceAnswered,
    Settle,
)
from router.core.routing.intake import Arrived
from router.core.routing.job import Job
from router.core.routing.read_queue import ReadQueue
from router.core.service.roles import Role
from router.core.wire.admin import Inquiry, without_number
from router.core.wire.lifetime import SECOND_NS
from router.core.wire.now import Now
from router.core.wire.reasons import Reason
from router.disk.store.terms import Applied, MapFull
from router.node.admin import Inquiries
from router.node.housekeeping import Housekeeping, HousekeepingLimits, HouseStore, SegmentedLog, Tidy
from router.node.in_flight import InFlight
from router.node.link_events import (
    Clock,
    LinkClosed,
    LinkEvent,
    LinkOpened,
    Measured,
    MissedSome,
    NeighbourRunStopped,
    NeighbourSettled,
    NetworkChanged,
    OwnRunShown,
    RefusedOne,
)
from router.node.open_links import OpenLinks
from router.node.orders import ClearQueue, ClockConfirmed, Order, Reconfigured, ServiceNews
from router.node.questions.question import AskedStore
from router.node.wall_clock import WallClock
from router.settings.config import Config
from router.why.questions import Fates, FateStore
from router.why.steps import Find, News, Remind

log = logging.getLogger(__name__)

DEFAULTS = Config()

REFUSES_US = "it refuses our messages and grants us no right to send; ask its operator"


class CycleStore(HouseStore, AskedStore, FateStore, Protocol):
    """The part of a store that a cycle uses (`router.disk.store.store.Store`)."""

    def apply(self, changes: Changes, wall_s: int) -> Applied: ...
    def known(self, ids: Iterable[tuple[int, bytes]]) -> set[bytes]: ...
    def has_room_for(self, size: int) -> bool: ...
    def keep_history_for(self, service: bytes | None) -> None: ...


class CycleLog(SegmentedLog, Protocol):
    """The part of the event log that a cycle uses (`router.disk.log.logbook.Logbook`)."""

    def committed(self, logged: ev.Logged, now: Now) -> None: ...


class VerifyJob(Struct, frozen=True):
    """Have the signatures of a read checked, and give the job to `Cycle.verified`."""

    job: Job


Heard = LinkEvent | Order | FileLooked | FileWritten | News
Deed = VerifyJob | Outside | Tidy | Find | Remind


class CycleLimits(Struct, frozen=True):
    """Limits of a transaction, in messages and bytes, and the time to settle when the node stops."""

    messages_max: int = DEFAULTS.store.commit_messages_max
    bytes_max: int = DEFAULTS.store.commit_bytes_max
    drain_s: float = DEFAULTS.link.goodbye_s


class Cycle:
    """Owns the deciding core, the store and the open links, and the one inbox for all events.

    `wakes`: an event needs a cycle; `is_urgent`: that cycle should not wait for messages, `is_awaited`: not for long.
    `commit_times`: the seconds of each commit; `lag`: by how many the loop woke too late. The caller observes both.
    """

    def __init__(
        self,
        router: Router,
        store: CycleStore,
        logbook: CycleLog,
        in_flight: InFlight,
        clock: Clock,
        wall: WallClock,
        limits: CycleLimits,
        housekeeping: HousekeepingLimits,
        inquiries: Inquiries,
        fates: Fates,
        free_bytes: Callable[[], int],
    ) -> None:
        self.router = router
        self.store = store
        self.wall = wall
        self.open_links = OpenLinks()
        self.counts, self.commits = TrafficCounts(router.directory.is_between_services), 0
        self.commit_times, self.lag = Histogram(BRIEF_S), Histogram(BRIEF_S)
        self.wakes = self.is_urgent = self.is_awaited = self.is_draining = False
        self._logbook, self._in_flight = logbook, in_flight
        self._clock = clock
        self._inquiries = inquiries
        self._fates = fates
        self._inbox: list[Heard] = []
        self._opening: set[int] = set()  # links whose `LinkOpened` is not yet fed: their reads must not overtake it
        self._reads = ReadQueue(limits.messages_max, limits.bytes_max)
        self._deeds: list[Deed] = []
        self._decision = Decision()
        self._began = self.now()
        keeps = router, store, logbook, self.open_links, housekeeping, self._began, wall, self._deeds, free_bytes
        self.housekeeping = Housekeeping(*keeps)
        store.keep_history_for(router.directory.with_role(Role.OVERLAY))
        router.begin(self._began)

    def __repr__(self) -> str:
        return f"<cycle {self.commits}: {len(self._inbox)} events wait, {self._reads!r}>"

    def __len__(self) -> int:
        """Return how many events wait to be fed."""
        return len(self._inbox)

    def now(self) -> Now:
        return self.wall.now(Now(self._clock.wall_ns(), self._clock.mono_ns()))

    # -- hearing -----------------------------------------------------------------------------------------------

    def hear(self, heard: Heard) -> Job | None:
        """Take an event; return the job of a read, whose signatures are to be checked while a commit runs."""
        match heard:
            case Arrived():
                return self._examine(heard)
            case Measured():  # usually commits with the next events
                self.wakes |= self.housekeeping.is_news(heard)
            case NeighbourSettled(number) | RefusedOne(number, reason=Reason.DUPLICATE):
                self.wakes, self.is_urgent = True, self.is_urgent or _makes_room(self.router, number)
                self.is_awaited = self.is_awaited or self.is_draining or _is_awaited(self.router, heard)
            case _:
                if isinstance(heard, LinkOpened):
                    self._opening.add(heard.link_writer.number)
                self.wakes = self.is_urgent = True
        self._inbox.append(heard)
        return None

    def verified(self, jobs: list[Job]) -> None:
        """Take reads whose signatures have been checked; those of strangers and of known messages are not urgent."""
        self._reads.add(jobs)
        self.wakes = True
        self.is_urgent |= _are_urgent(jobs)

    def tick(self) -> None:
        """Make housekeeping due; called every second."""
        self.housekeeping.is_due = self.wakes = True

    def drain(self) -> None:
        """Say goodbye on all links; settlings are still taken."""
        self.is_draining = True
        for writer in self.open_links.writers.values():
            writer.close(Reason.SHUTDOWN, "the node stops")

    def stop(self) -> None:
        """Log in the next cycle that the node stops."""
        self.router.rejections.write_all(self.now())
        self.router.note("stop", (), self.now())
        self.wakes = self.is_urgent = True

    def take_deeds(self) -> list[Deed]:
        """Return the deeds for the caller to start, each once."""
        deeds, self._deeds[:] = self._deeds[:], []
        return deeds

    def is_owed(self, key: bytes) -> bool:
        """Whether messages are queued for this key, or an invitation by it is to be redeemed."""
        queue = self.router.queues.by_recipient.get(key)
        return (queue is not None and queue.total.messages > 0) or self.router.redeeming.is_open(key)

    @property
    def has_events(self) -> bool:
        """Whether events or decisions wait to be fed, decided or written."""
        return bool(self._inbox or self._reads or self.router.has_decided)

    @property
    def waits_for_more(self) -> bool:
        """Whether only reads of strangers are to be decided, which may wait for a transaction of others."""
        return not (self.is_urgent or all(job.is_known for job in self._reads))

    @property
    def has_work(self) -> bool:
        """Whether the next cycle may begin at once."""
        keeps_house = self.housekeeping.is_due or self.router.purges
        return bool(self._inbox or self._reads or keeps_house or self.router.has_more_to_fetch)

    def _examine(self, arrived: Arrived) -> Job | None:
        if arrived.link in self._opening:
            self._inbox.append(arrived)
            self.wakes = True
            return None
        job = self.router.examine(arrived, self.now())
        if job is None:
            self._in_flight.give_back(arrived.link, arrived.size)
        return job

    # -- deciding ----------------------------------------------------------------------------------------------

    def begin(self) -> bool:
        """Feed, decide and apply; return whether a transaction must be committed before `finish`. See `apply_again`."""
        self.wakes = self.is_urgent = self.is_awaited = False
        self.housekeeping.begin_cycle(self.now())
        now = self._began = self.now()  # after the clock may have been judged anew
        heard, self._inbox = self._inbox, []
        self._opening.clear()
        for one in heard:
            self._feed(one, now)
            if isinstance(one, Measured | ClockConfirmed):  # by which the clock may have been judged anew
                now = self._began = self.wall.now(Now(now.shown_ns, now.mono_ns))
        self._decide(self._reads.take(), now)
        self.is_urgent |= _are_urgent(self._reads)
        self._decision = self.router.take(now)
        if not (self.housekeeping.take_dead_rows() or self._decision.changes):
            self._applied: Applied | None = None
            return False
        self.apply_again()
        return True

    def apply_again(self) -> None:
        """Apply the changes, for the first time or after a commit that found the store's map too small."""
        while True:
            with suppress(MapFull):
                self._applied = self.store.apply(self._decision.changes, self._began.earliest_ns // SECOND_NS)
                return

    def finish(self) -> None:
        """Carry out the effects, after the applied changes have been committed."""
        now, applied = self.now(), self._applied
        if applied is not None:
            self.commits += 1
            self.router.released(applied.released)
            self.router.forgot(applied.forgotten)
            if applied.logged is not None:
                self._logbook.committed(applied.logged, now)
        decision, self._decision = self._decision, Decision()
        self.counts.add(decision.changes.events)
        self._carry_out(decision.effects, now)

    def _feed(self, heard: Heard, now: Now) -> None:
        match heard:
            case LinkOpened(writer, key, owner, dialled, hello):
                self.open_links.writers[writer.number] = writer
                if self.is_draining:
                    writer.close(Reason.SHUTDOWN, "the node stops")
                self.router.link_up(
                    writer.number, key, owner, hello, now, dialled=dialled, place=writer.place, ip=writer.ip
                )
            case LinkClosed(number, _):
                self.open_links.note_end(self.router, number, now)
                self.router.link_down(number, now)
                self._inquiries.of_services.look(self.router, now)
                self.open_links.remove(number)
            case NeighbourSettled(number, n):
                self.router.settled(number, n, now)
            case RefusedOne(number, k, reason, text):
                self.router.refused(number, k, reason, text)
                if reason is Reason.NOT_AUTHORISED:
                    self._warn_once(number, k)
            case MissedSome(number, missed):
                self.router.catch_ups.dropped(number, missed, now)
            case Measured(number, rtt_ns, offset_ns, head):
                self.open_links.measured[number] = heard
                self.router.witness.heard(number, rtt_ns, offset_ns, head, now)
                self.housekeeping.heard_clock(heard, now)
            case OwnRunShown() | NeighbourRunStopped():
                _take_run(self.router, heard, now)
            case NetworkChanged():
                self.open_links.network_changed(now)
            case Arrived():
                self._deeds += [] if (job := self._examine(heard)) is None else [VerifyJob(job)]
            case _:
                self._feed_order(heard, now)

    def _feed_order(self, heard: Order | FileLooked | FileWritten | News, now: Now) -> None:
        """Feed what is no link's event: an order of the operator, or the outcome of a deed."""
        match heard:
            case ClearQueue(recipient):
                self.router.clear_queue(recipient, now)
            case Reconfigured(neighbours, offers, inviters):
                self.router.neighbours_changed(neighbours, now)
                self.router.guests.try_again()
                self.router.redeeming.given(offers, now, inviters)
            case FileLooked():
                self.router.guests.looked(heard, now)
            case FileWritten():
                self.router.guests.file_written(heard, now)
            case ServiceNews(service, news):
                self.router.tell_service(service, news.inquiry(), now)
            case ClockConfirmed():
                self.housekeeping.confirm_clock(now)
            case _:
                self._deeds += self._fates.hear(self, heard, now)

    def _warn_once(self, number: int, k: int) -> None:
        """Warn once per link that a neighbour takes nothing from us, if it refused message `k` of an app or service."""
        writer, link = self.open_links.writers.get(number), self.router.links.get(number)
        if writer and link and link.standing is not Standing.LOCAL and not writer.problem and not link.is_own(k):
            writer.problem = REFUSES_US
            log.warning("%s %s", writer.where, writer.problem)

    def _decide(self, jobs: list[Job], now: Now) -> None:
        fresh = [one for job in jobs for one in job.to_look_up()]
        on_disk = self.store.known(fresh) if fresh else set()
        if jobs:
            size = sum(job.arrived.size for job in jobs)
            self.router.set_disk_full(self.housekeeping.is_disk_full or not self.store.has_room_for(size))
            self.router.decide(jobs, on_disk, now)

    # -- effects -----------------------------------------------------------------------------------------------

    def _carry_out(self, effects: Iterable[Effect], now: Now) -> None:
        """Carry out effects in the order in which they were decided, in which messages have their numbers on a link;
        further effects that follow from them come after all of them."""
        effects = [*effects]
        for effect in effects:  # the list grows meanwhile
            if isinstance(effect, Asking):
                self._go_on(effect, now)
                effects += self.router.take_effects()
            elif isinstance(effect, Outside):
                self._deeds.append(effect)
            else:
                if isinstance(effect, Settle):
                    self._in_flight.give_back(effect.link, effect.size)
                self.open_links.write(effect)

    def _go_on(self, effect: Asking, now: Now) -> None:
        """Give the router the answer that it asked for, on which it decides at once."""
        match effect:
            case Fetch():
                self.router.fetched(effect.recipient, *self.store.fetch(*effect), now)
            case LookAtQueue():
                self.router.stranded.look(effect, self.store)
            case ServiceAnswered():
                self._inquiries.of_services.answered(self.router, effect, now)
            case LookUpPulled():
                self.router.pulls.looked_up(effect, self.store.message(effect.message), now)
            case LookUpPulls():
                known = self.store.records.known(self.router.pulls.look_up(effect))
                self.router.pulls.asked(effect, known, now, self.store)
            case NeighbourAnswered():
                self._deeds += self._fates.answered(self, effect.neighbour, effect.text, now)
            case AnswerInquiry():
                self._inquire(effect, now)

    def _inquire(self, effect: AnswerInquiry, now: Now) -> None:
        link, ask = effect.link, effect.inquiry.ask
        mark, argument = without_number(effect.inquiry.argument)
        if effect.neighbour is not None:
            self._deeds += self._fates.asked(self, link, effect.neighbour, argument, now, mark)
        elif ask == WHY:
            self._deeds += self._fates.ask(self, link, argument, effect.service, now, mark)
        else:
            self._inquiries.ask(self, link, Inquiry(ask, argument), now, mark)


def may_wait(cycle: Cycle) -> bool:
    """Whether the next transaction may begin a moment later, to take more with it: only settlings, the house or reads
    of strangers wait for it."""
    return not (cycle.is_urgent or cycle.router.purges or cycle.router.has_more_to_fetch)


def _makes_room(router: Router, number: int) -> bool:
    """Whether what a neighbour settles makes room for more that waits for it; of strangers never, for whom no
    transaction is hurried."""
    link = router.links.get(number)
    queue = None if link is None or link.charged == STRANGERS else router.queues.by_recipient.get(link.key)
    return queue is not None and queue.behind


def _is_awaited(router: Router, heard: NeighbourSettled | RefusedOne) -> bool:
    """Whether a publisher, or an answer of this router's own, waits for what a neighbour settles."""
    link = router.links.get(heard.link)
    if link is None or isinstance(heard, RefusedOne):
        return False
    return bool(link.unsaid) or router.outcomes.are_awaited(link, heard.n)


def _take_run(router: Router, heard: OwnRunShown | NeighbourRunStopped, now: Now) -> None:
    """Take a statement about another run of this node's key, or of a neighbour's, and warn the operator of news."""
    if isinstance(heard, OwnRunShown):
        if problem := router.shown_run(heard.said, now):
            log.warning("%s", problem)
    elif problem := router.copies.neighbour_stopped(heard.key, heard.said):
        log.warning("%s: %s", router.directory.name_of(heard.key) or heard.where, problem)


def _are_urgent(jobs: Iterable[Job]) -> bool:
    return any(job.link.charged != STRANGERS and not job.is_known for job in jobs)
