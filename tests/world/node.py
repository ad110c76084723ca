"""A node of the world: pure router, plain store, sessions, run in cycles as `router.node.message_router` runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from rigs.plain_store import Disk

from router.core.link.machine import RemoteProtocolError
from router.core.link.session import Ended, Messages, Offer, RefusedAt, Session, SettledUpTo, Up
from router.core.log.events import Event, decode_events
from router.core.routing.directory import Directory, Neighbour
from router.core.routing.effects import (
    Changes,
    Close,
    Dial,
    Effect,
    Fetch,
    Inquire,
    Pulled,
    SendItem,
    SendOwn,
    SendParcel,
    Settle,
)
from router.core.routing.intake import Arrived, read_messages
from router.core.routing.job import Job
from router.core.routing.limits import Limits
from router.core.routing.owed import Damaged, Due, Owed
from router.core.routing.parcel import Parcel
from router.core.routing.purges import Purge
from router.core.routing.recovered import Recovered
from router.core.routing.router import Router
from router.core.wire.codec import frame
from router.core.wire.crypto import PublicKey, SigningKey
from router.disk.limits import StoreLimits
from router.disk.store.terms import Applied
from router.node.verifier_process import verdicts
from world.time import End, Time


class AnyStore(Protocol):
    """What a node needs of a store; `router.disk.store.store.Store` and `plain_store.PlainStore` have it."""

    def recover(self, router_key: bytes) -> Recovered: ...
    def apply(self, changes: Changes, wall_s: int) -> Applied: ...
    def commit(self) -> None: ...
    def known(self, ids: Iterable[tuple[int, bytes]]) -> set[bytes]: ...
    def fetch(
        self, recipient: bytes, position: int, messages: int, size: int,
        group: bytes | None = None, before: int | None = None,
    ) -> tuple[list[Owed], bool]: ...  # fmt: skip
    def due(self, wall_s: int) -> list[Due]: ...
    def message(self, identity: bytes) -> tuple[Parcel, int] | None: ...
    def take_damaged(self) -> list[Damaged]: ...
    def has_dead_rows(self, wall_s: int) -> bool: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Settings:
    """A node's role in few numbers. Windows are small, so that they matter."""

    strangers: bool = False
    join_open: bool = False
    window_messages: int = 16
    window_bytes: int = 8 << 10
    commit_s: float = 0.004
    limits: Limits = field(default_factory=Limits)
    store: StoreLimits = field(default_factory=lambda: StoreLimits(keep_s=30))


class Port:
    """One connection of a node: session and wire."""

    def __init__(self, node: Node, number: int, session: Session, *, dialled: bool, owner: bool) -> None:
        self.node = node
        self.number = number
        self.session = session
        self.dialled = dialled
        self.owner = owner
        self.is_up = False
        self.end: End | None = None

    def __repr__(self) -> str:
        return f"<port {self.number} of {self.node.name}>"

    def flush(self) -> None:
        if self.end is not None:
            self.end.send(b"".join(self.session.output()))

    def write(self, data: bytes) -> None:
        self.flush()
        if self.end is not None:
            self.end.send(data)

    def hear(self, data: bytes) -> None:
        try:
            for event in self.session.receive(data, self.node.time.now().mono_s):
                self.node.heard(self, event)
            self.flush()
        except RemoteProtocolError as error:
            for event in error.before:
                self.node.heard(self, event)
            self.node.violations.append(error)
            self.session.goodbye(error.reason, error.text)
            self.close()

    def gone(self) -> None:
        self.node.port_gone(self)

    def close(self) -> None:
        self.flush()
        if self.end is not None and self.end.open:
            self.end.close()
            self.node.time.after(0, self.gone)


