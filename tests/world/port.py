"""One connection of a node of the world: session and wire, driven by the shipped link writer."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from router.core.link.machine import RemoteProtocolError
from router.core.link.session import Ended, MessageRun, OtherItem, RefusedAt, Session, SettledUpTo, Up
from router.core.routing.intake import Arrived, read_messages
from router.core.wire import link_items
from router.core.wire.reasons import Reason
from router.core.wire.run_claim import RunClaim, stop_run
from router.node.link_events import (
    LinkOpened,
    Measured,
    MissedSome,
    NeighbourRunStopped,
    NeighbourSettled,
    OwnRunShown,
    RefusedOne,
)
from router.node.link_writer import LinkWriter

if TYPE_CHECKING:
    from world.node import Node
    from world.time import End

GOODBYE_S = 2.0
RETRY_S = 0.002


class Port(LinkWriter):
    """A connection that sends bytes as they are written, and delays reads while too many bytes are in flight."""

    def __init__(
        self, node: Node, number: int, session: Session, claim: RunClaim | None, *, dialled: bool, owner: bool
    ) -> None:
        self.end: End | None = None
        super().__init__(number, session, "a wire")
        self.node = node
        self.dialled = dialled
        self.owner = owner
        self.is_up = False
        self.far = node
        """The node at the other end; this one while there is none."""
        self._claim = claim
        self._unread: deque[object] = deque()

    @property
    def session(self) -> Session:
        return self._session

    # -- writing ---------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        if self.end is not None:
            parts, self._parts = self._parts, []
            self.end.send(b"".join(parts))

    def _cut(self) -> None:
        if self.end is not None:
            self.end.wire.cut()

    def _end_soon(self) -> None:
        waits = self.awaits_answer or (self.closing is not None and self.closing[0] is Reason.SHUTDOWN)
        self.node.time.after(GOODBYE_S if waits else 0, self._hang_up)

    def _hang_up(self) -> None:
        if self.end is not None and self.end.open:
            self.flush_session()
            self.end.close()
            self.node.time.after(0, self.gone)

    def gone(self) -> None:
        self.node.port_gone(self)

    # -- reading ---------------------------------------------------------------------------------------------

    def hear(self, data: bytes) -> None:
        self.liveness.heard(self.node.clocks.mono_ns() / 1e9)
        try:
            self._unread += self._session.receive(data, self.node.time.now().mono_s)
        except RemoteProtocolError as error:
            self._unread += [*error.before, error]
        self._read()

    def _read(self) -> None:
        while self._unread and self.number in self.node.ports:
            if not self._take(self._unread[0]):
                self.node.time.after(RETRY_S, self._read)
                return
            self._unread.popleft()
        self.flush_session()

    def _take(self, event: object) -> bool:
        """Handle an event; return False if there is no room for it in flight."""
        number, node = self.number, self.node
        match event:
            case MessageRun():
                return self._arrived(read_messages(number, event))
            case SettledUpTo(n):
                node.hear(NeighbourSettled(number, n))
            case RefusedAt(k, reason, text):
                node.hear(RefusedOne(number, k, reason, text))
            case Up(peer, hello):
                self.is_up = True
                node.hear(LinkOpened(self, peer, self.owner, self.dialled, hello))
                if hello.role == "router":
                    self.ping(node.clocks.mono_ns())
            case OtherItem(link_items.Ping(t0)):
                wall_ns = node.clocks.wall_ns()
                self.say(link_items.Pong(t0, wall_ns, wall_ns, node.book.head()))
            case OtherItem(link_items.Pong(t0, t1, t2, head)) if t0 == self.pinged_ns:
                rtt_ns = node.clocks.mono_ns() - t0
                node.hear(Measured(number, rtt_ns, (t1 + t2) // 2 - (node.clocks.wall_ns() - rtt_ns // 2), head))
            case OtherItem(link_items.Missed() as missed):
                node.hear(MissedSome(number, missed))
            case OtherItem(link_items.OtherRun(claim)):
                self._show_claim(claim)
            case OtherItem(link_items.StoppedRun(said)):
                own = said.is_by(node.address)
                node.hear(OwnRunShown(said) if own else NeighbourRunStopped(self.far.address, self.where, said))
            case Ended():
                self._hang_up()
            case RemoteProtocolError():
                node.violations.append(event)
                self.close(event.reason, event.text)
        return True

    def _show_claim(self, claim: RunClaim) -> None:
        """Report a later run of this node's key, and answer that this run stops."""
        assert claim.is_by(self.node.address)
        if self._claim is not None and claim.run > self._claim.run:
            self.say(link_items.StoppedRun(stop_run(self.node.key, self._claim.run, claim.run)))
            self.node.hear(OwnRunShown(claim))

    def _arrived(self, arrived: Arrived) -> bool:
        in_flight, is_stranger = self.node.in_flight, self._session.is_stranger
        if not in_flight.has_room(arrived.size, is_stranger):
            return False
        self.is_idle = False
        in_flight.add(self.number, arrived.size, is_stranger)
        self.node.hear(arrived)
        return True
