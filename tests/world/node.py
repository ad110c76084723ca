"""A node of the world: the shipped cycle on a store in memory, simulated clocks, and connections that are `Port`s."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from rigs.plain_questions import plain_questions
from rigs.plain_store import Disk
from samples.core import ROLES

from router.core.control.guests import FileLooked, FileWritten
from router.core.control.redeeming import UnansweredInvitation
from router.core.link.machine import RemoteProtocolError
from router.core.link.session import Offer, Session
from router.core.log.account import Account
from router.core.log.alarms import REPEATED, UNACCOUNTED
from router.core.log.events import Logged
from router.core.log.life import Life, Restored, next_life
from router.core.neighbours.directory import Directory, Neighbour, ServiceFacts
from router.core.router import Router
from router.core.routing.effects import (
    BeginAnew,
    DialNeighbour,
    InvitationAnswered,
    LookAtFile,
    TermsHeard,
    WriteGuests,
)
from router.core.routing.job import Job
from router.core.routing.limits import CoreLimits
from router.core.routing.recovered import Recovered
from router.core.service.roles import Role
from router.core.wire.address import TransportAddress
from router.core.wire.crypto import PublicKey, SigningKey, digest
from router.core.wire.link_items import LogHead, Run
from router.core.wire.now import Now
from router.core.wire.succession import ANSWERS_S, KeySuccession, formers, make_succession
from router.disk.limits import StoreLimits
from router.disk.log.search import LogSnapshot
from router.node.admin import Inquiries
from router.node.cycle import Cycle, CycleLimits, CycleLog, CycleStore, Heard, VerifyJob
from router.node.housekeeping import HousekeepingLimits, Tidy
from router.node.in_flight import InFlight
from router.node.link_events import LinkClosed
from router.node.orders import ClearQueue, ClockConfirmed, Reconfigured, ServiceNews
from router.node.questions.finder import load_questions
from router.node.verifier_process import verdicts
from router.node.wall_clock import ClockLimits, WallClock
from router.service.verbs.add_neighbour import NeighbourUnreachable
from router.why.questions import Fates
from router.why.steps import Find, Remind
from world.port import Port
from world.time import Time

PLENTY = 1 << 40


class AnyStore(CycleStore, Protocol):
    """The interface of a store that a node needs; `router.disk.store.store.Store` and `plain_store.PlainStore`
    implement it."""

    def recover(self, router_key: bytes) -> Recovered: ...
    def commit(self) -> None: ...
    def close(self) -> None: ...
    def begin_life(self, restored: Restored) -> None: ...

    @property
    def life(self) -> Life: ...


class AnyLog(CycleLog, Protocol):
    """The interface of an event log that a node needs, as `MemoryLog` and `sealed_log.SealedLog` implement it."""

    def head(self) -> LogHead | None: ...
    def tidy(self) -> None: ...
    def close(self) -> None: ...
    def log(self) -> LogSnapshot: ...


@dataclass(frozen=True)
class Settings:
    """A node's role as a few numbers. Windows are small, so that they are reached."""

    strangers: bool = False
    claims: bool = False
    """Whether the node claims its runs, as nodes do that may be renewed or copied."""
    join_open: bool = False
    window_messages: int = 16
    window_bytes: int = 8 << 10
    in_flight_bytes: int = 1 << 20
    commit_s: float = 0.004
    tick_s: float = 1.0
    drain_s: float = 2.0
    limits: CoreLimits = field(default_factory=CoreLimits)
    store: StoreLimits = field(default_factory=lambda: StoreLimits(keep_s=30))
    cycle: CycleLimits = field(default_factory=CycleLimits)
    housekeeping: HousekeepingLimits = field(default_factory=HousekeepingLimits)
    clock: ClockLimits = field(default_factory=ClockLimits)


