"""The message router as an actor: it runs the deciding core in cycles, one transaction each (law 2).

A cycle takes everything that was told since the last one began: verified reads, settlings, links that came and went. It
decides, commits, then carries out. While a commit runs, the next batch forms by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import trio

from router.actors.actor import TrioActor
from router.core.link.table import GOODBYE_S
from router.core.log import events as ev
from router.core.routing.directory import WHY, Neighbour
from router.core.routing.effects import (
    Close,
    Decision,
    Dial,
    Effect,
    Fetch,
    Inquire,
    NeighbourAnswered,
    Now,
    Pulled,
    SendItem,
    SendOwn,
    SendParcel,
    Settle,
)
from router.core.routing.intake import Arrived
from router.core.routing.job import Job
from router.core.routing.router import Router
from router.core.wire.crypto import PublicKey
from router.core.wire.lifetime import SECOND_NS
from router.core.wire.reasons import Reason
from router.disk.log.logbook import Logbook
from router.disk.store.store import Store
from router.disk.store.terms import MapFull
from router.node.admin import Inquiries
from router.node.connection import Clock, Closed, LinkWriter, Measured, Opened, RefusedOne, Settled
from router.node.housekeeping import Housekeeping, HousekeepingLimits
from router.node.in_flight import InFlight
from router.node.verifiers import Verifiers
from router.node.wall_clock import WallClock
from router.settings.config import Config
from router.why.questions import Fates

log = logging.getLogger(__name__)

DEFAULTS = Config()
TICK_S = 1.0
SETTLINGS_WAIT_S = 0.005
REFUSES_US = "it refuses our messages and grants us no right to send; ask its operator"


@dataclass(frozen=True, slots=True)
class ClearQueue:
    """The operator drops a recipient's queue."""

    recipient: bytes


@dataclass(frozen=True, slots=True)
class Reconfigured:
    """The configuration of neighbours was read again: all of them, as they are now."""

    neighbours: tuple[Neighbour, ...]


@dataclass(frozen=True, slots=True)
class Between:
    """To be done between two transactions, when store and router agree and may be looked at."""

    act: Callable[[Now], None]


@dataclass(frozen=True, slots=True)
class Drain:
    """Say goodbye to everybody, take what they still settle, write it all down; `done` is set then."""

    done: trio.Event


@dataclass(frozen=True, slots=True)
class Waiting:
    """Answered with whether something is owed to this key."""

    key: bytes


@dataclass(frozen=True, slots=True)
class CycleLimits:
    """A transaction takes so much of what is waiting; neighbours have so long to settle when the node stops."""

    messages_max: int = DEFAULTS.store.commit_messages_max
    bytes_max: int = DEFAULTS.store.commit_bytes_max
    drain_s: float = GOODBYE_S


