"""One link, without I/O: bytes in, events out (link layer). The table says who may say what, and when.

The same class serves both ends, every transport, routers and apps. It splits the stream into frames, walks the
handshake, counts messages, and answers pings. What must be sent collects in `output()`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from . import link
from .codec import FRAME_BYTES_MAX, Malformed, TooLarge, frame, split_frames
from .crypto import PublicKey, SigningKey, verify
from .custody import Incoming
from .machine import Agency, Machine, RemoteProtocolError, Row, Table
from .reasons import Reason, reason_from
from .text import clean

VERSION = 1
HELLO_BYTES_MAX = 1024


class Message:
    """The table's word for every routed message, unicast or multicast."""


class St(Enum):
    """The states of one direction of a link (`docs/link.md`)."""

    HELLO = "StHello"
    PROOF = "StProof"
    OPEN = "StOpen"
    CLOSING = "StClosing"


_TALK = {
    Message: St.OPEN, link.Settled: St.OPEN, link.Refused: St.OPEN, link.Ping: St.OPEN, link.Pong: St.OPEN,
    link.Outcome: St.OPEN, link.Missed: St.OPEN, link.Redelivered: St.OPEN, link.Goodbye: St.CLOSING,
}  # fmt: skip
_LAST_WORDS = {link.Settled: St.CLOSING, link.Refused: St.CLOSING}


def _table(after_hello: St, hello_s: float) -> Table:
    return {
        St.HELLO: Row(Agency.RESPONDER, {link.Hello: after_hello, link.Goodbye: St.CLOSING}, hello_s),
        St.PROOF: Row(Agency.RESPONDER, {link.Proof: St.OPEN, link.Goodbye: St.CLOSING}, hello_s),
        St.OPEN: Row(Agency.RESPONDER, _TALK),
        St.CLOSING: Row(Agency.RESPONDER, _LAST_WORDS, 5.0),
    }


# What the peer may say to us; what we may say to it is the same table at the other end.
PROVEN = _table(St.OPEN, 10.0)  # the transport has proven the peer's key (TLS)
PROVING = _table(St.PROOF, 10.0)  # the link proves it (Unix socket, WebSocket, memory)


class Up(NamedTuple):
    """The handshake is done: who the peer is and what it asked for."""

    peer: PublicKey
    hello: link.Hello


class Messages(NamedTuple):
    """Consecutive messages of one read: `data[start:end]` of each span is a message, `data[frame_at:end]` its frame."""

    first_k: int
    data: bytes
    spans: list[tuple[int, int, int]]


class SettledUpTo(NamedTuple):
    """The peer settled our first `n`; the owner of the outgoing window judges whether that can be."""

    n: int


class RefusedAt(NamedTuple):
    """The peer refused our `k`-th message."""

    k: int
    reason: Reason
    text: str


class Heard(NamedTuple):
    """A link item that the session itself has nothing to do with: pong, outcome, missed, redelivered."""

    item: link.Item


class Ended(NamedTuple):
    """The peer said goodbye."""

    reason: Reason
    text: str


Event = Up | Messages | SettledUpTo | RefusedAt | Heard | Ended


@dataclass(frozen=True, slots=True)
class Offer:
    """What we say of ourselves in the hello."""

    role: str
    epoch: bytes
    durable: bool
    window_messages: int
    window_bytes: int
    nonce: bytes
    frame_bytes_max: int = FRAME_BYTES_MAX
    features: tuple[str, ...] = ()
    name: str | None = None