@dataclass
class Clocks:
    """The steady clock of the world, and the node's own wall clock, which is `ahead_ns` of the world's."""

    time: Time
    ahead_ns: int = 0

    def wall_ns(self) -> int:
        return self.time.now().wall_ns + self.ahead_ns

    def mono_ns(self) -> int:
        return self.time.mono_ns


class Saved(NamedTuple):
    """A snapshot of a node: its disk, and how many batches its log had, at a Unix second."""

    disk: Disk
    batches: int
    at_s: int


class Node:
    """A node. A crash loses memory and the uncommitted batch; the disk, the configuration and the log stay."""

    def __init__(
        self,
        time: Time,
        name: str,
        key: SigningKey,
        settings: Settings,
        open_store: Callable[[Disk, StoreLimits, bytes], AnyStore],
        open_log: Callable[[Node], AnyLog],
    ) -> None:
        self.time = time
        self.clocks = Clocks(time)
        self.name = name
        self.key = key
        self.settings = settings
        self.chain: list[KeySuccession] = []
        self.disk = Disk()
        self.neighbours: dict[bytes, Neighbour] = {}
        self.configured: set[bytes] = set()
        self.public: set[bytes] = set()
        self.offers: list[UnansweredInvitation] = []
        self.terms: dict[bytes, bool] = {}  # by key of an inviter: whether it lets this node do anything
        self.let_in: dict[bytes, bool] = {}  # by the id of an invitation: the answer of its router
        self.services: dict[bytes, str] = {}
        self.addresses: tuple[TransportAddress, ...] = ()
        self.log: list[Logged] = []
        self.log_lost: list[Logged] = []
        self.violations: list[RemoteProtocolError] = []
        self.dial: Callable[[bytes], None] = lambda key: None
        self._open_store = open_store
        self._open_log = open_log
        self._numbers = 0
        self.lives = 0
        self.alive = False
        self.disk_full = False

    def __repr__(self) -> str:
        return f"<node {self.name}: {self.router!r}>" if self.alive else f"<node {self.name}: dead>"

    @property
    def address(self) -> PublicKey:
        return self.key.public

    @property
    def takes_links(self) -> bool:
        """Whether it runs, and has not stopped as the older of two copies."""
        return self.alive and not self.router.copies.is_barred

    # -- life and death --------------------------------------------------------------------------------------

    def start(self) -> None:
        assert not self.alive
        self.alive = True
        self.lives += 1
        self.ports: dict[int, Port] = {}
        self._verified_ns = 0
        self._busy = self._planned = False
        settings = self.settings
        boot = self.time.random.randbytes(16)
        self.store = self._open_store(self.disk, settings.store, boot)
        recovered = self.store.recover(self.address)
        shown = Now(self.clocks.wall_ns(), self.clocks.mono_ns())
        wall = WallClock(shown, settings.clock, recovered.clock)
        directory = Directory(
            self.address, settings.strangers, settings.join_open, locals=self.configured | self.services.keys(),
            configured_locals=frozenset(self.configured | self.services.keys()), public=frozenset(self.public),
            services={key: ServiceFacts(name, role=ROLES.get(name)) for key, name in self.services.items()},
            addresses=self.addresses,
        )  # fmt: skip
        directory.replace_neighbours(self.neighbours.values())
        self.router = Router(self.key, directory, settings.limits, recovered, wall.now(shown))
        for said in self.chain:
            self.router.renewing.hear(said, wall.now(shown))
        self.router.renewing.carry_out(wall.now(shown))
        self._claim = self.router.copies.begin(bytes(8), wall.now(shown)) if settings.claims else None
        self.router.redeeming.given(self.offers, shown)
        self.router.guests.started(self._file(), shown)
        self.check_counters(tables=False)
        self.in_flight = InFlight(settings.in_flight_bytes, settings.in_flight_bytes // 4)
        self.book = self._open_log(self)
        self.cycle = Cycle(
            self.router, self.store, self.book, self.in_flight, self.clocks, wall, settings.cycle,
            settings.housekeeping, Inquiries(load_questions(*plain_questions())),
            Fates(self.book, dict, settings.limits.acceptance.ttl_s_max), lambda: 0 if self.disk_full else PLENTY,
        )  # fmt: skip
        self._later(self.settings.tick_s, self._tick)
        self._plan()

    def crash(self) -> None:
        """Die as by kill -9."""
        self.alive = False
        self.store.close()
        self.book.close()
        for port in list(self.ports.values()):
            if port.end is not None:
                port.end.wire.cut()
        self.ports = {}

    def renew(self, key: SigningKey) -> None:
        """Get another key, while the node is dead."""
        assert not self.alive
        now_s = self.clocks.wall_ns() // 1_000_000_000
        self.chain.append(make_succession(self.key, key, now_s, now_s + ANSWERS_S))
        self.key = key

    def save(self) -> Saved:
        """Take a snapshot."""
        return Saved(self.disk.copied(), len(self.log), self.time.now().wall_s)

    def restore(self, saved: Saved) -> None:
        """Begin a new life with a snapshot in place of the disk, which is lost, while the node is dead."""
        assert not self.alive
        self.log_lost += self.log[saved.batches :]
        del self.log[saved.batches :]
        self.disk.__dict__.update(saved.disk.copied().__dict__)
        store = self._open_store(self.disk, self.settings.store, bytes(16))
        store.recover(self.address)
        wall_ns = self.clocks.wall_ns()
        life = next_life(store.life.number, wall_ns // 1_000_000)
        store.begin_life(Restored(life, saved.at_s, wall_ns // 1_000_000_000))
        store.close()

    def copied(self, name: str) -> Node:
        """Return a node on a copy of this one's home, which is not started."""
        made = Node(self.time, name, self.key, self.settings, self._open_store, self._open_log)
        made.chain, made.log, made.neighbours = [*self.chain], [*self.log], dict(self.neighbours)
        made.disk.__dict__.update(self.disk.copied().__dict__)
        return made

    def _begin_anew(self, restored: Restored | None) -> None:
        """End as by kill -9, and start again, in another life if that was ordered."""
        self.crash()
        if restored is not None:
            store = self._open_store(self.disk, self.settings.store, bytes(16))
            store.recover(self.address)
            store.begin_life(restored)
            store.close()
        self.start()

    @property
    def addresses_had(self) -> list[PublicKey]:
        """Return the node's address, and those that it had before."""
        return [self.address, *(one.old for one in self.chain)]

    def stop(self, ended: Callable[[], None]) -> None:
        """Drain and end, as on a signal: goodbyes, remaining settlements, and the last event; then call `ended`."""
        self._ended = ended
        self.cycle.drain()
        self._until(self.time.mono_ns + int(self.settings.drain_s * 1e9))

    def _until(self, end_ns: int) -> None:
        if self.cycle.open_links.writers and self.time.mono_ns < end_ns:
            self._later(0.01, lambda: self._until(end_ns))
        else:
            self.cycle.stop()
            self._plan()
            self._end()

    def _end(self) -> None:
        if self.cycle.has_events or self._busy:
            self._later(0.01, self._end)
        else:
            self.crash()
            self._ended()

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        self.time.after(seconds, self._in_this_life(call))

    def _in_this_life(self, call: Callable[[], None]) -> Callable[[], None]:
        life = self.lives

        def unless_dead() -> None:
            if self.alive and life == self.lives:
                call()

        return unless_dead

    def reconfigure(self, neighbours: Iterable[Neighbour]) -> None:
        self.neighbours = {one.key: one for one in neighbours}
        if self.alive:
            self.hear(Reconfigured(tuple(self.neighbours.values()), tuple(self.offers)))

    def given(self, offer: UnansweredInvitation) -> None:
        """Take an invitation, which this node redeems until it is answered."""
        self.offers.append(offer)
        self.reconfigure(self.neighbours.values())

    def clear_queue(self, recipient: bytes) -> None:
        self.hear(ClearQueue(recipient))

    def step_clock(self, seconds: float) -> None:
        self.clocks.ahead_ns += int(seconds * 1e9)

    def confirm_clock(self) -> None:
        self.hear(ClockConfirmed())

    # -- connections -----------------------------------------------------------------------------------------

    def port(self, *, dialled: bool, peer: PublicKey | None, owner: bool, expect: PublicKey | None = None) -> Port:
        self._numbers += 1
        settings = self.settings
        offer = Offer(
            "router", bytes(8), True, settings.window_messages, settings.window_bytes,
            self.time.random.randbytes(16), pubsub=self._public(Role.OVERLAY), discovery=self._public(Role.FINDER),
            run=None if self._claim is None else Run(*self._claim.run[:2]), was=formers(self.chain), claim=self._claim,
        )  # fmt: skip
        session = Session(offer, self.key, dialler=dialled, peer=peer, expect=expect)
        made = Port(self, self._numbers, session, self._claim, dialled=dialled, owner=owner)
        return self.ports.setdefault(self._numbers, made)

    def _public(self, role: Role) -> PublicKey | None:
        return next((PublicKey(key) for key in self.public if ROLES.get(self.services.get(key, "")) is role), None)

    def not_connected(self, key: bytes) -> None:
        """Tell the service that named a neighbour that connecting to it failed."""
        neighbour = self.router.directory.neighbours.get(key)
        if neighbour is not None and neighbour.by:
            self.hear(ServiceNews(neighbour.by, NeighbourUnreachable(PublicKey(key), "nobody is there")))

    def port_gone(self, port: Port) -> None:
        if self.ports.pop(port.number, None) is not None and port.is_up:
            self.hear(LinkClosed(port.number, ""))

    def hear(self, heard: Heard) -> None:
        job = self.cycle.hear(heard)
        if job is not None:
            self._submit(job)
        if self.cycle.wakes:
            self._plan()

    # -- cycles: when they run, and what they leave to others --------------------------------------------------

    def _submit(self, job: Job) -> None:
        ready_ns = self.time.mono_ns + self.time.random.randrange(10_000_000)
        self._verified_ns = max(self._verified_ns, ready_ns)
        self.time.at(self._verified_ns, self._in_this_life(lambda: self._verify(job)))

    def _verify(self, job: Job) -> None:
        job.valid = verdicts(job.arrived.data, job.positions, 0)
        self.cycle.verified([job])
        self._plan()

    def _tick(self) -> None:
        self.cycle.tick()
        self._later(self.settings.tick_s, self._tick)
        self._plan()

    def _plan(self) -> None:
        if not self._busy and not self._planned:
            self._planned = True
            self._later(0.0005, self._cycle)

    @property
    def is_idle(self) -> bool:
        verifying = self._verified_ns >= self.time.mono_ns
        return not (verifying or self._busy or self.cycle.has_events or self.router.purges)

    def _cycle(self) -> None:
        self._planned = False
        self._busy = True
        must_commit = self.cycle.begin()
        self._do_deeds()
        if must_commit:
            self._later(self.settings.commit_s * self.time.random.random(), self._commit)
        else:
            self._finish()

    def _commit(self) -> None:
        self.store.commit()
        self._finish()
        if self.time.chance(0.1):
            self.check_counters()
            self.check_account()

    def _finish(self) -> None:
        self._busy = False
        self.cycle.finish()
        self._do_deeds()
        for link in self.router.links:
            assert link.outgoing.in_flight <= link.outgoing.window_messages + 64, f"{link!r} at {self.name}"
            assert len(link.refused) <= link.outgoing.in_flight, f"{link!r} at {self.name} keeps refusals"
        if self.cycle.has_work:
            self._plan()

    def _do_deeds(self) -> None:
        for deed in self.cycle.take_deeds():
            match deed:
                case VerifyJob(job):
                    self._submit(job)
                case DialNeighbour(key):
                    self.dial(key)
                case Tidy():
                    self._soon(self.book.tidy)
                case Find():
                    self._later(0.01, lambda deed=deed: self.hear(deed.find()))  # type: ignore[misc]
                case InvitationAnswered(id, reason):
                    self.let_in[id] = reason is None
                    self.offers = [one for one in self.offers if one.id != id]
                case TermsHeard(inviter, reason):
                    self.terms[inviter] = reason is None
                case LookAtFile():
                    self._later(0.001, lambda: self.hear(FileLooked(self._file())))
                case WriteGuests():
                    self._soon(lambda deed=deed: self._write_guests(deed))  # type: ignore[misc]
                case BeginAnew(restored):
                    self._soon(lambda restored=restored: self._begin_anew(restored))  # type: ignore[misc]
                case Remind(news, seconds):
                    self._later(seconds, lambda news=news: self.hear(news))  # type: ignore[misc]

    # -- the configuration file -------------------------------------------------------------------------------

    def _soon(self, call: Callable[[], None]) -> None:
        self._later(self.time.random.random() * 0.1, call)

    def _file(self) -> bytes:
        return digest(repr(sorted(self.neighbours.items())).encode())

    def _write_guests(self, deed: WriteGuests) -> None:
        if self._file() != deed.file:
            self.hear(FileWritten(is_other=True))
            return
        for one in deed.grants:
            self.neighbours[one.key] = Neighbour(one.key, one.name, one.rights, until_s=one.until_s)
        keys, neighbours = tuple(PublicKey(one.key) for one in deed.grants), tuple(self.neighbours.values())
        self._soon(lambda: self.hear(FileWritten(keys, (), neighbours)))

    # -- checks ----------------------------------------------------------------------------------------------

    def check_account(self) -> None:
        """Check that the log has the same units open as the store, and that no alarm was ever raised about them."""
        account = self.book.account
        if account.units is None:
            assert self.store.life.number, "only a new life does not know what was open before"
            return
        now = Account(account.next_seq, dict(account.units))
        now.begin(self.router.directory.successors.newest)
        now.read(self.store.queued(b"", PLENTY))
        assert not now.compared(), self.name
        assert not [one for one in account.alarms if one.kind in (UNACCOUNTED, REPEATED)], self.name

    def check_counters(self, *, tables: bool = True) -> None:
        """Check that the router's counters match the store, and with `tables` also the tables in its memory."""
        found = self.store.recover(self.address)
        queues = self.router.queues
        assert queues.held == {tag: (messages, size) for tag, messages, size in found.held}, self.name
        total = sum(one.messages for one in found.held), sum(one.bytes for one in found.held)
        assert (queues.node.messages, queues.node.bytes) == total, self.name
        index = self.router.index
        assert (index.entries, index.shares) == (found.index_entries, found.index_shares), self.name
        assert self.router.next_arrival >= found.next_arrival, self.name
        owed: dict[bytes, tuple[int, int]] = {}
        shares: dict[tuple[bytes, bytes], int] = {}
        for recipient, signer, neighbour, messages, size in found.backlog:
            before = owed.get(recipient, (0, 0))
            owed[recipient] = before[0] + messages, before[1] + size
            for share in (b"s" + signer, b"n" + neighbour):
                shares[recipient, share] = shares.get((recipient, share), 0) + messages
        live = {key: (one.total.messages, one.total.bytes) for key, one in queues.by_recipient.items()}
        assert {key: one for key, one in live.items() if one[0]} == owed, self.name
        for (recipient, share), messages in shares.items():
            assert queues.by_recipient[recipient].shares[share].messages == messages, self.name
        assert sum(len(one.shares) for one in queues.by_recipient.values()) == len(shares), self.name
        assert not tables or set(self.router.groups) == set(found.subscriptions), self.name
        assert not tables or set(self.router.routes) == set(found.routes), self.name
