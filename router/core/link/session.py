"""One link, without I/O: bytes in, events out (link layer). The table rules who may send what, and when.

The same class serves both ends, every transport, routers and apps. It splits the stream into frames, performs the
handshake, counts messages and limits rates. The bytes to send are collected for `output()`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec import Struct

from router.core.wire import link_items
from router.core.wire.codec import FRAME_BYTES_MAX, Malformed, TooLarge, frame, frame_bounds, split_frames
from router.core.wire.crypto import PublicKey, SigningKey, verify
from router.core.wire.reasons import Reason, reason_from
from router.core.wire.run_claim import RunClaim
from router.core.wire.succession import Former, leads
from router.core.wire.text import clean

from .allowance import Allowance
from .custody import ADDED_BYTES_MAX, Incoming
from .machine import Agency, Machine, RemoteProtocolError
from .table import LinkLimits, Message, St, in_force
from .unfinished import Unfinished

VERSION = 1
FRAMES_AT_ONCE = 1024
BEGINNING_BYTES = 10  # enough to know an item's form

_FOR_APPS = frozenset((link_items.Outcome, link_items.Redelivered))
_FOR_ROUTERS = frozenset((link_items.OtherRun, link_items.StoppedRun))
_METERED = frozenset((link_items.Ping, link_items.Pong, *_FOR_ROUTERS))
_METERED_OF_STRANGERS = frozenset((*_METERED, link_items.Missed))  # known neighbours send `missed` only for a reason


class Up(NamedTuple):
    """The handshake is done: the peer's key and hello."""

    peer: PublicKey
    hello: link_items.Hello


class MessageRun(NamedTuple):
    """Consecutive messages of one read: `data[start:end]` of each span is a message, `data[frame_at:end]` its frame."""

    first_k: int
    data: bytes
    spans: list[tuple[int, int, int]]


class SettledUpTo(NamedTuple):
    """The peer settled our first `n` messages; the owner of the outgoing window checks whether that is possible."""

    n: int


class RefusedAt(NamedTuple):
    """The peer refused our `k`-th message."""

    k: int
    reason: Reason
    text: str


class OtherItem(NamedTuple):
    """A link item that the session itself does not handle: ping, pong, outcome, missed, redelivered, other and
    stopped run."""

    item: link_items.Item


class Ended(NamedTuple):
    """The peer said goodbye."""

    reason: Reason
    text: str


Event = Up | MessageRun | SettledUpTo | RefusedAt | OtherItem | Ended


class Offer(Struct, frozen=True):
    """The contents of our own hello, except the key."""

    role: str
    epoch: bytes
    durable: bool
    window_messages: int
    window_bytes: int
    nonce: bytes
    frame_bytes_max: int = FRAME_BYTES_MAX
    features: tuple[str, ...] = ()
    name: str | None = None
    pubsub: PublicKey | None = None
    discovery: PublicKey | None = None
    run: link_items.Run | None = None
    was: tuple[Former, ...] = ()
    claim: RunClaim | None = None

    def hello(self, key: PublicKey | None) -> link_items.Hello:
        """Return our own hello, with the key if the transport does not prove it."""
        return link_items.Hello(
            versions=(VERSION,),
            role=self.role,
            epoch=self.epoch,
            durable=self.durable,
            nonce=self.nonce,
            frame_bytes_max=self.frame_bytes_max,
            window_messages=self.window_messages,
            features=self.features,
            window_bytes=self.window_bytes,
            key=key,
            name=self.name,
            pubsub=self.pubsub,
            discovery=self.discovery,
            run=self.run,
            was=self.was,
            claim=self.claim,
        )


class Welcome(NamedTuple):
    """The terms for a peer whose key is proven; `frame_bytes_max` may be less than our hello announced. `refused`,
    `reason`: why a peer is not let in, as told to it."""

    is_stranger: bool = False
    frame_bytes_max: int | None = None
    refused: str = ""
    reason: Reason = Reason.NOT_AUTHORISED


LIMITS = LinkLimits()


def everybody(_: PublicKey) -> Welcome | None:
    """Admit every proven key."""
    return Welcome()


