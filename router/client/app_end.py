"""An app's end of a link, without I/O: take the bytes that were read, return the bytes to write (pure).

Connections follow one another: `begin` with a session, `receive` and `output` while it lasts, `lost` when it is over.
Unsettled messages stay in the outbox and are sent again on the next connection.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from router.client.custody.inbox import Inbox
from router.client.custody.outbox import Outbox
from router.client.errors import NodeUnavailable, Renewed, Replaced
from router.client.joins import Joins
from router.core.link.custody import Outgoing
from router.core.link.session import Ended, Event, MessageRun, OtherItem, RefusedAt, Session, SettledUpTo, Up
from router.core.wire import link_items
from router.core.wire.admin import INTRODUCE, SERVICE_BYTES_MAX, Answer, Inquiry, decode_inquiry, is_inquiry
from router.core.wire.codec import Malformed
from router.core.wire.control import Carried, Control, JoinAck, LeaveAck, Report, decode_control
from router.core.wire.crypto import PublicKey
from router.core.wire.hint import Hinted, decode_hint, is_hint
from router.core.wire.message import open_message
from router.core.wire.pubsub import Wanted, decode_wanted, is_wanted
from router.core.wire.reasons import Reason
from router.core.wire.redemption import Redeemed, Redemption, decode_redemption, is_redemption

log = logging.getLogger(__name__)

# Reasons after which dialling again cannot help, or would take the connection from another process again and again.
FINAL = frozenset((
    Reason.REPLACED, Reason.NOT_AUTHORISED, Reason.BLOCKED, Reason.UNSUPPORTED, Reason.BAD_SIGNATURE, Reason.RENEWED,
))  # fmt: skip

News = link_items.Outcome | link_items.Missed | Report | Answer | Inquiry | Carried | Wanted | Hinted | Redeemed


REPLACED = "another process has signed on with the same key, and has replaced this one; give each a name of its own"


RENEWED = "the key of this app was renewed; sign on with the new one, which is kept under the same name"


class End(NamedTuple):
    """Why a connection ended; `final` if the app must not dial again; `goodbye`: the node's own words."""

    text: str
    final: bool = False
    goodbye: Ended | None = None

    def error(self) -> NodeUnavailable:
        """Return the error that tells of it."""
        reason = None if self.goodbye is None else self.goodbye.reason
        kind = Replaced if reason is Reason.REPLACED else Renewed if reason is Reason.RENEWED else NodeUnavailable
        return kind(self.text)

    @property
    def is_by_renewal(self) -> bool:
        """Whether the node knows another key in the place of this app's."""
        return self.goodbye is not None and self.goodbye.reason is Reason.RENEWED


