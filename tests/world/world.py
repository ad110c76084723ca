"""Many pure routers and their apps, one thread, one clock, one seed.

    with World(7) as world:
        core = world.node("core")
        edge = world.node("edge")
        world.link(edge, core, uplink=True, grants="join store relay")
        reader = world.app(edge, "reader")
        reader.join(world.group("news"))
        world.run_until_quiet()

A link carries real bytes between real sessions, late and in pieces, and can be cut; a node that crashes keeps its disk.
A failure names the seed. Every world ends with the checks that hold in all worlds: see `check`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from rigs.plain_store import Disk, PlainStore

from router.core.link.session import Session
from router.core.neighbours.directory import Neighbour
from router.core.wire.crypto import PublicKey, SigningKey
from router.disk.limits import StoreLimits
from world import ledger
from world.app import App, Habits
from world.memory_log import MemoryLog
from world.node import AnyLog, AnyStore, Node, Settings
from world.time import End, Time, Wire

DIAL_AGAIN_S = 2.0


@dataclass(eq=False)
class Cable:
    """Two nodes that can reach each other. `keep`: an uplink that is kept open; otherwise a node dials while it owes
    messages. `again`: a service named the other node, which is dialled again until it was reached or is owed nothing.
    """

    one: Node
    other: Node
    delay_s: float
    keep: bool
    both: bool
    again: bool = False
    whole: bool = True
    wire: Wire | None = None
    _dialling: bool = False

    def __repr__(self) -> str:
        return f"<cable {self.one.name}-{self.other.name}: {'whole' if self.whole else 'parted'}>"


class World:
    """A world in which everything is made in the order of the calls, from the seed."""

    def __init__(
        self,
        seed: int,
        open_store: Callable[[Disk, StoreLimits, bytes], AnyStore] = PlainStore,
        open_log: Callable[[Node], AnyLog] = MemoryLog,
    ) -> None:
        self.seed = seed
        self.time = Time(seed)
        self.nodes: list[Node] = []
        self.apps: list[App] = []
        self.cables: list[Cable] = []
        self._groups: dict[str, SigningKey] = {}
        self._returning: set[Node] = set()
        self._open_store = open_store
        self._open_log = open_log

    def __repr__(self) -> str:
        return f"<world {self.seed} at {self.time!r}: {len(self.nodes)} nodes, {len(self.apps)} apps>"

    def __enter__(self) -> World:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is None:
            try:
                self.check()
            except AssertionError as broken:
                broken.add_note(self._how_to_repeat())
                raise
        else:
            error.add_note(self._how_to_repeat())

    def _how_to_repeat(self) -> str:
        return f"this was {self!r}, with PYTHONHASHSEED={os.environ.get('PYTHONHASHSEED', 'random')}"

    # -- making it -------------------------------------------------------------------------------------------

    def key(self) -> SigningKey:
        return SigningKey(self.time.random.randbytes(32))

    def group(self, name: str) -> SigningKey:
        """Return a group's key, by its name in this world."""
        return self._groups.setdefault(name, SigningKey(name.encode().ljust(32, b"\0")))

    def node(self, name: str, settings: Settings | None = None, apart_s: float = 0) -> Node:
        """Start a node. `apart_s`: how far its clock is ahead of the world's, or behind it, at most."""
        node = Node(self.time, name, self.key(), settings or Settings(), self._open_store, self._open_log)
        if apart_s:
            node.clocks.ahead_ns = int(self.time.random.uniform(-apart_s, apart_s) * 1e9)
        node.dial = lambda key: self._asked_to_dial(node, key)
        self.nodes.append(node)
        node.start()
        return node

    def copy(self, node: Node) -> Node:
        """Start a node on a copy of a node's home, at the same neighbours. Those of its apps are not copied."""
        made = node.copied(f"copy of {node.name}")
        made.dial = lambda key: self._asked_to_dial(made, key)
        self.nodes.append(made)
        made.start()
        for cable in [*self.cables]:
            if node in (cable.one, cable.other):
                one, other = (made if end is node else end for end in (cable.one, cable.other))
                self.cables.append(Cable(one, other, cable.delay_s, keep=cable.keep, both=cable.both))
                self._dial(self.cables[-1], one)
        return made

    def link(
        self,
        one: Node,
        other: Node,
        *,
        uplink: bool = False,
        grants: str = "",
        grants_back: str = "",
        delay_s: float = 0.01,
        known: bool = True,
        both: bool = False,
    ) -> Cable:
        """Let `one` dial `other`; `grants` is what `other` grants `one`, `uplink` makes `other` an uplink of `one`.

        `known` False: `one` is not configured at `other`. `both`: the other end dials as well.
        """
        to_other = Neighbour(other.address, other.name, frozenset(grants_back.split()), uplink=uplink)
        to_one = Neighbour(one.address, one.name, frozenset(grants.split()))
        one.reconfigure([*one.neighbours.values(), to_other])
        if known:
            other.reconfigure([*other.neighbours.values(), to_one])
        cable = Cable(one, other, delay_s, keep=uplink or not known, both=both)
        self.cables.append(cable)
        self._dial(cable, one)
        if both:
            self._dial(cable, other)
        return cable

    def lan(self, one: Node, other: Node) -> Cable:
        """Let two nodes dial each other again and again, though neither is configured at the other."""
        cable = Cable(one, other, 0.001, keep=False, both=True)
        self.cables.append(cable)
        self._dial(cable, one)
        self._dial(cable, other)
        return cable

    def reach(self, one: Node, other: Node, delay_s: float = 0.01) -> Cable:
        """Let two nodes dial each other while messages wait and a service has made the other known."""
        cable = Cable(one, other, delay_s, keep=False, both=False, again=True)
        self.cables.append(cable)
        return cable

    def app(
        self,
        node: Node,
        name: str = "",
        *,
        durable: bool = True,
        habits: Habits | None = None,
        key: SigningKey | None = None,
        owner: bool = True,
    ) -> App:
        """Make an app on the node's owner-only socket; `owner` False: on a listener open to anyone."""
        name = name or f"app {len(self.apps)}"
        app = App(
            self.time, name, key or self.key(), node.address, lambda app: self._connect_app(app, node, owner),
            durable=durable, habits=habits or Habits(),
        )  # fmt: skip
        self.apps.append(app)
        app.start()
        return app

    # -- connections -----------------------------------------------------------------------------------------

    def _connect_app(self, app: App, node: Node, owner: bool) -> tuple[Session, End] | None:
        if not node.alive:
            return None
        wire = Wire(self.time, 0.001)
        session = Session(app.offer(), app.key, dialler=True, peer=None, expect=node.address)
        end = wire.end(lambda data: app.hear(end, data), lambda: app.gone(end))
        port = node.port(dialled=False, peer=None, owner=owner)
        port.end = wire.end(port.hear, port.gone)
        end.send(b"".join(session.output()))
        port.flush_session()
        return session, end

    def _asked_to_dial(self, node: Node, key: bytes) -> None:
        for cable in self.cables:
            if (cable.one is node and key in cable.other.addresses_had) or (
                cable.other is node and key in cable.one.addresses_had
            ):
                known = node.router.directory.neighbours.get(key)
                if not cable.again or (known is not None and known.urls):
                    self._dial(cable, node)

    def _dial(self, cable: Cable, dialler: Node) -> None:
        self.time.after(0.01 + self.time.random.random() * 0.1, lambda: self._connect(cable, dialler))

    def _connect(self, cable: Cable, dialler: Node) -> None:
        other = cable.other if dialler is cable.one else cable.one
        if not (cable.whole and dialler.takes_links and other.takes_links):
            if cable.again and dialler.alive:
                self._not_connected(cable, dialler, other)
            elif cable.keep or cable.both:
                self.time.after(0.5, lambda: self._connect(cable, dialler))
            return
        if self._is_connected(dialler, other) or (self._is_connected(other, dialler) and not cable.both):
            if cable.keep or cable.both:
                self.time.after(0.5, lambda: self._connect(cable, dialler))
            return
        wire = cable.wire = Wire(self.time, cable.delay_s)
        ours = dialler.port(dialled=True, peer=other.address, owner=False, expect=other.address)
        theirs = other.port(dialled=False, peer=dialler.address, owner=False)
        ours.far, theirs.far = other, dialler
        ours.end = wire.end(ours.hear, ours.gone)
        theirs.end = wire.end(theirs.hear, theirs.gone)
        ours.flush_session()
        theirs.flush_session()
        if cable.keep or cable.both:
            self.time.after(0.5, lambda: self._connect(cable, dialler))

    def _not_connected(self, cable: Cable, dialler: Node, other: Node) -> None:
        """Report that nobody answers, and dial again as long as messages wait."""
        dialler.not_connected(other.address)

        def again(life: int = dialler.lives) -> None:
            if dialler.alive and dialler.lives == life and dialler.cycle.is_owed(other.address):
                self._asked_to_dial(dialler, other.address)

        self.time.after(DIAL_AGAIN_S * (0.5 + self.time.random.random()), again)

    def _is_up(self, cable: Cable) -> bool:
        one, other = cable.one, cable.other
        return one.router.links.to(other.address) is not None and other.router.links.to(one.address) is not None

    @staticmethod
    def _is_connected(node: Node, other: Node) -> bool:
        return any(port.far is other for port in node.ports.values())

    def cut(self, cable: Cable) -> None:
        """Break the connection and lose the bytes on the way. It may be dialled again at once."""
        if cable.wire is not None:
            cable.wire.cut()
            cable.wire = None

    def part(self, cable: Cable) -> None:
        """Partition two nodes: cut their connection, and prevent dialling."""
        cable.whole = False
        self.cut(cable)

    def heal(self, cable: Cable) -> None:
        cable.whole = True
        for node in (cable.one, cable.other):
            if node.alive and not cable.keep:
                self._dial(cable, node)

    def crash(self, node: Node, back_s: float | None = 1.0) -> None:
        """Kill a node as by kill -9; it restarts after `back_s`, or by `node.start()`."""
        node.crash()
        if back_s is not None:
            self._returning.add(node)
            self.time.after(back_s, lambda: self._return(node))

    def stop(self, node: Node, back_s: float = 1.0) -> None:
        """Drain and end a node, as on a signal; it restarts `back_s` after its end."""
        self._returning.add(node)
        node.stop(lambda: self.time.after(back_s, lambda: self._return(node)))

    def _return(self, node: Node) -> None:
        self._returning.discard(node)
        if not node.alive:
            node.start()

    # -- running --------------------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        self.time.run(seconds)

    def run_until_quiet(self, limit_s: float = 120.0) -> None:
        """Run until nothing moves any more; then check that nothing that could be handed over is left."""
        quiet = 0
        for _ in range(int(limit_s / 0.5)):
            self.run(0.5)
            quiet = quiet + 1 if self.is_quiet else 0
            if quiet >= 4:
                return
        raise AssertionError(f"not quiet after {limit_s} s: {self._why_not()}")

    @property
    def is_quiet(self) -> bool:
        return not self._why_not()

    def _why_not(self) -> list[str]:
        moving = [repr(app) for app in self.apps if not app.is_quiet]
        moving += [f"{node.name} will come back" for node in self._returning]
        for cable in self.cables:
            may_link = cable.one.takes_links and cable.other.takes_links
            if cable.keep and cable.whole and may_link and not self._is_up(cable):
                moving.append(f"{cable!r} will be dialled")
        for node in self.nodes:
            if not node.alive:
                continue
            if not node.is_idle:
                moving.append(f"{node!r} works")
            stalled = {app.key.public for app in self.apps if app.habits.settle_s is None}
            for link in node.router.links:
                queue = node.router.queues.by_recipient.get(link.key)
                owed = queue is not None and queue.total.messages
                if link.key not in stalled and (owed or link.outgoing.in_flight):
                    moving.append(f"{node.name} owes {link!r}")
        return moving

    # -- checks for every world -----------------------------------------------------------------------------

    def pending(self, node: Node) -> set[tuple[int, bytes]]:
        """Return (arrival, recipient) of each message that the node's disk still owes."""
        found = set()
        recovered, owed_as = node.store.recover(node.address), node.router.directory.successors.owed_as
        for recipient in {one.recipient for one in recovered.backlog}:
            for parcel, start, stop in node.store.fetch(recipient, 0, 1 << 30, 1 << 40)[0]:
                arrivals = (parcel.first + at for at in range(start, stop))
                found |= {(arrival, owed_as(recipient, arrival)) for arrival in arrivals}
        return found

    def ledger(self, node: Node) -> ledger.Ledger:
        return ledger.read(node.log)

    def check(self) -> None:
        """Check that ledgers add up, delivered messages arrived, no unmarked duplicate was handed over, no link was
        misused."""
        books = {node: self.ledger(node) for node in self.nodes}
        taken_by = {node: book.accepted() | ledger.accepted(node.log_lost) for node, book in books.items()}
        owner = {app.key.public: app for app in self.apps}
        routers = [(bytes(key), node) for node in self.nodes for key in node.addresses_had]  # copies have one key
        for node, book in books.items():
            if node.alive and node.is_idle:
                ledger.check(book, self.pending(node))
                node.check_counters()
                node.check_account()
            for identity, whom in book.ended("delivered"):
                assert identity in owner[PublicKey(whom)].diary.handled, f"{node.name} settled what never arrived"
            for identity, whom in book.ended("acked"):
                for_itself = book.destinations[identity] == whom
                taken = for_itself or any(identity in taken_by[one] for key, one in routers if key == whom)
                assert taken, f"{node.name} was told of custody that nobody took"
            assert not node.violations, f"{node.name}: {node.violations[0]}"
        for app in self.apps:
            assert not app.violations, f"{app.name}: {app.violations[0]}"
            assert not app.doubled, f"{app.name} was handed {len(app.doubled)} messages twice without a word"