class MessageRouter(TrioActor):
    """Owns the deciding core, the store and the link_writers. If it fails, the node stops and recovers from disk."""

    fatal = True

    def __init__(
        self, router: Router, store: Store, logbook: Logbook, in_flight: InFlight, clock: Clock, verifiers: int,
        wall: WallClock, limits: CycleLimits, housekeeping: HousekeepingLimits, dial: Callable[[bytes], None],
        inquiries: Inquiries, fates: Fates,
    ) -> None:  # fmt: skip
        super().__init__()
        self.address = PublicKey(router.directory.me)
        self.router = router
        self.store = store
        self._logbook = logbook
        self._in_flight = in_flight
        self._clock = clock
        self.wall = wall
        self._limits = limits
        self._dial = dial
        self._inquiries = inquiries
        inquiries.attach(self)
        self._fates = fates
        fates.attach(self)
        self._verifiers = Verifiers(verifiers, self._verified)
        self.link_writers: dict[int, LinkWriter] = {}
        self.measured: dict[int, Measured] = {}
        self._told: list[Any] = []
        self._jobs: list[Job] = []
        self._work = trio.Event()
        self._urgent = trio.Event()
        self.counts = ev.Counts()
        self.commits = 0
        self._is_draining = False
        self._cycled = trio.Event()
        self._housekeeping = Housekeeping(
            router, store, logbook, self.link_writers, self.measured, housekeeping, self.now(), wall, self._tidy
        )

    def on_start(self) -> None:
        self.router.begin(self.now())
        self.nursery.start_soon(self._verifiers.run)
        self.nursery.start_soon(self._run_cycles)
        self.nursery.start_soon(self._tick)

    def on_receive(self, message: Any) -> Any:
        """`Arrived` is examined at once: verification runs while a commit does; the rest waits for the cycle."""
        match message:
            case Arrived():
                self._examine(message)
            case Drain(done):
                self.nursery.start_soon(self._drain, done)
            case Waiting(key):
                queue = self.router.queues.by_recipient.get(key)
                return queue is not None and queue.total.messages > 0
            case Measured():
                self._told.append(message)  # commits with whatever comes next
                if self._housekeeping.is_news(message):
                    self._work.set()
            case _:
                self._told.append(message)
                self._work.set()
                if not isinstance(message, Settled):
                    self._urgent.set()
        return None

    def clear(self, recipient: bytes) -> None:
        """Drop a recipient's queue in the next cycle."""
        self._told.append(ClearQueue(recipient))
        self._work.set()

    def between(self, act: Callable[[Now], None]) -> None:
        """Do it in the next cycle."""
        self._told.append(Between(act))
        self._work.set()
        self._urgent.set()

    def confirm_clock(self) -> None:
        """The operator says that it is right; holds from the next cycle on."""
        self.between(self._housekeeping.confirm_clock)

    def now(self) -> Now:
        return self.wall.now(Now(self._clock.wall_ns(), self._clock.mono_ns()))

    # -- before the cycle ----------------------------------------------------------------------------------

    def _examine(self, arrived: Arrived) -> None:
        if any(isinstance(one, Opened) and one.link_writer.number == arrived.link for one in self._told):
            self._told.append(arrived)  # its link comes up in the next cycle; it must not overtake that
            return
        job = self.router.examine(arrived, self.now())
        if job is None:
            self._in_flight.give_back(arrived.link, arrived.size)
        else:
            self._verifiers.submit(job)

    def _verified(self, jobs: list[Job]) -> None:
        self._jobs += jobs
        self._work.set()
        self._urgent.set()

    async def _tick(self) -> None:
        while True:
            await trio.sleep(TICK_S)
            self._housekeeping.is_due = True
            self._work.set()

    def _tidy(self, now: Now) -> None:
        self.nursery.start_soon(self._logbook.tidy, now)

    async def _drain(self, done: trio.Event) -> None:
        self._is_draining = True
        for link_writer in self.link_writers.values():
            link_writer.close(Reason.SHUTDOWN, "the node stops")
        with trio.move_on_after(self._limits.drain_s):
            while self.link_writers:
                await self._cycled.wait()
        self.router.door.write_all(self.now())
        self.router.note("stop", (), self.now())
        self._work.set()
        while self._told or self._jobs or self.router.has_decided:
            await self._cycled.wait()
        done.set()

    # -- cycles --------------------------------------------------------------------------------------------

    async def _run_cycles(self) -> None:
        while True:
            await self._work.wait()
            if self._verifiers.is_busy:  # settlings alone are worth no commit when messages are about to come
                with trio.move_on_after(SETTLINGS_WAIT_S):
                    await self._urgent.wait()
            self._urgent = trio.Event()
            await self._cycle()
            cycled, self._cycled = self._cycled, trio.Event()
            cycled.set()
            keeps_house = self._housekeeping.is_due or self.router.purges
            if not (self._told or self._jobs or keeps_house or self.router.has_more_to_fetch):
                self._work = trio.Event()

    async def _cycle(self) -> None:
        now = self.now()
        self._housekeeping.begin_cycle(now)
        told, self._told = self._told, []
        for one in told:
            self._feed(one, now)
        self._decide(self._take_jobs(), now)
        decision = self.router.take(now)
        if self._housekeeping.take_dead_rows() or decision.changes:
            await self._commit(decision, now)
        self.counts.add(decision.changes.events)
        self._carry_out(decision.effects, now)

    def _feed(self, message: object, now: Now) -> None:
        match message:
            case Opened(link_writer, key, owner, dialled, hello):
                self.link_writers[link_writer.number] = link_writer
                if self._is_draining:
                    link_writer.close(Reason.SHUTDOWN, "the node stops")
                self.router.link_up(
                    link_writer.number, key, owner, hello, now, dialled=dialled, place=link_writer.place
                )
            case Closed(number, _):
                self.router.link_down(number, now)
                self.link_writers.pop(number, None)
                self.measured.pop(number, None)
            case Settled(number, n):
                self.router.settled(number, n, now)
            case RefusedOne(number, k, reason, text):
                self.router.refused(number, k, reason, text)
                if reason is Reason.NOT_AUTHORISED:
                    self._warn_once(number)
            case Measured(number, rtt_ns, offset_ns, head):
                self.measured[number] = message
                self.router.witness.heard(number, rtt_ns, offset_ns, head, now)
                self._housekeeping.heard_clock(message, now)
            case Arrived():
                self._examine(message)
            case ClearQueue(recipient):
                self.router.clear_queue(recipient)
            case Reconfigured(neighbours):
                self.router.neighbours_changed(neighbours, now)
            case Between(act):
                act(now)
            case _:
                log.error("the message router was told %r, which it does not know", type(message).__name__)

    def _warn_once(self, number: int) -> None:
        """The operator should hear that a neighbour takes nothing from us; each message's fate is in the log."""
        link_writer = self.link_writers.get(number)
        if link_writer is not None and not link_writer.problem:
            link_writer.problem = REFUSES_US
            log.warning("%s %s", link_writer.where, link_writer.problem)

    def _take_jobs(self) -> list[Job]:
        """As many verified reads as one transaction takes; the rest waits for the next."""
        messages = size = taken = 0
        for job in self._jobs:
            if taken and (messages > self._limits.messages_max or size > self._limits.bytes_max):
                break
            messages += len(job.fresh)
            size += job.arrived.size
            taken += 1
        jobs, self._jobs = self._jobs[:taken], self._jobs[taken:]
        return jobs

    def _decide(self, jobs: list[Job], now: Now) -> None:
        fresh = [one for job in jobs for one in job.to_look_up()]
        on_disk = self.store.known(fresh) if fresh else set()
        if jobs:
            size = sum(job.arrived.size for job in jobs)
            self.router.set_disk_full(self._housekeeping.is_disk_full or not self.store.has_room_for(size))
            self.router.decide(jobs, on_disk, now)

    async def _commit(self, decision: Decision, now: Now) -> None:
        while True:
            try:
                applied = self.store.apply(decision.changes, now.earliest_ns // SECOND_NS)
                await trio.to_thread.run_sync(self.store.commit)
            except MapFull:
                continue
            break
        self.commits += 1
        self.router.released(applied.released)
        self.router.forgot(applied.forgotten)
        if applied.log_value:
            self._logbook.committed(applied.log_value, now)

    # -- effects -------------------------------------------------------------------------------------------

    def _carry_out(self, effects: Iterable[Effect], now: Now) -> None:
        link_writers = self.link_writers
        for effect in effects:
            if isinstance(effect, SendParcel):
                link_writer = link_writers.get(effect.link)
                if link_writer is not None:
                    link_writer.hand(effect.parcel, effect.start, effect.stop, effect.local)
            elif isinstance(effect, Settle):
                self._in_flight.give_back(effect.link, effect.size)
                link_writer = link_writers.get(effect.link)
                if link_writer is not None:
                    link_writer.settle(effect.n, effect.refusals)
            elif isinstance(effect, Fetch):
                self._fetch(effect, now)
            elif isinstance(effect, Dial):
                self._dial(effect.key)
            elif isinstance(effect, Pulled):
                if found := self.store.message(effect.message):
                    self.router.pulled(effect.link, effect.group, *found, now)
                    self._carry_out(self.router.take_effects(), now)
            elif isinstance(effect, Inquire):
                self._inquire(effect, now)
            elif isinstance(effect, NeighbourAnswered):
                self._fates.answered(effect.neighbour, effect.text)
            else:
                link_writer = link_writers.get(effect.link)
                if link_writer is not None:
                    self._speak(link_writer, effect)

    def _inquire(self, effect: Inquire, now: Now) -> None:
        inquiry = effect.inquiry
        if effect.neighbour is not None:
            self._fates.asked(effect.link, effect.neighbour, inquiry.argument)
        elif inquiry.ask == WHY:
            self._fates.ask(effect.link, inquiry.argument, effect.service)
        else:
            self.router.answer(effect.link, self._inquiries.answer(inquiry), now)
            self._carry_out(self.router.take_effects(), now)

    def _speak(self, link_writer: LinkWriter, effect: SendOwn | SendItem | Close) -> None:
        if isinstance(effect, SendOwn):
            link_writer.tell(effect.wire)
        elif isinstance(effect, SendItem):
            link_writer.say(effect.item)
        else:
            if effect.reason is Reason.NOT_AUTHORISED and effect.text:
                log.warning("%s is not let in: %s", link_writer.where, effect.text)
            link_writer.close(effect.reason, effect.text)

    def _fetch(self, effect: Fetch, now: Now) -> None:
        owed, more = self.store.fetch(effect.recipient, effect.position, effect.messages, effect.bytes)
        self.router.fetched(effect.recipient, owed, more, now)
        self._carry_out(self.router.take_effects(), now)
