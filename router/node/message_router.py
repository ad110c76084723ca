"""The message router as an actor: it runs the cycle on this machine, one transaction after another (law 2).

A cycle takes all events since the last one began: verified reads, settlings, links that opened and closed. While a
commit runs, the next batch forms by itself. The actor waits for the commit only; the rest is `router/node/cycle.py`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Protocol

import trio
from msgspec import Struct

from router.actors.actor import TrioActor
from router.core.control.guests import FileLooked, FileWritten
from router.core.neighbours.directory import Neighbour
from router.core.routing.effects import (
    BeginAnew,
    DialNeighbour,
    InvitationAnswered,
    KeyRenewed,
    ListenFor,
    LookAtFile,
    Reconcile,
    TermsHeard,
    WriteGuests,
)
from router.core.routing.job import Job
from router.core.wire.crypto import PublicKey
from router.disk.log.logbook import Logbook
from router.disk.store.store import Store
from router.disk.store.terms import MapFull
from router.node.cycle import Cycle, Heard, VerifyJob, may_wait
from router.node.housekeeping import Tidy
from router.node.verifiers import Verifiers
from router.transport.whole_times import next_whole_s
from router.why.steps import Find, Remind

TICK_S = 1.0
SETTLINGS_WAIT_S = 0.2
"""How long settlings alone, known messages, and what is done each second wait for more and for messages: they are not
worth a commit of their own. They do not wait where a neighbour has more queued."""
AWAITED_WAIT_S = 0.01
"""How long settlings wait of which an app wants to hear."""
STRANGERS_WAIT_S = 0.02
"""How long messages of strangers alone wait for others: what strangers send may cost few commits."""


class Dials(Protocol):
    """The part of the dialler that deeds need (`router.node.dialler.Dialler`)."""

    def want(self, key: bytes) -> None: ...
    def reconcile(self, neighbours: Iterable[Neighbour]) -> None: ...


class Listeners(Protocol):
    """The part of the listeners of services that deeds need (`router.node.asked_listeners.AskedListeners`)."""

    def want(self, service: bytes, url: str) -> None: ...


class InvitationAnswers(Protocol):
    """The part of the node as a guest that deeds need (`router.node.guest.InvitationFiles`)."""

    async def answered(self, answer: InvitationAnswered) -> None: ...
    def heard(self, terms: TermsHeard) -> None: ...
    async def write_terms(self) -> None: ...


class File(Protocol):
    """The part of the configuration file that deeds need (`router.node.peers_file.PeersFile`)."""

    def look(self) -> FileLooked: ...
    async def write(self, deed: WriteGuests) -> FileWritten: ...


class RenewedKeys(Protocol):
    """The part of the kept keys that deeds need (`router.node.key_files.KeyFiles`)."""

    async def renewed(self, deed: KeyRenewed) -> None: ...


class BeginsAnew(Protocol):
    """The part of the node that deeds need to start it again (`router.node.node_starts.NodeStarts`)."""

    async def begin_anew(self, deed: BeginAnew) -> None: ...


class HomeFiles(Struct, frozen=True):
    """The files of the home that deeds change: invitations, the configuration, kept keys, and the node's life."""

    guest: InvitationAnswers
    configuration: File
    keys: RenewedKeys
    starts: BeginsAnew


class Drain(Struct, frozen=True):
    """Say goodbye on all links, take further settlings and commit everything; `done` is set then."""

    done: trio.Event


