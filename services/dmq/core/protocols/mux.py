"""The multiplexer of Ouroboros: several protocols, each in two directions, share one stream in SDUs.

An SDU is a head of 8 bytes, big endian, and 1 to 65,535 bytes of one protocol:

    bytes 0-3   the sender's clock in microseconds, its low 32 bits
    bytes 4-5   bit 15: 0 from the side that began this protocol, 1 from the other; bits 0-14: the protocol's number
    bytes 6-7   the length of what follows

A message may span SDUs, and one SDU may end a message and begin the next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from math import inf
from struct import Struct
from typing import NamedTuple

from router.core.link.machine import Agency, RemoteProtocolError
from router.core.wire.codec import TooLarge
from router.core.wire.reasons import Reason

from ..cbor import ItemScanner, Skips

HEAD = Struct(">IHH")
SENT_BYTES_MAX = 12_288
"""The longest payload that is sent; payloads of up to 65,535 bytes are read."""
SDU_S = 30.0
SDU_HANDSHAKE_S = 10.0
"""How long an SDU may take from its first byte to its last; while none is under way, silence has no limit here."""
MESSAGE_S = 60.0
"""How long a message may take whose SDUs come one by one, as from a client that sends a byte in each."""
RESPONDER_BIT = 0x8000
CLOCK_US = 1 << 32

_FALSE, _TRUE = bytearray(b"\xf4"), bytearray(b"\xf5")
Channel = tuple[int, Agency]
"""A protocol's number, and the side that speaks."""


class Fragment(NamedTuple):
    """Bytes of one protocol from one side: the part of an SDU that has come."""

    channel: Channel
    payload: bytes


class Demultiplexer:
    """Reads SDUs from a stream that is cut anywhere; keeps no more than an unfinished head."""

    def __init__(self, channels: Iterable[Channel]) -> None:
        """`channels`: what the other side may speak on now."""
        self.channels = channels
        self._head = b""
        self._channel: Channel = (0, Agency.INITIATOR)
        self._left = 0
        self._began_s = inf

    @property
    def channels(self) -> frozenset[Channel]:
        return self._channels

    @channels.setter
    def channels(self, channels: Iterable[Channel]) -> None:
        self._channels = frozenset(channels)
        self._known: dict[int, Channel] = {}

    def __repr__(self) -> str:
        state = f"{self._left} bytes of an SDU to come" if self._left else f"{len(self._head)} bytes of a head"
        return f"<Demultiplexer of {len(self.channels)} channels, {state}>"

    def deadline_s(self, sdu_s: float = SDU_S) -> float:
        """Return when the present SDU must be whole; infinity if there is none."""
        return self._began_s + sdu_s

    def whole(self, data: bytes) -> tuple[int, bytes] | None:
        """Return the protocol's number and the content of the SDU that `data` is, all of it and nothing else, as nearly
        all that is read at once; None: `feed` it."""
        if self._left or self._head or len(data) <= HEAD.size:
            return None
        _, numbered, length = HEAD.unpack_from(data)
        channel = self._known.get(numbered)
        if channel is None or length != len(data) - HEAD.size:
            return None
        return channel[0], data[HEAD.size :]

    def feed(self, data: bytes, now_s: float) -> Iterator[Fragment]:
        """Yield the bytes in `data` for each protocol, in order; raise `RemoteProtocolError` at a wrong head.

        Each head is checked against the present `channels`. `now_s`: a clock that never steps, for `deadline_s`.
        """
        at = 0
        while at < len(data):
            if not self._left:
                at = self._read_head(data, at, now_s)
                continue
            payload = data[at : at + self._left]
            at += len(payload)
            self._left -= len(payload)
            if not self._left:
                self._began_s = inf
            yield Fragment(self._channel, payload)

    def _read_head(self, data: bytes, at: int, now_s: float) -> int:
        """Read a head, or the part of it that has come, and return where it ends."""
        end = at + HEAD.size - len(self._head)
        self._began_s = min(self._began_s, now_s)
        self._head += data[at:end]
        if end > len(data):
            return len(data)
        _, numbered, length = HEAD.unpack(self._head)
        self._channel, self._left, self._head = self._judged(numbered), length, b""
        if not length:
            raise _wrong(Reason.MALFORMED, "an SDU is empty (short SDU)")
        return end

    def _judged(self, numbered: int) -> Channel:
        if (known := self._known.get(numbered)) is not None:
            return known
        number = numbered & ~RESPONDER_BIT
        sender = Agency.RESPONDER if numbered & RESPONDER_BIT else Agency.INITIATOR
        if (number, sender) in self.channels:
            found = self._known[numbered] = number, sender
            return found
        if any(known == number for known, _ in self.channels):
            raise _wrong(Reason.UNSUPPORTED, f"protocol {number} does not run here for the {sender.value}")
        raise _wrong(Reason.UNSUPPORTED, f"protocol {number} is unknown (UnknownMiniProtocol)")