class Node:
    """Crashes lose memory and the batch that was not committed; the disk, the configuration and the log stay."""

    def __init__(
        self, time: Time, name: str, key: SigningKey, settings: Settings,
        open_store: Callable[[Disk, StoreLimits, bytes], AnyStore],
    ) -> None:  # fmt: skip
        self.time = time
        self.name = name
        self.key = key
        self.settings = settings
        self.disk = Disk()
        self.neighbours: dict[bytes, Neighbour] = {}
        self.configured: set[bytes] = set()
        self.public: set[bytes] = set()
        self.log: list[tuple[int, bytes, list[Event]]] = []
        self.violations: list[RemoteProtocolError] = []
        self.dial: Callable[[bytes], None] = lambda key: None
        self._open_store = open_store
        self._numbers = 0
        self.lives = 0
        self.alive = False
        self.disk_full = False

    def __repr__(self) -> str:
        return f"<node {self.name}: {self.router!r}>" if self.alive else f"<node {self.name}: dead>"

    @property
    def address(self) -> PublicKey:
        return self.key.public

    # -- life and death --------------------------------------------------------------------------------------

    def start(self) -> None:
        assert not self.alive
        self.alive = True
        self.lives += 1
        self.ports: dict[int, Port] = {}
        self._told: list[Callable[[], None]] = []
        self._opening: set[int] = set()
        self._jobs: list[Job] = []
        self._verified_ns = 0
        self._tick_due = True
        self._busy = self._planned = False
        boot = self.time.random.randbytes(16)
        self.store = self._open_store(self.disk, self.settings.store, boot)
        recovered = self.store.recover(self.address)
        directory = Directory(
            self.address, self.settings.strangers, self.settings.join_open, locals=set(self.configured),
            configured_locals=frozenset(self.configured), public=frozenset(self.public),
        )  # fmt: skip
        directory.replace_neighbours(self.neighbours.values())
        self.router = Router(self.key, directory, self.settings.limits, recovered, self.time.now())
        self.check_counters(tables=False)
        self._later(1.0, self._tick)
        self._plan()

    def crash(self) -> None:
        """kill -9."""
        self.alive = False
        self.store.close()
        for port in list(self.ports.values()):
            if port.end is not None:
                port.end.wire.cut()
        self.ports = {}

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
            found = tuple(self.neighbours.values())
            self._tell(lambda: self.router.neighbours_changed(found, self.time.now()))

    def clear_queue(self, recipient: bytes) -> None:
        self._tell(lambda: self.router.clear_queue(recipient))

    # -- connections -----------------------------------------------------------------------------------------

    def port(self, *, dialled: bool, peer: PublicKey | None, owner: bool, expect: PublicKey | None = None) -> Port:
        self._numbers += 1
        settings = self.settings
        offer = Offer(
            "router", bytes(8), True, settings.window_messages, settings.window_bytes, self.time.random.randbytes(16)
        )
        session = Session(offer, self.key, dialler=dialled, peer=peer, expect=expect)
        return self.ports.setdefault(self._numbers, Port(self, self._numbers, session, dialled=dialled, owner=owner))

    def heard(self, port: Port, event: object) -> None:
        number, router = port.number, self.router
        match event:
            case Messages():
                self._arrived(read_messages(number, event))
            case SettledUpTo(n):
                self._tell(lambda: router.settled(number, n, self.time.now()))
            case RefusedAt(k, reason, text):
                self._tell(lambda: router.refused(number, k, reason, text))
            case Up(peer, hello):
                port.is_up = True
                self._opening.add(number)
                self._tell(lambda: self._opened(port, peer, hello))
            case Ended():
                port.close()

    def _opened(self, port: Port, peer: PublicKey, hello: object) -> None:
        self._opening.discard(port.number)
        link = self.router.link_up(port.number, peer, port.owner, hello, self.time.now(), dialled=port.dialled)  # type: ignore[arg-type]
        if link is not None:
            link.offset_ns = 0  # all nodes of the world have one clock

    def port_gone(self, port: Port) -> None:
        if self.ports.pop(port.number, None) is not None and port.is_up:
            self._tell(lambda: self.router.link_down(port.number, self.time.now()))

    def _arrived(self, arrived: Arrived) -> None:
        if arrived.link in self._opening:
            self._tell(lambda: self._arrived(arrived))
            return
        job = self.router.examine(arrived, self.time.now())
        if job is not None:
            ready_ns = self.time.mono_ns + self.time.random.randrange(10_000_000)
            self._verified_ns = max(self._verified_ns, ready_ns)
            self.time.at(self._verified_ns, self._in_this_life(lambda: self._verify(job)))

    def _verify(self, job: Job) -> None:
        job.valid = verdicts(job.arrived.data, job.positions, 0)
        self._jobs.append(job)
        self._plan()

    def _tell(self, call: Callable[[], None]) -> None:
        self._told.append(call)
        self._plan()

    # -- cycles ----------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self._tick_due = True
        self._later(1.0, self._tick)
        self._plan()

    def _plan(self) -> None:
        if not self._busy and not self._planned:
            self._planned = True
            self._later(0.0005, self._cycle)

    @property
    def is_idle(self) -> bool:
        verifying = self._verified_ns >= self.time.mono_ns
        return not (verifying or self._busy or self._told or self._jobs or self.router.purges)

    def _cycle(self) -> None:
        self._planned = False
        self._busy, sweeps = True, False
        now = self.time.now()
        if damaged := self.store.take_damaged():
            self.router.lose(damaged, now)
        elif clear := self.router.purges.next():
            self._clear(clear)
        elif self._tick_due:
            self._tick_due = False
            self.router.expire(self.store.due(now.wall_s), now)
            self.router.set_disk_full(self.disk_full)
            self.router.lose(self.store.take_damaged(), now)
            self.router.tick(now)
            self.router.lapse(now)
            sweeps = self.store.has_dead_rows(now.wall_s)
        told, self._told = self._told, []
        for call in told:
            call()
        jobs, self._jobs = self._jobs, []
        if jobs:
            fresh = [one for job in jobs for one in job.to_look_up()]
            self.router.decide(jobs, self.store.known(fresh), now)
        decision = self.router.take(now)
        if not (decision.changes or sweeps):
            self._finish(decision.effects)
            return
        applied = self.store.apply(decision.changes, now.wall_s)
        takes_s = self.settings.commit_s * self.time.random.random()
        self._later(takes_s, lambda: self._committed(applied, decision.effects))

    def _clear(self, clear: Purge) -> None:
        owed, more = self.store.fetch(clear.recipient, 0, 50, 1 << 20, clear.group, clear.before)
        self.router.drop(clear.recipient, owed, self.time.now())
        self.router.lose(self.store.take_damaged(), self.time.now())
        if not more:
            self.router.purges.done(clear)

    def _committed(self, applied: Applied, effects: list[Effect]) -> None:
        self.store.commit()
        self.router.released(applied.released)
        self.router.forgot(applied.forgotten)
        if applied.log_value:
            self.log.append(decode_events(applied.log_value))
        if self.time.chance(0.1):
            self.check_counters()
        self._finish(effects)

    def _finish(self, effects: list[Effect]) -> None:
        self._busy = False
        self._carry_out(effects)
        for link in self.router.links:
            assert link.outgoing.in_flight <= link.outgoing.window_messages + 64, f"{link!r} at {self.name}"
            assert len(link.refused) <= link.outgoing.in_flight, f"{link!r} at {self.name} keeps refusals"
        if self._told or self._jobs or self.router.purges or self._tick_due:
            self._plan()

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        now = self.time.now()
        for effect in effects:
            match effect:
                case Fetch(recipient, position, messages, size):
                    owed, more = self.store.fetch(recipient, position, messages, size)
                    self.router.fetched(recipient, owed, more, now)
                    self._carry_out(self.router.take_effects())
                case Dial(key):
                    self.dial(key)
                case Pulled(number, group, message):
                    if found := self.store.message(message):
                        self.router.pulled(number, group, *found, now)
                        self._carry_out(self.router.take_effects())
                case Inquire(number, _):
                    self.router.answer(number, b"{}", now)
                    self._carry_out(self.router.take_effects())
                case Settle() | SendParcel() | SendOwn() | SendItem() | Close() if effect.link in self.ports:
                    self._speak(self.ports[effect.link], effect)

    def _speak(self, port: Port, effect: Settle | SendParcel | SendOwn | SendItem | Close) -> None:
        match effect:
            case SendParcel(_, parcel, start, stop, local):
                port.write(bytes(parcel.frames(start, stop, local=local)))
            case Settle(_, n, refusals, _):
                port.session.settle(n, refusals)
                port.flush()
            case SendOwn(_, wire):
                port.write(frame(wire))
            case SendItem(_, item):
                port.session.send(item)
                port.flush()
            case Close(_, reason, text):
                port.session.goodbye(reason, text)
                port.close()

    # -- checks ----------------------------------------------------------------------------------------------

    def check_counters(self, *, tables: bool = True) -> None:
        """What deciding counts is what the store holds; and what it knows, if `tables`."""
        found = self.store.recover(self.address)
        queues = self.router.queues
        assert queues.held == {tag: (messages, size) for tag, messages, size in found.held}, self.name
        total = sum(one.messages for one in found.held), sum(one.bytes for one in found.held)
        assert (queues.node.messages, queues.node.bytes) == total, self.name
        index = self.router.index
        assert (index.entries, index.shares) == (found.index_entries, found.index_shares), self.name
        assert self.router._acceptance.next_arrival >= found.next_arrival, self.name
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