class Session:
    """One end of one link.

    `peer` is the key that the transport has proven; if None, both ends prove theirs by signature (R-B5).
    `expect` pins the key of a dialled peer, which may also be one that has followed it, by statements in the hello.
    `welcome` judges the proven key, and returns None to reject it. A key that is not let in, and has followed one that
    is, comes up as a stranger: whoever decides about links learns from its hello whom it has followed.
    """

    def __init__(
        self,
        offer: Offer,
        key: SigningKey,
        *,
        dialler: bool,
        peer: PublicKey | None = None,
        expect: PublicKey | None = None,
        limits: LinkLimits = LIMITS,
        welcome: Callable[[PublicKey], Welcome | None] = everybody,
    ) -> None:
        self._key = key
        self._dialler = dialler
        self._is_router = offer.role == "router"
        self._asked_outcomes = "outcome" in offer.features
        self._expect = expect
        self._welcome = welcome
        self.peer = peer
        self.hello: link_items.Hello | None = None
        # A router adds itself as VIA to messages for an app, even to those that already had the greatest length.
        frame_bytes_max = offer.frame_bytes_max + (0 if self._is_router else ADDED_BYTES_MAX)
        self._terms = peer is not None, limits
        self.machine = Machine(in_force(*self._terms, frame_bytes_max))
        self.incoming = Incoming(offer.window_messages, offer.window_bytes)
        self._allowance = Allowance(limits.link_items_per_s, limits.link_items_per_s * 5)
        self._metered = _METERED
        self.is_stranger = False
        self.unfinished = Unfinished(limits.frame_s)
        self._sent: int | None = None
        self._settled = self._refused = 0  # counts of our messages, by the peer
        self._said_goodbye = False
        self._our_hello = link_items.encode_item(offer.hello(None if peer else key.public))
        self._their_hello = b""
        self._output: list[bytes] = [frame(self._our_hello)]

    def __repr__(self) -> str:
        whom = f"with {self.peer.hex()[:8]}" if self.peer else "with nobody proven"
        taken = self.incoming
        return (
            f"<session {whom} in {self.machine.state.value}: {taken.received} messages taken, {taken.settled} settled>"
        )

    @property
    def is_open(self) -> bool:
        return self.machine.state is St.OPEN and not self._said_goodbye

    def output(self) -> list[bytes]:
        """Return the frames to write now, in order, and forget them."""
        out, self._output = self._output, []
        return out

    # -- sending -------------------------------------------------------------------------------------------

    def send(self, item: link_items.Item) -> None:
        self._output.append(frame(link_items.encode_item(item)))

    def note_sent(self, count: int) -> None:
        """Count `count` messages as sent; once called, the peer may settle or refuse only messages that were sent."""
        self._sent = (self._sent or 0) + count

    @property
    def owed(self) -> int | None:
        """The number of the first message noted as sent that the peer has not settled; None if it owes nothing."""
        return self._settled + 1 if (self._sent or 0) > self._settled else None

    def settle(self, n: int, refusals: Sequence[tuple[int, Reason, str]] = ()) -> int:
        """Settle the peer's first `n` messages, after sending the refusals among them; return the bytes freed."""
        for k, reason, text in refusals:
            self.send(link_items.Refused(k, reason, text))
        if n > self.incoming.settled:
            self.send(link_items.Settled(n))
        return self.incoming.settle(n)

    def goodbye(self, reason: Reason, text: str = "") -> None:
        if not self._said_goodbye:
            self._said_goodbye = True
            self.send(link_items.Goodbye(reason, text))

    # -- receiving -----------------------------------------------------------------------------------------

    def receive(self, data: bytes, now: float) -> list[Event]:
        """Return the events in `data`, read at `now` (monotonic seconds).

        `RemoteProtocolError` ends the link; its `before` holds the events before the fault."""
        events: list[Event] = []
        try:
            self._take(data, now, events)
        except RemoteProtocolError as error:
            error.before = events
            raise
        return events

    def allows(self, count: int, now: float) -> bool:
        """Whether the rate allows the peer `count` more link items or unreadable messages; if so, count them."""
        return self._allowance.take(count, now)

    def _take(self, data: bytes, now: float, events: list[Event]) -> None:
        if self.unfinished:
            whole = self.unfinished.complete(data)
            if whole is None:
                return
            data = whole
        at = 0
        spans = [(at, at, at)]
        while spans:  # not all at once: bytes after a bad frame are not even split
            spans, at = self._split(data, at)
            self._hear(spans, data, now, events)
        if at < len(data):
            self._keep(data, at)

    def _hear(self, spans: list[tuple[int, int, int]], data: bytes, now: float, events: list[Event]) -> None:
        for _, start, end in spans:
            if end - start < 2 or data[start + 1] > 1:
                break
        else:  # nearly every read of an open link holds messages only
            if spans:
                events.append(self._messages(data, spans))
            return
        run: list[tuple[int, int, int]] = []
        for span in spans:
            if span[2] - span[1] > 1 and data[span[1] + 1] <= 1:
                run.append(span)
                continue
            if run:
                events.append(self._messages(data, run))
                run = []
            event = self._item(data[span[1] : span[2]], now)
            if event is not None:
                events.append(event)
        if run:
            events.append(self._messages(data, run))

    def _keep(self, data: bytes, at: int) -> None:
        """Keep an incomplete frame, unless its first bytes show that it would be refused."""
        start, end = self._bounds(data, at)
        if len(data) - start >= BEGINNING_BYTES and data[start + 1] > 1:
            try:
                self._form(data[start : start + BEGINNING_BYTES], end - start)
            except Malformed as error:
                raise _fault(error) from None
        self.unfinished.keep(data, at, end)

    def _bounds(self, data: bytes, at: int) -> tuple[int, int]:
        try:
            return frame_bounds(data, at, self.machine.bytes_max)
        except Malformed as error:
            raise _fault(error) from None

    def _split(self, data: bytes, at: int) -> tuple[list[tuple[int, int, int]], int]:
        try:
            most = FRAMES_AT_ONCE if self.machine.state is St.OPEN else 1  # in a handshake each frame changes the state
            return split_frames(data, self.machine.bytes_max, at, most=most)
        except Malformed as error:
            raise _fault(error) from None

    def _messages(self, data: bytes, spans: list[tuple[int, int, int]]) -> MessageRun:
        self.machine.step(Agency.RESPONDER, Message)
        return MessageRun(self.incoming.receive(len(spans), spans[-1][2] - spans[0][0]), data, spans)

    def _item(self, wire: bytes, now: float) -> Event | None:
        """Judge an item by its first bytes and this end's role, then by the table and the rate; only then read it."""
        try:
            form = self._form(wire, len(wire))
            before = self.machine.state
            self.machine.step(Agency.RESPONDER, form.kind)
            try:
                if form.kind in self._metered:
                    self._meter(now)
                return self._heard(link_items.read_item(form, wire), wire, now)
            except (Malformed, RemoteProtocolError):
                self.machine.state = before  # a refused step changes nothing
                raise
        except Malformed as error:
            raise _fault(error) from None

    def _form(self, beginning: bytes, size: int) -> link_items.ItemForm:
        """Return the form of an item by its first bytes; raise `Malformed` if it may not be sent to this end."""
        form = link_items.form_of(beginning, size)
        if form.kind in _FOR_APPS and self._is_router:
            raise Malformed(f"{form.kind.__name__} is said to apps, not to a router")
        if form.kind in _FOR_ROUTERS and not self._is_router:
            raise Malformed(f"{form.kind.__name__} is said to routers, not to an app")
        if form.kind is link_items.Outcome and not self._asked_outcomes:
            raise Malformed("an outcome is said to apps that asked for it in their hello; this one did not")
        return form

    def _meter(self, now: float) -> None:
        if not self.allows(1, now):
            raise RemoteProtocolError(Reason.RATE_LIMITED, "too many link items a second")

    def _heard(self, item: link_items.Item, wire: bytes, now: float) -> Event | None:
        match item:
            case link_items.Settled(n):
                return self._heard_settled(n, now)
            case link_items.Refused(k, reason, text):
                return self._heard_refused(RefusedAt(k, reason_from(reason), clean(text or "")))
            case link_items.Hello():
                return self._heard_hello(item, wire)
            case link_items.Proof(signature):
                return self._heard_proof(signature)
            case link_items.Goodbye(reason, text):
                return Ended(reason_from(reason), clean(text or ""))
        return OtherItem(item)

    def _heard_settled(self, n: int, now: float) -> SettledUpTo:
        """Check a `Settled`; if it settles nothing new, it is useless and counts against the rate of link items."""
        if self._sent is not None and n > self._sent:
            raise Malformed(f"settled {n}, but {self._sent} were sent")
        if n <= self._settled:
            self._meter(now)
        self._settled = max(self._settled, n)
        return SettledUpTo(n)

    def _heard_refused(self, refused: RefusedAt) -> RefusedAt:
        self._refused += 1
        if self._sent is not None and self._refused > self._sent:
            raise Malformed(f"refused {self._refused} messages, but {self._sent} were sent")
        return refused

    def _heard_hello(self, hello: link_items.Hello, wire: bytes) -> Up | None:
        if VERSION not in hello.versions:
            text = f"the peer offers link versions {list(hello.versions)}, this end speaks {VERSION}"
            raise RemoteProtocolError(Reason.UNSUPPORTED, text)
        if hello.window_messages < 1 or hello.window_bytes < 1:
            raise RemoteProtocolError(Reason.MALFORMED, "a window of nothing")
        self.hello = hello
        self._their_hello = wire
        if self.peer is not None:
            return self._up(self.peer, hello)
        if hello.key is None:
            raise RemoteProtocolError(Reason.NOT_AUTHORISED, "the hello names no key and the transport proves none")
        signature = self._key.sign(self._to_prove("dialler" if self._dialler else "listener"))
        self._output.append(frame(link_items.encode_item(link_items.Proof(signature))))
        return None

    def _heard_proof(self, signature: bytes) -> Up:
        assert self.hello is not None and self.hello.key is not None
        key = self.hello.key
        if not verify(key, self._to_prove("listener" if self._dialler else "dialler"), signature):
            raise RemoteProtocolError(Reason.BAD_SIGNATURE, f"the peer has not proven the key {key.hex()}")
        return self._up(PublicKey.checked(key), self.hello)

    def _up(self, key: PublicKey, hello: link_items.Hello) -> Up:
        """Admit the proven key, or end the session before anything else of the peer's is read."""
        expect, found = self._expect, self._welcome(key)
        if expect is not None and expect != key and not leads(hello.was, expect, key):
            if found is not None and found.reason is Reason.RENEWED:  # it hears that it is superseded, and says so
                raise RemoteProtocolError(found.reason, found.refused)
            raise RemoteProtocolError(
                Reason.NOT_AUTHORISED, f"expected {expect.hex()}, but {key.hex()} answered, and shows no succession"
            )
        if (found is None or found.refused) and self._follows_one_let_in(key, hello):
            found = Welcome(is_stranger=True)
        if found is None or found.refused:
            raise RemoteProtocolError(*((found.reason, found.refused) if found else (Reason.NOT_AUTHORISED, "")))
        if found.frame_bytes_max is not None:
            bytes_max = self.machine.table[St.OPEN].bytes_max
            self.machine.table = in_force(*self._terms, min(bytes_max, found.frame_bytes_max))
        self.is_stranger = found.is_stranger
        if found.is_stranger:
            self._metered = _METERED_OF_STRANGERS
        self.peer = key
        self._our_hello = self._their_hello = b""  # nothing is left to prove, and there may be a thousand idle links
        return Up(key, hello)

    def _follows_one_let_in(self, key: PublicKey, hello: link_items.Hello) -> bool:
        """Whether the hello shows that the proven key has followed a key that is let in as more than a stranger."""
        for one in hello.was:
            found = self._welcome(one.old)
            if found is not None and not found.refused and not found.is_stranger:
                return leads(hello.was, one.old, key)
        return False

    def _to_prove(self, role: str) -> bytes:
        ours, theirs = self._our_hello, self._their_hello
        return link_items.proof_bytes(role, *((ours, theirs) if self._dialler else (theirs, ours)))


def _fault(error: Malformed) -> RemoteProtocolError:
    """Return the error that ends the session for the fault in the peer's bytes."""
    reason = Reason.TOO_LARGE if isinstance(error, TooLarge) else Reason.MALFORMED
    return RemoteProtocolError(Reason.UNSUPPORTED if isinstance(error, link_items.UnknownItem) else reason, str(error))
