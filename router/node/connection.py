"""One connection: a stream, its session, a task that reads and a task that writes.

Arriving messages go to the message router in lists; its decisions come back through a `LinkWriter`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import trio
from msgspec import Struct, field

from router.core.link.machine import RemoteProtocolError
from router.core.link.session import (
    Ended,
    Event,
    MessageRun,
    Offer,
    OtherItem,
    RefusedAt,
    Session,
    SettledUpTo,
    Up,
    Welcome,
    everybody,
)
from router.core.link.table import LinkLimits, St
from router.core.routing.admission import OUTLIVED, SIGN_ON_ANEW
from router.core.routing.intake import read_messages
from router.core.wire import link_items
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.link_items import LogHead
from router.core.wire.reasons import Reason, missed_text
from router.core.wire.run_claim import RunClaim, RunStopped, stop_run
from router.node.dialler import LastWords
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
    OwnRunShown,
    RefusedOne,
)
from router.node.link_writer import LinkWriter
from router.settings.received import ASK_AGAIN
from router.transport.contract import Stream, StreamBroken
from router.transport.pace import Paces, SharedPace, StrangerPace
from router.transport.patience import Patience, patient
from router.transport.reading_pauses import TRICKLE_BYTES, TRICKLE_S, ReadingPauses, shared_pace

log = logging.getLogger(__name__)

READ_BYTES_MAX = 256 * 1024
PACED_READ_BYTES_MAX = 16 * 1024
BUSY_S = 0.005
MALFORMED_MANY = "too many malformed messages a second"
NOT_LET_IN = "it does not let us in"
FROM_BACKUP = "; if an older backup brought this key back, restore one of after the rotation, or make a new node"
TURNED_AWAY = (
    f"{NOT_LET_IN} and does not say why: its operator has blocked or removed this node, or it takes no key that it "
    "does not know; ask its operator to unblock or add this node, or for a new invitation"
)
FOREIGN_RUN = "a statement about a run was signed by neither of the keys that this link joins"
NOT_NOW = "it does not take this node now, and is dialled again: "
SURVIVOR = (
    "a node that was restored from a snapshot of this home has connected there with this node's key: stop this one for "
    "good, and never run both"
)
DISPLACED = "another node has signed on there with this node's key: never copy a home; `router init` makes a new one"


class StreamWriter(LinkWriter):
    """Writes a link's output to a stream, in a task."""

    def __init__(self, number: int, session: Session, stream: Stream) -> None:
        super().__init__(number, session, stream.where, stream.place, stream.ip, stream.path)
        self._scope = trio.CancelScope()
        self._goodbye_s = session.machine.table[St.CLOSING].timeout_s
        self._is_writing = False
        self._work = trio.Event()
        self._work.set()
        self._written: trio.Event | None = None

    def _wake(self) -> None:
        self._work.set()

    def _cut(self) -> None:
        self._scope.cancel()

    def _end_soon(self) -> None:
        if self._is_writing:
            self._limit_closing()  # else the writer does it, so that a stalled loop cannot cut the link before that

    def _limit_closing(self) -> None:
        self._scope.deadline = min(self._scope.deadline, trio.current_time() + self._goodbye_s)

    def use(self, scope: trio.CancelScope) -> None:
        """Let this scope end the link from now on, or at once if the link was already cut."""
        scope.deadline = self._scope.deadline
        if self._scope.cancel_called:
            scope.cancel()
        self._scope = scope

    async def write_to(self, stream: Stream) -> None:
        """Write until the link is closed and everything has been sent."""
        while self.closing is None or self._parts or self.closing[0] is Reason.SHUTDOWN or self.awaits_answer:
            await self._work.wait()
            self._work = trio.Event()
            parts, self._parts = self._parts, []
            if self.closing is not None:
                self._limit_closing()
            if parts:
                self._is_writing = True
                await stream.send_parts(parts)
                self._is_writing = False
            if self._written is not None:
                self._written.set()

    async def all_settled(self) -> None:
        """Wait before the end of the link until everything from the neighbour is settled and the settlings are written;
        at most the closing state's time."""
        with trio.move_on_after(self._goodbye_s):
            while self._is_writing or self._parts or self._session.incoming.settled < self._session.incoming.received:
                self._written = trio.Event()
                await self._written.wait()


