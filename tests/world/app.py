"""An app of the world: the shipped end of a link, in a process that joins, publishes, handles, settles and dies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from router.client.app_end import AppEnd, End, News
from router.client.custody.arrivals import Arrival
from router.client.custody.inbox import Inbox
from router.client.custody.outbox import Outbox, Submission
from router.client.errors import ClientError
from router.client.joins import ASK_AGAIN_S, Joins
from router.core.link.machine import RemoteProtocolError
from router.core.link.session import Offer, Session
from router.core.wire import link_items
from router.core.wire.codec import frame
from router.core.wire.control import Report
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import message_id, seal_multicast, seal_unicast
from router.core.wire.reasons import Reason
from world.time import End as WireEnd
from world.time import Time

OUTBOX_MESSAGES, OUTBOX_BYTES = 1 << 20, 1 << 30


@dataclass(eq=False)
class Sent:
    """A message of this app that is not settled; the sink of its submission in the present process."""

    wire: bytes
    id: bytes
    diary: Diary

    def refused(self, reason: Reason, text: str) -> None:
        self.diary.refused[self.id] = reason

    def ended(self) -> None:
        if self in self.diary.unsettled:
            del self.diary.unsettled[self]
            if self.id not in self.diary.refused:
                self.diary.settled[self.id] = None

    def failed(self, error: ClientError) -> None:
        raise AssertionError(f"nothing is given up in this world: {error}")


@dataclass
class Habits:
    """The behaviour of an app. `settle_s`: time to handle a message, None: it stalls. `die`: the share of reads that
    kill it. `refuse`: the share of messages that it refuses, most of them for now."""

    settle_s: float | None = 0.01
    die: float = 0.0
    refuse: float = 0.0
    window_messages: int = 8
    window_bytes: int = 4 << 10
    features: tuple[str, ...] = ()


@dataclass
class Diary:
    """The app's data on disk, which survives a crash."""

    handled: dict[bytes, int] = field(default_factory=dict)  # id -> deliveries, in the order of the first
    settled: dict[bytes, None] = field(default_factory=dict)
    refused: dict[bytes, Reason] = field(default_factory=dict)
    unsettled: dict[Sent, None] = field(default_factory=dict)  # in the order in which they were handed in
    wanted: dict[PublicKey, bool] = field(default_factory=dict)
    sent: dict[bytes, bytes] = field(default_factory=dict)  # id -> wire of all messages ever published


