"""An app of the world: a simple client on a session, which publishes, joins, handles, settles, stalls and dies."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from router.core.link.custody import Outgoing
from router.core.link.machine import RemoteProtocolError
from router.core.link.session import Ended, Heard, Messages, Offer, RefusedAt, Session, SettledUpTo, Up
from router.core.wire import link_items as link
from router.core.wire.codec import frame
from router.core.wire.control import Join, JoinAck, Leave, LeaveAck, Report, decode_control, encode_control
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import Multicast, message_id, open_message, seal_multicast, seal_unicast
from router.core.wire.reasons import Reason
from world.time import End, Time


@dataclass
class Sent:
    """A message of this app: `n` among those of the present link, None if not sent on it."""

    wire: bytes
    id: bytes
    lasting: bool
    n: int | None = None


@dataclass
class Habits:
    """`settle_s`: how long a message is worked on, None: it stalls. `die`: the share of reads it does not survive."""

    settle_s: float | None = 0.01
    die: float = 0.0
    window_messages: int = 8
    window_bytes: int = 4 << 10
    features: tuple[str, ...] = ()


@dataclass
class Diary:
    """What the app has on disk, with its effects: it survives a crash."""

    handled: dict[bytes, int] = field(default_factory=dict)  # id -> deliveries, in the order of the first
    settled: dict[bytes, None] = field(default_factory=dict)
    refused: dict[bytes, Reason] = field(default_factory=dict)
    outbox: deque[Sent] = field(default_factory=deque)
    wanted: dict[PublicKey, bool] = field(default_factory=dict)
    sent: dict[bytes, bytes] = field(default_factory=dict)  # id -> wire of all that was ever published


class App:
    """Keeps what it sent until it is settled, and sends what is not again after a reconnect, in the old order."""

    def __init__(
        self, time: Time, name: str, key: SigningKey, router: PublicKey,
        connect: Callable[[App], tuple[Session, End] | None], *, durable: bool, habits: Habits,
    ) -> None:  # fmt: skip
        self.time = time
        self.name = name
        self.key = key
        self.router = router
        self.durable = durable
        self.habits = habits
        self.diary = Diary()
        self.joined: set[PublicKey] = set()
        self.reports: list[Report] = []
        self.outcomes: dict[bytes, list[link.RecipientOutcome]] = {}
        self.doubled: list[bytes] = []
        self.replayed: set[bytes] = set()
        self.answers: list[object] = []
        self.violations: list[RemoteProtocolError] = []
        self._connect = connect
        self._end: End | None = None
        self.session: Session | None = None
        self.outgoing: Outgoing | None = None
        self._again = 0
        self._lives = 0
        self.running = False

    def __repr__(self) -> str:
        state = "up" if self.outgoing else "down"
        return f"<app {self.name}, {state}: {len(self.diary.handled)} handled, {len(self.diary.outbox)} to send>"

    # -- what a test asks for --------------------------------------------------------------------------------

    def join(self, group: SigningKey | PublicKey, *, local: bool = False) -> None:
        address = group.public if isinstance(group, SigningKey) else group
        self.diary.wanted[address] = local
        self.joined.discard(address)
        self._control(Join(address, local))

    def leave(self, group: SigningKey) -> None:
        self.diary.wanted.pop(group.public, None)
        self._control(Leave(group.public))

    def publish(
        self, group: SigningKey, count: int = 1, *, size: int = 20, ttl_s: int = 3600, life_s: int = 7200
    ) -> list[bytes]:
        """Signed with the group's key; the ids."""
        bodies = [self._body(size) for _ in range(count)]
        expiry = expiry_min(self.time.now().wall_s + life_s)
        return [self._put(seal_multicast(group, body, ttl_s=ttl_s, expiry_min=expiry), ttl_s > 0) for body in bodies]

    def send(
        self, to: PublicKey, count: int = 1, *, size: int = 20, ttl_s: int = 3600, life_s: int = 7200
    ) -> list[bytes]:
        bodies = [self._body(size) for _ in range(count)]
        expiry = expiry_min(self.time.now().wall_s + life_s)
        return [self._put(seal_unicast(self.key, to, one, ttl_s=ttl_s, expiry_min=expiry), ttl_s > 0) for one in bodies]

    def put(self, wire: bytes) -> bytes:
        """Send these bytes, whatever they are."""
        return self._put(wire, True)

    def replay(self, wire: bytes) -> None:
        """Send what was sent before; it may have been settled then and be refused now."""
        self.replayed.add(self.put(wire))

    def start(self) -> None:
        self.running = True
        self._dial()

    def stop(self) -> None:
        """Close; what was not settled stays in the diary."""
        self.running = False
        self._hang_up()

    def crash(self, back_s: float = 0.5) -> None:
        """kill -9, and back after a while."""
        if self._end is not None:
            self._end.wire.cut()
        self._forget()
        self.time.after(back_s, self._dial)

    @property
    def is_quiet(self) -> bool:
        return not self.running or (self.outgoing is not None and not self.diary.outbox and not self.outgoing.in_flight)

    def first_deliveries(self) -> list[bytes]:
        return list(self.diary.handled)

    # -- the link --------------------------------------------------------------------------------------------

    def _dial(self) -> None:
        if self.running and self._end is None:
            found = self._connect(self)
            if found is None:
                self.time.after(0.3, self._dial)
            else:
                self.session, self._end = found

    def offer(self) -> Offer:
        habits, nonce = self.habits, self.time.random.randbytes(16)
        window = habits.window_messages, habits.window_bytes
        return Offer("app", bytes(8), self.durable, *window, nonce, features=habits.features)

    def _hang_up(self) -> None:
        if self._end is not None:
            self._end.close()
        self._forget()

    def _forget(self) -> None:
        self._lives += 1
        self._end = self.session = self.outgoing = None
        self._again = 0
        self._controls: deque[Sent] = deque()
        for one in self.diary.outbox:
            one.n = None
        if not self.durable:
            self.joined.clear()

    def gone(self, end: End) -> None:
        if end is self._end:
            self._forget()
            self.time.after(0.2 + self.time.random.random() * 0.3, self._dial)

    def hear(self, end: End, data: bytes) -> None:
        if end is not self._end or self.session is None:
            return
        try:
            events = self.session.receive(data, self.time.now().mono_s)
        except RemoteProtocolError as error:
            self.violations.append(error)
            self._hang_up()
            self.time.after(0.5, self._dial)
            return
        for event in events:
            if self.session is not None:
                self._heard(event)
        self._pump()

    def _heard(self, event: object) -> None:
        match event:
            case Up(_, hello):
                self.outgoing = Outgoing(hello.window_messages, hello.window_bytes)
                self._controls = deque()
                for group, local in self.diary.wanted.items():
                    if group not in self.joined:
                        self._control(Join(group, local))
            case Messages():
                self._take(event)
            case SettledUpTo(n):
                self._settled(n)
            case RefusedAt(k, reason, _):
                for one in self.diary.outbox:
                    if one.n == k:
                        self.diary.refused[one.id] = reason
            case Heard(link.Ping(t0)) if self.session is not None:
                wall_ns = self.time.now().wall_ns
                self.session.send(link.Pong(t0, wall_ns, wall_ns, None))
            case Heard(link.Redelivered(n)):
                self._again = n
            case Heard(link.Outcome(identity, recipients)):
                self.outcomes.setdefault(identity, []).extend(recipients)
            case Ended():
                self._hang_up()
                self.time.after(0.5, self._dial)

    # -- what comes in ---------------------------------------------------------------------------------------

    def _take(self, messages: Messages) -> None:
        first_k, data, spans = messages
        dies = self.time.chance(self.habits.die)
        spared = self.time.random.randrange(len(spans)) if dies else len(spans)
        for _, start, end in spans[:spared]:
            self._handle(data[start:end])
        if dies:
            self.crash()
            return
        if self.habits.settle_s is not None:
            n, lives = first_k + len(spans) - 1, self._lives
            self.time.after(self.habits.settle_s, lambda: self._settle(n, lives))

    def _settle(self, n: int, lives: int) -> None:
        if lives == self._lives and self.session is not None:
            self.session.settle(n)
            self._flush()

    def settle_all(self) -> None:
        """After a stall: what was handled is settled."""
        if self.session is not None:
            self._settle(self.session.incoming.received, self._lives)

    def _handle(self, wire: bytes) -> None:
        message = open_message(wire)
        if not isinstance(message, Multicast) and message.source == self.router and message.ttl_s == 0:
            self._hear_control(message.body)
            return
        identity = bytes(message_id(wire))
        count = self.diary.handled.get(identity, 0)
        if count and not self._again:
            self.doubled.append(identity)
        self._again = max(0, self._again - 1)
        self.diary.handled[identity] = count + 1

    def _hear_control(self, body: bytes) -> None:
        control = decode_control(body)
        self.answers.append(control)
        match control:
            case JoinAck(group, True):
                self.joined.add(group)
            case LeaveAck(group, True):
                self.joined.discard(group)
            case Report():
                self.reports.append(control)

    # -- what goes out ---------------------------------------------------------------------------------------

    def _body(self, size: int) -> bytes:
        return self.time.random.randbytes(max(8, size))

    def _put(self, wire: bytes, lasting: bool) -> bytes:
        identity = bytes(message_id(wire))
        self.diary.sent[identity] = wire
        self.diary.outbox.append(Sent(wire, identity, lasting))
        self._pump()
        return identity

    def _control(self, control: Join | Leave) -> None:
        if self.outgoing is not None:
            expiry = expiry_min(self.time.now().wall_s + 60)
            wire = seal_unicast(self.key, self.router, encode_control(control), ttl_s=0, expiry_min=expiry)
            self._controls.append(Sent(wire, bytes(message_id(wire)), False))
            self._pump()

    def _pump(self) -> None:
        """Send in order as far as the window goes; what asks for something comes first."""
        if self.session is None or self.outgoing is None:
            return
        for one in (*self._controls, *self.diary.outbox):
            if one.n is None:
                data = frame(one.wire)
                if not self.outgoing.fits([len(data)]):
                    break
                one.n = self.outgoing.send(1, len(data))
                self._flush()
                if self._end is not None:
                    self._end.send(data)
        self._flush()

    def _settled(self, n: int) -> None:
        assert self.outgoing is not None
        self.outgoing.settle(n)
        while self._controls and (self._controls[0].n or n + 1) <= n:
            self._controls.popleft()
        kept: deque[Sent] = deque()
        for one in self.diary.outbox:
            if one.n is None or one.n > n:
                kept.append(one)
            elif one.id not in self.diary.refused:
                self.diary.settled[one.id] = None
        self.diary.outbox = kept

    def _flush(self) -> None:
        if self.session is not None and self._end is not None:
            self._end.send(b"".join(self.session.output()))