class Session:
    """One end of one link.

    `peer` is the key that the transport has proven, or None; then both ends prove theirs by signature (R-B5).
    `expect` pins the key of a dialled peer.
    """

    def __init__(
        self,
        offer: Offer,
        key: SigningKey,
        *,
        dialler: bool,
        peer: PublicKey | None = None,
        expect: PublicKey | None = None,
        link_items_per_s: float = 10.0,
    ) -> None:
        self._key = key
        self._dialler = dialler
        self._is_router = offer.role == "router"
        self._expect = expect
        self.peer = peer
        self.hello: link.Hello | None = None
        self.machine = Machine(PROVEN if peer else PROVING, St.HELLO)
        self.incoming = Incoming(offer.window_messages, offer.window_bytes)
        self.frame_bytes_max = offer.frame_bytes_max
        self._allowance = Allowance(link_items_per_s, link_items_per_s * 5)
        self._rest = b""
        self._said_goodbye = False
        ours = link.Hello(
            versions=(VERSION,), role=offer.role, epoch=offer.epoch, durable=offer.durable,
            frame_bytes_max=offer.frame_bytes_max, window_messages=offer.window_messages,
            window_bytes=offer.window_bytes, features=offer.features, nonce=offer.nonce,
            key=None if peer else key.public, name=offer.name,
        )  # fmt: skip
        self._our_hello = link.encode_item(ours)
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
        """The frames to write now, in order; they are yours."""
        out, self._output = self._output, []
        return out

    # -- what we say ---------------------------------------------------------------------------------------

    def send(self, item: link.Item) -> None:
        self._output.append(frame(link.encode_item(item)))

    def settle(self, n: int, refusals: Sequence[tuple[int, Reason, str]] = ()) -> int:
        """Tell the peer that its first `n` are in our keeping, delivered, or refused; returns the bytes freed."""
        for k, reason, text in refusals:
            self.send(link.Refused(k, reason, text))
        if n > self.incoming.settled:
            self.send(link.Settled(n))
        return self.incoming.settle(n)

    def goodbye(self, reason: Reason, text: str = "") -> None:
        if not self._said_goodbye:
            self._said_goodbye = True
            self.send(link.Goodbye(reason, text))

    # -- what we hear --------------------------------------------------------------------------------------

    def receive(self, data: bytes, now: float) -> list[Event]:
        """Take what the stream brought at `now` (monotonic seconds); `RemoteProtocolError` ends the link, after what
        came before it."""
        events: list[Event] = []
        try:
            self._take(self._rest + data if self._rest else data, now, events)
        except RemoteProtocolError as error:
            error.before = events
            raise
        return events

    def _take(self, data: bytes, now: float, events: list[Event]) -> None:
        spans, rest = self._split(data)
        unproven = self.machine.state in (St.HELLO, St.PROOF)
        if unproven and (spans[0][2] if spans else len(data)) > HELLO_BYTES_MAX:
            text = f"nothing may be longer than {HELLO_BYTES_MAX} bytes before hello and proof"
            raise RemoteProtocolError(Reason.TOO_LARGE, text)
        self._rest = data[rest:]
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
        if self._rest and spans:
            self._split(self._rest)  # what begins there may be bad

    def _split(self, data: bytes) -> tuple[list[tuple[int, int, int]], int]:
        try:
            return split_frames(data, self.frame_bytes_max)
        except TooLarge as error:
            raise RemoteProtocolError(Reason.TOO_LARGE, str(error)) from None
        except Malformed as error:
            raise RemoteProtocolError(Reason.MALFORMED, str(error)) from None

    def _messages(self, data: bytes, spans: list[tuple[int, int, int]]) -> Messages:
        self.machine.step(Agency.RESPONDER, Message)
        return Messages(self.incoming.receive(len(spans), spans[-1][2] - spans[0][0]), data, spans)

    def _item(self, wire: bytes, now: float) -> Event | None:
        try:
            item = link.decode_item(wire)
        except link.UnknownItem as error:
            raise RemoteProtocolError(Reason.UNSUPPORTED, str(error)) from None
        except Malformed as error:
            raise RemoteProtocolError(Reason.MALFORMED, str(error)) from None
        before = self.machine.state
        self.machine.step(Agency.RESPONDER, type(item))
        try:
            return self._heard(item, wire, now)
        except RemoteProtocolError:
            self.machine.state = before  # a refused step changes nothing
            raise

    def _heard(self, item: link.Item, wire: bytes, now: float) -> Event | None:
        match item:
            case link.Settled(n):
                return SettledUpTo(n)
            case link.Refused(k, reason, text):
                return RefusedAt(k, reason_from(reason), clean(text or ""))
            case link.Hello():
                return self._heard_hello(item, wire)
            case link.Proof(signature):
                return self._heard_proof(signature)
            case link.Goodbye(reason, text):
                return Ended(reason_from(reason), clean(text or ""))
        for_apps = isinstance(item, link.Outcome | link.Redelivered)
        if for_apps and self._is_router:
            raise RemoteProtocolError(Reason.MALFORMED, f"{type(item).__name__} is said to apps, not to a router")
        if not for_apps and not isinstance(item, link.Missed) and not self._allowance.take(1, now):
            raise RemoteProtocolError(Reason.RATE_LIMITED, "too many link items a second")
        return Heard(item)

    def _heard_hello(self, hello: link.Hello, wire: bytes) -> Up | None:
        if VERSION not in hello.versions:
            text = f"the peer offers link versions {list(hello.versions)}, this end speaks {VERSION}"
            raise RemoteProtocolError(Reason.UNSUPPORTED, text)
        if hello.window_messages < 1 or hello.window_bytes < 1:
            raise RemoteProtocolError(Reason.MALFORMED, "a window of nothing")
        self.hello = hello
        self._their_hello = wire
        if self.peer is not None:
            return Up(self.peer, hello)
        if hello.key is None:
            raise RemoteProtocolError(Reason.NOT_AUTHORISED, "the hello names no key and the transport proves none")
        signature = self._key.sign(self._to_prove("dialler" if self._dialler else "listener"))
        self._output.append(frame(link.encode_item(link.Proof(signature))))
        return None

    def _heard_proof(self, signature: bytes) -> Up:
        assert self.hello is not None and self.hello.key is not None
        key = self.hello.key
        if not verify(key, self._to_prove("listener" if self._dialler else "dialler"), signature):
            raise RemoteProtocolError(Reason.BAD_SIGNATURE, f"the peer has not proven the key {key.hex()}")
        if self._expect not in (None, key):
            assert self._expect is not None
            text = f"expected {self._expect.hex()}, but {key.hex()} answered"
            raise RemoteProtocolError(Reason.NOT_AUTHORISED, text)
        self.peer = PublicKey.checked(key)
        return Up(self.peer, self.hello)

    def _to_prove(self, role: str) -> bytes:
        ours, theirs = self._our_hello, self._their_hello
        return link.proof_bytes(role, *((ours, theirs) if self._dialler else (theirs, ours)))


class Allowance:
    """A token bucket: `per_s` a second, at most `burst` saved up. A rate of 0 allows everything."""

    __slots__ = ("_at", "_left", "burst", "per_s")

    def __init__(self, per_s: float, burst: float) -> None:
        self.per_s = per_s
        self.burst = burst
        self._left = burst
        self._at: float | None = None

    def take(self, count: int, now: float) -> bool:
        """Whether `count` are allowed at `now` (monotonic seconds); if so, they are taken."""
        if not self.per_s:
            return True
        if self._at is not None:
            self._left = min(self.burst, self._left + (now - self._at) * self.per_s)
        self._at = now
        if self._left < count:
            return False
        self._left -= count
        return True