class App:
    """An app that keeps messages until they are settled, and after a reconnect sends unsettled ones again, in order."""

    def __init__(
        self,
        time: Time,
        name: str,
        key: SigningKey,
        router: PublicKey,
        connect: Callable[[App], tuple[Session, WireEnd] | None],
        *,
        durable: bool,
        habits: Habits,
    ) -> None:
        self.time = time
        self.name = name
        self.key = key
        self.router = router
        self.durable = durable
        self.habits = habits
        self.diary = Diary()
        self.reports: list[Report] = []
        self.outcomes: dict[bytes, list[link_items.RecipientOutcome]] = {}
        self.answers: list[News] = []
        self.problems: list[str] = []
        self.doubled: list[bytes] = []
        self.replayed: set[bytes] = set()
        self.violations: list[RemoteProtocolError] = []
        self.running = False
        self._connect = connect
        self._wire: WireEnd | None = None
        self._lives = self._connections = 0
        self._begin_process()

    def __repr__(self) -> str:
        state = "up" if self.end.is_up else "down"
        return f"<app {self.name}, {state}: {len(self.diary.handled)} handled, {len(self.diary.unsettled)} to send>"

    def _begin_process(self) -> None:
        """Begin a new process, which has only the diary."""
        self._lives += 1
        self._held: list[Arrival] = []
        self._joins = Joins(self.key, self._wall_s, lambda: None, self.problems.append)
        self._inbox = Inbox(
            self.habits.window_messages, self.habits.window_bytes, durable=self.durable, known=lambda ids: (),
            problem=self.problems.append, wake_loops=lambda: None, wake_link=lambda: None,
        )  # fmt: skip
        self._outbox = Outbox(OUTBOX_MESSAGES, OUTBOX_BYTES)
        self.end = AppEnd(self._outbox, self._inbox, self._joins, self._hear, lambda: None, self._wall_s, self.router)
        for one in self.diary.unsettled:
            self._outbox.add(Submission(frame(one.wire), one))

    def _wall_s(self) -> float:
        return self.time.now().wall_ns / 1e9

    # -- for tests to call --------------------------------------------------------------------------------

    @property
    def joined(self) -> set[PublicKey]:
        """Return the groups that its router has let it join, in this process."""
        return set(self._joins.granted)

    def join(self, group: SigningKey | PublicKey, *, local: bool = False) -> None:
        address = group.public if isinstance(group, SigningKey) else group
        self.diary.wanted[address] = local
        self._joins.want(address, local=local)
        self._speak()

    def leave(self, group: SigningKey | PublicKey) -> None:
        address = group.public if isinstance(group, SigningKey) else group
        self.diary.wanted.pop(address, None)
        self._joins.want(address, leave=True)
        self._speak()

    def publish(
        self, group: SigningKey, count: int = 1, *, size: int = 20, ttl_s: int = 3600, life_s: int = 7200
    ) -> list[bytes]:
        """Publish messages signed with the group's key; return their ids."""
        bodies = [self._body(size) for _ in range(count)]
        expiry = expiry_min(self.time.now().wall_s + life_s)
        return [self.put(seal_multicast(group, body, ttl_s=ttl_s, expiry_min=expiry)) for body in bodies]

    def send(
        self, to: PublicKey, count: int = 1, *, size: int = 20, ttl_s: int = 3600, life_s: int = 7200
    ) -> list[bytes]:
        bodies = [self._body(size) for _ in range(count)]
        expiry = expiry_min(self.time.now().wall_s + life_s)
        return [self.put(seal_unicast(self.key, to, one, ttl_s=ttl_s, expiry_min=expiry)) for one in bodies]

    def put(self, wire: bytes) -> bytes:
        """Send these bytes, valid or not; return their id."""
        one = Sent(wire, bytes(message_id(wire)), self.diary)
        self.diary.sent[one.id] = wire
        self.diary.unsettled[one] = None
        self._outbox.add(Submission(frame(wire), one))
        self._speak()
        return one.id

    def replay(self, wire: bytes) -> None:
        """Send an earlier message again; it may have been settled then and be refused now."""
        self.replayed.add(self.put(wire))

    def _body(self, size: int) -> bytes:
        return self.time.random.randbytes(max(8, size))

    def start(self) -> None:
        self.running = True
        self._dial()

    def stop(self) -> None:
        """Close the link; unsettled messages stay in the diary."""
        self.running = False
        self._hang_up()

    def crash(self, back_s: float = 0.5) -> None:
        """Die as by kill -9, and come back after a while."""
        if self._wire is not None:
            self._wire.wire.cut()
        self._lose()
        self._begin_process()
        self.time.after(back_s, self._dial)

    @property
    def is_quiet(self) -> bool:
        return not self.running or (self.end.is_up and not self.diary.unsettled and not self._outbox.messages)

    def first_deliveries(self) -> list[bytes]:
        return list(self.diary.handled)

    # -- the link --------------------------------------------------------------------------------------------

    def offer(self) -> Offer:
        habits, nonce = self.habits, self.time.random.randbytes(16)
        window = habits.window_messages, habits.window_bytes
        return Offer("app", bytes(8), self.durable, *window, nonce, features=habits.features)

    def _dial(self) -> None:
        if self.running and self._wire is None:
            found = self._connect(self)
            if found is None:
                self.time.after(0.3, self._dial)
                return
            session, self._wire = found
            self.end.begin(session)
            for group, local in self.diary.wanted.items():
                if group not in self.joined:  # also after a refusal: the right may have been granted since
                    self._joins.want(group, local=local)
            self._ask_again(self._connections)

    def _ask_again(self, connection: int) -> None:
        if connection == self._connections and self.running:
            self.end.ask(self.time.now().mono_s)
            self._speak()
            self.time.after(ASK_AGAIN_S, lambda: self._ask_again(connection))

    def _hang_up(self) -> None:
        if self._wire is not None:
            self._wire.close()
        self._lose()

    def _lose(self) -> None:
        self._connections += 1
        self._wire = None
        self.end.lost()

    def gone(self, wire: WireEnd) -> None:
        if wire is self._wire:
            self._lose()
            self.time.after(0.2 + self.time.random.random() * 0.3, self._dial)

    def hear(self, wire: WireEnd, data: bytes) -> None:
        if wire is not self._wire:
            return
        over: End | None = None
        try:
            over = self.end.receive(data, self.time.now().mono_s)
        except RemoteProtocolError as error:
            self.violations.append(error)
            over = End(error.text)
        if over is not None:
            self._hang_up()
            self.time.after(0.5, self._dial)
        self._handle_all()
        self._speak()

    def _speak(self) -> None:
        """Send everything that may be sent now; due JOINs and LEAVEs go first."""
        if self._wire is not None:
            self.end.ask(self.time.now().mono_s)
            self._wire.send(b"".join(self.end.output()))

    def _hear(self, news: News) -> None:
        match news:
            case Report():
                self.reports.append(news)
            case link_items.Outcome(identity, recipients):
                self.outcomes.setdefault(identity, []).extend(recipients)
            case _:
                self.answers.append(news)

    # -- what comes in ---------------------------------------------------------------------------------------

    def _handle_all(self) -> None:
        taken = []
        while (one := self._inbox.take(None)) is not None:
            if self.habits.refuse and self.time.chance(self.habits.refuse):
                later = self.time.chance(0.7)
                self._inbox.refuse(one, Reason.RATE_LIMITED if later else Reason.PEER_REFUSED, "not this one")
            else:
                taken.append(one)
        dies = bool(taken) and self.time.chance(self.habits.die)
        spared = self.time.random.randrange(len(taken)) if dies else len(taken)
        for one in taken[:spared]:
            self._handle(one)
        if dies:
            self.crash()
        elif taken and self.habits.settle_s is not None:
            lives = self._lives
            self.time.after(self.habits.settle_s, lambda: self._settle(taken, lives))
        else:
            self._held += taken

    def _handle(self, one: Arrival) -> None:
        identity = bytes(one.id)
        count = self.diary.handled.get(identity, 0)
        if count and not one.redelivered:
            self.doubled.append(identity)
        self.diary.handled[identity] = count + 1

    def _settle(self, taken: list[Arrival], lives: int) -> None:
        if lives == self._lives:
            for one in taken:
                self._inbox.done(one)
            self._speak()

    def settle_all(self) -> None:
        """Settle what was handled during a stall."""
        held, self._held = self._held, []
        self._settle(held, self._lives)