class NodeSide(Struct, frozen=True):
    """The parts of a node that its connections share. `tell` passes events to the message router; readers wait while
    `is_busy`; a stranger is read at the rate of `paces`, and short pieces at that of `short_pieces`. `is_stranger`:
    whether the link of this number, which a stranger has opened, is charged to strangers still: no longer once it has
    agreed on groups with this node (R-C24), and again when these agreements end."""

    key: SigningKey
    tell: Callable[[LinkEvent], None]
    in_flight: InFlight
    clock: Clock
    log_head: Callable[[], LogHead | None]
    is_busy: Callable[[], bool]
    paces: Paces | None = None
    short_pieces: SharedPace = field(default_factory=shared_pace)
    is_stranger: Callable[[int], bool] = lambda number: True


class Connection:
    """Runs one stream until it ends."""

    def __init__(
        self,
        number: int,
        stream: Stream,
        offer: Offer,
        node: NodeSide,
        *,
        dialled: bool,
        expect: PublicKey | None,
        limits: LinkLimits,
        welcome: Callable[[PublicKey], Welcome | None] = everybody,
    ) -> None:
        self._stream = stream
        self._node = node
        self._session = Session(
            offer,
            node.key,
            dialler=dialled,
            peer=stream.peer,
            expect=expect,
            limits=limits,
            welcome=welcome,
        )
        self._dialled = dialled
        self._claim = offer.claim
        self._pace: StrangerPace | None = None
        self.is_up = False
        self._received_bytes = 0  # as the stream counts them
        self._pauses = ReadingPauses(node.short_pieces)
        self._trickles = False  # the last read was of less than TRICKLE_BYTES
        self.last_words = LastWords()
        self.link_writer = StreamWriter(number, self._session, stream)

    @property
    def is_turned_down(self) -> bool:
        """Whether the other end's hello came, and was not what it has to be."""
        return self._session.hello is not None and not self.is_up

    async def run(self) -> str:
        """Run the connection to its end; return why it ended, for people."""
        text = "the other end closed"
        try:
            async with trio.open_nursery() as nursery:
                self.link_writer.use(nursery.cancel_scope)
                nursery.start_soon(self._write, nursery.cancel_scope)
                text = await self._read()
                nursery.cancel_scope.cancel()
            if self.link_writer.closing is not None:
                text = self.link_writer.closing[1] or self.link_writer.closing[0].sentence
        except* StreamBroken as group:
            text = f"the connection broke: {group.exceptions[0]}"
        finally:
            if self.is_up:
                self._node.tell(LinkClosed(self.link_writer.number, text))
        return text

    # -- reading -------------------------------------------------------------------------------------------

    @property
    def _stranger_pace(self) -> StrangerPace | None:
        """Return the pace at which the link is read; None if it is no stranger's, or no longer."""
        return self._pace if self._pace is not None and self._node.is_stranger(self.link_writer.number) else None

    async def _read(self) -> str:
        machine = self._session.machine
        with patient(machine.timeout_s) as patience:
            while True:
                try:
                    data = await self._more()
                    if not data:
                        return "the other end closed"
                    taken, data = data, b""  # waiting for the next read must not hold the last one's bytes
                    text = await self._take(taken, patience)
                    del taken
                except RemoteProtocolError as error:
                    await self._last_words(error.reason, error.text)
                    return f"protocol error: {error.text or error.reason.sentence}"
                if text is not None:
                    return text
        await self._last_words(Reason.CONNECT_TIMEOUT, "no complete handshake in time")
        return f"no complete handshake within {machine.timeout_s:g} s"

    async def _more(self) -> bytes:
        """Return the next bytes of the stream; raise `RemoteProtocolError` if the rest of a frame takes too long.

        A peer that sends byte by byte is read in intervals, so that a frame in pieces costs hardly more than a whole
        one. Waiting for its turn among others is not its fault, so that takes nothing from its time for a frame.
        """
        await self._pauses.wait_turn()
        unfinished, pause_s = self._session.unfinished, self._pauses.trickle_s
        pace = self._stranger_pace
        if self._trickles and pace is not None:
            pause_s = max(pause_s, TRICKLE_S)
        most = READ_BYTES_MAX if pace is None else PACED_READ_BYTES_MAX
        if not unfinished and not pause_s:
            return await self._stream.receive_some(most)
        data: bytes | None = None
        with patient(unfinished.patience_s) as patience:
            if pause_s:
                await trio.sleep(pause_s)
            data = await self._stream.receive_some(most)
        unfinished.waited(patience.spent_s)
        if data is None:
            raise unfinished.too_slow()
        return data

    async def _take(self, data: bytes, patience: Patience) -> str | None:
        mono_ns = self._node.clock.mono_ns()
        self.link_writer.liveness.heard(mono_ns / 1e9)
        self._trickles = len(data) < TRICKLE_BYTES
        number, settled, ended = self.link_writer.number, 0, None
        await self._wait_turn(len(data))
        machine = self._session.machine
        before = machine.state
        events, fault = self._receive(data, mono_ns)
        if machine.state not in (before, St.CLOSING):  # closing's time begins when earlier messages have been taken
            patience.begin_anew(machine.timeout_s)
        for event in events:
            match event:
                case MessageRun():
                    if not await self._take_messages(event, mono_ns):
                        fault = fault or RemoteProtocolError(Reason.RATE_LIMITED, MALFORMED_MANY)
                case SettledUpTo(n):
                    settled = n  # cumulative: the last of a read counts
                case RefusedAt(k, reason, text):
                    self._node.tell(RefusedOne(number, k, reason, text))
                case Up(peer, hello):
                    self._come_up(peer, hello, mono_ns)
                case OtherItem(item):
                    self._hear(item, mono_ns)
                case Ended(reason, text):
                    ended = f"the other end said goodbye: {text or reason.sentence}"
                    self.last_words = self._judge(reason, text)
        if settled:
            self._node.tell(NeighbourSettled(number, settled))
        self.link_writer.flush_session()
        if ended is not None or fault is not None:
            await self.link_writer.all_settled()
        if fault is not None:
            raise fault
        return ended

    async def _wait_turn(self, size: int) -> None:
        """Wait until the node can take a read of `size` bytes, and a stranger's pace allows it."""
        while self._node.is_busy():
            await trio.sleep(BUSY_S)
        received_bytes, self._received_bytes = self._received_bytes, self._stream.received_bytes
        if (pace := self._stranger_pace) is not None:
            await pace.take_bytes(max(size, self._received_bytes - received_bytes))

    async def _take_messages(self, messages: MessageRun, mono_ns: int) -> bool:
        """Pass messages on when there is room for them; return whether as many malformed ones are still allowed."""
        self.link_writer.is_idle = False
        if (pace := self._stranger_pace) is not None:
            await pace.take_messages(len(messages.spans))
        number = self.link_writer.number
        arrived = read_messages(number, messages)
        await self._node.in_flight.take(number, arrived.size, is_stranger=self._session.is_stranger)
        self._node.tell(arrived)
        return not arrived.refusals or self._session.allows(len(arrived.refusals), mono_ns / 1e9)

    def _come_up(self, peer: PublicKey, hello: link_items.Hello, mono_ns: int) -> None:
        """Report that the other end has proven its key."""
        self.is_up, self._trickles = True, False
        if self._stream.peer is None:
            self._stream.link_proved(peer)
        if self._node.paces is not None and self._session.is_stranger:
            self._pace = self._node.paces.one()
        self._node.tell(LinkOpened(self.link_writer, peer, self._stream.owner, self._dialled, hello))
        if hello.role == "router":  # measures at once how far apart both clocks are
            self.link_writer.ping(mono_ns)

    def _receive(self, data: bytes, mono_ns: int) -> tuple[Sequence[Event], RemoteProtocolError | None]:
        """Return the events in `data`, and the peer's protocol error, None if there is none."""
        try:
            events = self._session.receive(data, mono_ns / 1e9)
        except RemoteProtocolError as error:
            return error.before, error
        frames = sum(len(one.spans) if isinstance(one, MessageRun) else 1 for one in events)
        now_s, is_between = self._node.clock.mono_ns() / 1e9, not self._session.unfinished
        self._pauses.took(len(data), self._stream.short_pieces, frames, now_s, is_between=is_between)
        return events, None

    def _judge(self, reason: Reason, text: str) -> LastWords:
        """Return what the other end's goodbye says about this node."""
        if reason is Reason.REPLACED and text == OUTLIVED:
            return LastWords(SURVIVOR)
        both_dialled = self.link_writer.closing is not None  # then this end closes one of the two connections as well
        if reason is Reason.REPLACED and self._dialled and not both_dialled:
            return LastWords(DISPLACED, is_displaced=True)
        if reason is Reason.RATE_LIMITED:
            return LastWords(NOT_NOW + (text or reason.sentence))
        if reason is Reason.RENEWED:
            more = FROM_BACKUP if text == SIGN_ON_ANEW else ""
            said = f"{NOT_LET_IN}: {text or reason.sentence}{more}"
            return LastWords(said, lets_in=False, is_superseded=text == SIGN_ON_ANEW)
        if reason is Reason.NOT_AUTHORISED:
            said = text if "; " in text else f"{text}; {ASK_AGAIN}"
            return LastWords(f"{NOT_LET_IN}: {said}" if text else TURNED_AWAY, lets_in=False)
        return LastWords()

    def _hear(self, item: link_items.Item, mono_ns: int) -> None:
        wall_ns = self._node.clock.wall_ns()
        if isinstance(item, link_items.Ping):
            self.link_writer.say(link_items.Pong(item.t0, wall_ns, self._node.clock.wall_ns(), self._node.log_head()))
        elif isinstance(item, link_items.Pong) and item.t0 == self.link_writer.pinged_ns:
            rtt_ns = mono_ns - item.t0
            offset_ns = (item.t1 + item.t2) // 2 - (wall_ns - rtt_ns // 2)
            self._node.tell(Measured(self.link_writer.number, rtt_ns, offset_ns, item.head))
        elif isinstance(item, link_items.Missed):
            said = missed_text(item.count, item.reason, "this node")
            log.warning("%s: %s", self.link_writer.where, said)
            self.link_writer.problem = self.link_writer.problem or said
            self._node.tell(MissedSome(self.link_writer.number, item))
        elif isinstance(item, link_items.OtherRun):
            self._show_claim(item.claim)
        elif isinstance(item, link_items.StoppedRun):
            self._show_stopped(item.said)

    def _show_claim(self, claim: RunClaim) -> None:
        """Report the claim of another run of this node's key. If that is the later one, answer that this run stops,
        before the other end closes the link, so that it knows that both run. Raise `RemoteProtocolError`."""
        if not claim.is_by(self._node.key.public):
            raise RemoteProtocolError(Reason.BAD_SIGNATURE, FOREIGN_RUN)
        if self._claim is not None and claim.run > self._claim.run:
            said = stop_run(self._node.key, self._claim.run, claim.run)
            self.link_writer.say(link_items.StoppedRun(said))
            self._node.tell(OwnRunShown(claim))

    def _show_stopped(self, said: RunStopped) -> None:
        """Report that another run of this node's key, or a run of the other end's, has stopped as a copy. Raise
        `RemoteProtocolError`."""
        peer = self._session.peer
        if said.is_by(self._node.key.public):
            self._node.tell(OwnRunShown(said))
        elif peer is not None and said.is_by(peer):
            self._node.tell(NeighbourRunStopped(peer, self.link_writer.where, said))
        else:
            raise RemoteProtocolError(Reason.BAD_SIGNATURE, FOREIGN_RUN)

    # -- writing -------------------------------------------------------------------------------------------

    async def _write(self, scope: trio.CancelScope) -> None:
        await self.link_writer.write_to(self._stream)
        scope.cancel()

    async def _last_words(self, reason: Reason, text: str) -> None:
        """Send the peer a goodbye that names its protocol error, and wait for the end of the connection."""
        self.link_writer.close(reason, text)
        await trio.sleep_forever()  # the writer ends the connection when it has written the goodbye