class MessageRouter(TrioActor):
    """Runs the cycle. If it fails, the node stops and recovers from disk."""

    fatal = True

    def __init__(
        self,
        cycle: Cycle,
        store: Store,
        logbook: Logbook,
        verifiers: int,
        dialler: Dials,
        files: HomeFiles,
        listeners: Listeners,
        drain_s: float,
    ) -> None:
        super().__init__()
        self.address = PublicKey(cycle.router.directory.me)
        self.cycle = cycle
        self._store = store
        self._logbook = logbook
        self._dialler = dialler
        self._files = files
        self._listeners = listeners
        self._drain_s = drain_s
        self._verifiers = Verifiers(verifiers, self._verified)
        self._searching = trio.CapacityLimiter(1)
        self._work = trio.Event()
        self._urgent = trio.Event()
        self._pause = trio.CancelScope()
        self._cycled = trio.Event()
        self._failure: Exception | None = None

    @property
    def unverified(self) -> int:
        """Return how many messages wait for their signatures to be checked."""
        return self._verifiers.backlog

    def on_start(self) -> None:
        self.nursery.start_soon(self._verifiers.run)
        self.nursery.start_soon(self._run_cycles)
        self.nursery.start_soon(self._tick)

    def on_receive(self, message: Any) -> None:
        match message:
            case Drain(done):
                self.nursery.start_soon(self._drain, done)

    def hear(self, heard: Heard) -> None:
        """Take an event, in the caller's task; the one inbox is the cycle's. A read is examined at once, so that
        verification runs during a commit. An exception here ends the router, not the caller."""
        if self.actor_stopped.is_set():
            return
        try:
            job = self.cycle.hear(heard)
            if job is not None:
                self._verifiers.submit(job)
        except Exception as error:
            self._failure = error
            self._work.set()
        self._wake()

    def _verified(self, jobs: list[Job]) -> None:
        self.cycle.verified(jobs)
        self._wake()

    def _wake(self) -> None:
        if self.cycle.wakes:
            self._work.set()
        if self.cycle.is_urgent:
            self._urgent.set()
        elif self.cycle.wakes and (wait_s := self._wait_s) < SETTLINGS_WAIT_S:
            self._pause.deadline = min(self._pause.deadline, trio.current_time() + wait_s)

    @property
    def _wait_s(self) -> float:
        """Return how long what waits now may wait for more."""
        if self.cycle.is_awaited:
            return AWAITED_WAIT_S
        return STRANGERS_WAIT_S if self.cycle.waits_for_more else SETTLINGS_WAIT_S

    async def _tick(self) -> None:
        while True:
            due_s = next_whole_s(TICK_S)
            await trio.sleep_until(due_s)
            self.cycle.lag.observe(trio.current_time() - due_s)
            self.cycle.tick()
            self._wake()

    async def _drain(self, done: trio.Event) -> None:
        self.cycle.drain()
        with trio.move_on_after(self._drain_s):
            while self.cycle.open_links.writers:
                await self._cycled.wait()
        self.cycle.stop()
        self._wake()
        while self.cycle.has_events:
            await self._cycled.wait()
        done.set()

    # -- cycles --------------------------------------------------------------------------------------------

    async def _run_cycles(self) -> None:
        while True:
            await self._work.wait()
            if may_wait(self.cycle) and self._failure is None:
                with trio.CancelScope(deadline=trio.current_time() + self._wait_s) as self._pause:
                    await self._urgent.wait()
            self._urgent = trio.Event()
            if self._failure is not None:
                raise self._failure
            if self.cycle.begin():
                self._do_deeds()
                await self._commit()
            self.cycle.finish()
            self._do_deeds()
            cycled, self._cycled = self._cycled, trio.Event()
            cycled.set()
            if not self.cycle.has_work:
                self._work = trio.Event()

    async def _commit(self) -> None:
        while True:
            try:
                if self._store.turns.is_here:
                    self._commit_timed()
                else:
                    await self._store.commits.run(self._commit_timed)
            except MapFull:
                self.cycle.apply_again()
                continue
            return

    def _commit_timed(self) -> None:
        """Commit, and count how long that took; in the loop or in the thread of the commits, while the loop reads
        neither."""
        began_s = time.perf_counter()
        self._store.commit()
        ended_s = time.perf_counter()
        self.cycle.commit_times.observe(ended_s - began_s)
        if (speed := self._store.commits.speed) is not None:
            speed.observe(began_s, ended_s)

    # -- deeds ---------------------------------------------------------------------------------------------

    def _do_deeds(self) -> None:
        for deed in self.cycle.take_deeds():
            match deed:
                case VerifyJob(job):
                    self._verifiers.submit(job)
                case DialNeighbour(key):
                    self._dialler.want(key)
                case ListenFor(service, url):
                    self._listeners.want(service, url)
                case Reconcile(neighbours):
                    self._dialler.reconcile(neighbours)
                case InvitationAnswered():
                    self.nursery.start_soon(self._files.guest.answered, deed)
                case TermsHeard():
                    self._files.guest.heard(deed)
                    self.nursery.start_soon(self._files.guest.write_terms)
                case KeyRenewed():
                    self.nursery.start_soon(self._files.keys.renewed, deed)
                case BeginAnew():
                    self.nursery.start_soon(self._files.starts.begin_anew, deed)
                case LookAtFile():
                    self.hear(self._files.configuration.look())
                case WriteGuests():
                    self.nursery.start_soon(self._write_guests, deed)
                case Tidy(now):
                    self.nursery.start_soon(self._logbook.tidy, now)
                case Find():
                    self.nursery.start_soon(self._find, deed)
                case Remind():
                    self.nursery.start_soon(self._remind, deed)

    async def _find(self, deed: Find) -> None:
        self.hear(await trio.to_thread.run_sync(deed.find, limiter=self._searching, abandon_on_cancel=True))

    async def _write_guests(self, deed: WriteGuests) -> None:
        self.hear(await self._files.configuration.write(deed))

    async def _remind(self, deed: Remind) -> None:
        await trio.sleep(deed.seconds)
        self.hear(deed.news)