class Inbox:
    """The bytes of one channel that have come, cut into messages when it is the sender's turn.

    Holds at most `bytes_max`: a sender that is further ahead of its turn overruns the queue. The work is bounded by
    the bytes that come, however they are cut.

    `loose`: two bytes that begin a message whose list is one item shorter than its head says, with or without a truth
    value behind it (the deployed forms of a blocking reply). `usual`: as of `ItemScanner`.
    """

    def __init__(self, bytes_max: int, loose: bytes = b"", usual: Skips | None = None) -> None:
        self._bytes_max = bytes_max
        self._usual = usual
        self._loose = loose
        self._bytes = bytearray()
        self._scanner: ItemScanner | None = None
        self._start = 0
        self._after_loose = False
        self.taken = 0
        """How many messages have been taken."""

    def __repr__(self) -> str:
        return f"<Inbox of {len(self._bytes)} bytes, {self._bytes_max} at most>"

    def __len__(self) -> int:
        return len(self._bytes)

    def add(self, payload: bytes) -> None:
        """Keep the bytes that have come; raise `RemoteProtocolError` beyond the limit."""
        if len(self._bytes) + len(payload) > self._bytes_max:
            text = f"more than {self._bytes_max} bytes wait for their turn (IngressQueueOverRun)"
            raise _wrong(Reason.WINDOW_EXCEEDED, text)
        self._bytes += payload

    def take(self, message_bytes_max: float) -> bytes | None:
        """Return the next message, if it is whole; raise `Malformed`, or `TooLarge` as soon as its heads say so."""
        if self._scanner is None and not self._begins():
            return None
        assert self._scanner is not None
        end = self._scanner.end_in(self._bytes, self._start)
        length = max(end or 0, self._start + self._scanner.bytes_announced)
        if length > message_bytes_max:
            raise TooLarge(f"a message has at least {length} bytes; the limit in this state is {message_bytes_max}")
        if end is None:
            return None
        message = bytes(self._bytes[:end])
        del self._bytes[:end]
        self._scanner, self._after_loose = None, bool(self._start)
        self.taken += 1
        return message

    def _begins(self) -> bool:
        """Begin with the next message; return False if its beginning cannot be judged yet."""
        if self._after_loose and self._bytes[:1] in (_FALSE, _TRUE):
            del self._bytes[:1]
            self._after_loose = False
        known = bytes(self._bytes[:2])
        if not known or (known == self._loose[:1] and len(known) < 2):
            return False
        self._start = int(bool(self._loose) and known == self._loose)
        self._scanner = ItemScanner((known[0] & 31) - 1 if self._start else 1, self._usual)
        return True


class Multiplexer:
    """Cuts messages into SDUs, each protocol in turn, so that a long message does not hold up another protocol."""

    def __init__(self) -> None:
        self._turns: deque[int] = deque()  # the protocols' numbers, as in a head
        self._waiting: dict[int, tuple[bytes, int]] = {}  # what waits of each, and how much of it was sent

    def __repr__(self) -> str:
        return f"<Multiplexer with {len(self)} bytes for {len(self._turns)} protocols>"

    def __len__(self) -> int:
        """Return how many bytes of messages wait; the protocols' turns bound this number."""
        return sum(len(message) - at for message, at in self._waiting.values())

    def __bool__(self) -> bool:
        return bool(self._turns)

    def add(self, channel: Channel, message: bytes) -> None:
        numbered = _numbered(channel)
        waiting = self._waiting.get(numbered)
        if waiting is None:
            self._waiting[numbered] = message, 0
            self._turns.append(numbered)
        else:
            self._waiting[numbered] = waiting[0] + message, waiting[1]

    def take(self, clock_us: int, payload_bytes_max: int = SENT_BYTES_MAX) -> bytes:
        """Return the next SDU, or b"" if nothing waits; `clock_us`: a clock that never steps, in microseconds."""
        if not self._turns:
            return b""
        numbered = self._turns.popleft()
        message, at = self._waiting[numbered]
        payload = message[at : at + payload_bytes_max]
        if at + payload_bytes_max < len(message):
            self._waiting[numbered] = message, at + payload_bytes_max
            self._turns.append(numbered)
        else:
            del self._waiting[numbered]
        return HEAD.pack(clock_us % CLOCK_US, numbered, len(payload)) + payload


def sdu(channel: Channel, payload: bytes, clock_us: int) -> bytes:
    """Return one SDU with this payload."""
    return HEAD.pack(clock_us % CLOCK_US, _numbered(channel), len(payload)) + payload


def _numbered(channel: Channel) -> int:
    """Return the protocol's number with the bit of the side that speaks."""
    number, sender = channel
    return number | RESPONDER_BIT if sender is Agency.RESPONDER else number


def _wrong(reason: Reason, text: str) -> RemoteProtocolError:
    return RemoteProtocolError(reason, text)