class AppEnd:
    """The app's state across connections. `hear` gets everything that the router sends except answers to JOIN and
    LEAVE; `changed` is called when messages are settled and when the connection comes up. `is_known`: the node has
    confirmed on the present connection that it knows this app."""

    def __init__(
        self,
        outbox: Outbox,
        inbox: Inbox,
        joins: Joins,
        hear: Callable[[News], None],
        changed: Callable[[], None],
        wall_s: Callable[[], float],
        router: PublicKey | None,
    ) -> None:
        self.outbox = outbox
        self.inbox = inbox
        self.joins = joins
        self.router = router
        self.is_up = self.is_known = False
        self._hear = hear
        self._changed = changed
        self._wall_s = wall_s
        self._session: Session | None = None
        self._outgoing: Outgoing | None = None

    def __repr__(self) -> str:
        return f"<end of an app, {'up' if self.is_up else 'down'}: {self.outbox!r}, {self.inbox!r}>"

    @property
    def session(self) -> Session:
        assert self._session is not None, "no connection has begun"
        return self._session

    @property
    def owed(self) -> int | None:
        """The number of the first message on this connection that the node has not settled; None if there is none."""
        outgoing = self._outgoing
        return outgoing.settled + 1 if outgoing is not None and outgoing.in_flight else None

    def begin(self, session: Session) -> None:
        """Start on a new connection, whose session has yet to send its hello."""
        self.lost()
        self._session = session

    def lost(self) -> None:
        """Forget the connection, which is over."""
        self.is_up = self.is_known = False
        self._outgoing = None

    # -- in ------------------------------------------------------------------------------------------------

    def receive(self, data: bytes, mono_s: float) -> End | None:
        """Act on the bytes of one read; return why the connection ends if the node said goodbye. Raise
        `RemoteProtocolError` if the node is at fault."""
        for event in self.session.receive(data, mono_s):
            end = self._take(event, mono_s)
            if end is not None:
                return end
        return None

    def _take(self, event: Event, mono_s: float) -> End | None:
        match event:
            case MessageRun():
                for wire in self.inbox.take_in(event, self._wall_s()):
                    self._hear_router(wire)
            case SettledUpTo(n):
                assert self._outgoing is not None
                self._outgoing.settle(n)
                self.outbox.settle(n)
                self._changed()
            case RefusedAt(k, reason, text):
                assert self._outgoing is not None
                self._outgoing.check_refusal(k)
                self.outbox.refuse(k, reason, text)
            case OtherItem(item):
                self._hear_item(item)
            case Up(peer, hello):
                self._come_up(peer, hello, mono_s)
            case Ended(reason, text):
                said = f"the node said goodbye, {reason.word}: {text or reason.sentence}"
                if reason is Reason.NOT_AUTHORISED and not text:
                    said += " (the node does not know this app's key)"
                said = {Reason.REPLACED: REPLACED, Reason.RENEWED: RENEWED}.get(reason, said)
                return End(said, reason in FINAL, event)
        return None

    def _come_up(self, router: PublicKey, hello: link_items.Hello, mono_s: float) -> None:
        self.router, self.is_up = router, True
        self._outgoing = Outgoing(hello.window_messages, hello.window_bytes)
        self.outbox.restart(hello.frame_bytes_max)
        self.inbox.begin(router)
        self.joins.restart()
        self.ask(mono_s)
        self._changed()

    def _hear_item(self, item: link_items.Item) -> None:
        match item:
            case link_items.Ping(t0):
                now_ns = int(self._wall_s() * 1e9)
                self.session.send(link_items.Pong(t0, now_ns, now_ns))
            case link_items.Redelivered(n):  # the first item that a node sends once it knows this app
                self.inbox.redelivered(n)
                self.is_known = True
            case link_items.Outcome():
                for one in item.each():
                    self._hear(one)
            case link_items.Missed():
                self._hear(item)

    def _hear_router(self, wire: bytes) -> None:
        """Handle a unicast of the router itself, or a report of one further on; ignore what this version does not
        understand."""
        body = open_message(wire).body
        try:
            said = _decoded(body)
        except Malformed as error:
            log.debug("the node sent something that this app does not understand: %s", error)
            return
        match said:
            case JoinAck() | LeaveAck():
                self.joins.hear(said)
            case Inquiry(ask=ask) if ask == INTRODUCE:
                self.joins.introduce()
            case Report() | Answer() | Inquiry() | Carried() | Wanted() | Hinted() | Redeemed():
                self._hear(said)

    # -- out -----------------------------------------------------------------------------------------------

    def ask(self, mono_s: float) -> bool:
        """Queue the due JOINs and LEAVEs before all other messages; return whether there were any."""
        if self.router is None or self._outgoing is None:
            return False
        due = self.joins.requests(self.router, mono_s)
        for run in due:
            self.outbox.add(run, urgent=True)
        return bool(due)

    def output(self, goodbye: tuple[Reason, str] | None = None) -> list[bytes]:
        """Return all bytes to write now. Settlements go first, because the node waits for them."""
        session, outgoing = self.session, self._outgoing
        up = outgoing is not None and session.is_open
        if up:
            session.settle(self.inbox.settled, self.inbox.take_refusals())
        if goodbye is not None:
            session.goodbye(*goodbye)
        parts = session.output()
        if up and goodbye is None and outgoing is not None:
            parts += self.outbox.take(outgoing)
        return parts


def _decoded(body: bytes) -> Control | Inquiry | Answer | Wanted | Hinted | Redemption:
    if is_inquiry(body):
        return decode_inquiry(body, SERVICE_BYTES_MAX)
    if is_hint(body):
        return decode_hint(body)
    if is_redemption(body):
        return decode_redemption(body)
    return decode_wanted(body) if is_wanted(body) else decode_control(body)
