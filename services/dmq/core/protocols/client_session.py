"""One connection between a DMQ node and a client: handshake, then submission and notification over one stream.

Bytes in, messages out, however the bytes are cut; `say` queues a message, `take` cuts queued ones into SDUs. Wrong
bytes raise `RemoteProtocolError`: these protocols have no message for it, so the connection is closed. A protocol that
has ended may begin again on the same connection, as on a dmq-node. Messages that come ahead of their turn wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from math import inf
from typing import Any

from msgspec import Struct

from router.core.link.machine import Agency, Machine, RemoteProtocolError
from router.core.wire.codec import Malformed, TooLarge
from router.core.wire.reasons import Reason

from . import handshake, notification, submission
from .mux import MESSAGE_S, SDU_HANDSHAKE_S, SDU_S, Demultiplexer, Inbox, Multiplexer
from .revision import Revision

WAITING_BYTES_MAX = 1 << 18
"""Most bytes of one protocol that may wait for their turn at a node; at a client the longest reply is added."""


SHORT_BYTES_MAX = 64
SHORT_MAX = 256
"""How many different messages of at most so many bytes are remembered as they were read."""
_LAST = (handshake.MsgRefuse, handshake.MsgQueryReply)
_LAST_EARLY = (submission.MsgRejectMessage, submission.MsgDone)
_AGREED = {
    peer: frozenset((number, peer) for number in (submission.NUMBER, notification.NUMBER))
    for peer in (Agency.INITIATOR, Agency.RESPONDER)
}
"""What runs after the handshake, by who speaks."""


class Heard(Struct, frozen=True):
    """A message of the other side, in its protocol; of a MsgSubmitMessage at a node the `SignedMessage` in it."""

    number: int
    message: Any


class _Talk:
    """One protocol of the connection: its state, its unread bytes, and its codec."""

    def __init__(
        self, machine: Machine, inbox: Inbox, decode: Callable[[bytes], Any], encode: Callable[[Any], bytes]
    ) -> None:
        self.machine = machine
        self.inbox = inbox
        self.decode = decode
        self.encode = encode
        self.partial = (0, inf)  # how many messages had been taken when a part of one was seen first, and when


class Session:
    """One end of a connection: the node's, if `we` are the responder, else the client's."""

    def __init__(self, we: Agency, revision: Revision) -> None:
        self._we = we
        self._peer = Agency.RESPONDER if we is Agency.INITIATOR else Agency.INITIATOR
        self._revision = revision
        longest = 0 if we is Agency.RESPONDER else notification.REPLY_BYTES_MAX
        told = revision.notification
        hands, hears = handshake, submission
        self._talks = {
            handshake.NUMBER: _Talk(
                self._machine(handshake.TABLE), Inbox(WAITING_BYTES_MAX), hands.decode_message, hands.encode_message
            ),
            submission.NUMBER: _Talk(
                self._machine(submission.TABLE), Inbox(WAITING_BYTES_MAX), hears.decode_item, hears.encode_message
            ),
            notification.NUMBER: _Talk(
                self._machine(told.table), Inbox(WAITING_BYTES_MAX + longest, told.loose), told.decode, told.encode
            ),
        }
        self._demultiplexer = Demultiplexer([(handshake.NUMBER, self._peer)])
        self._multiplexer = Multiplexer()
        self.ends = False
        """Whether the connection is to be closed when everything queued has been written."""

    def __repr__(self) -> str:
        states = ", ".join(f"{number} in {talk.machine.state.value}" for number, talk in self._talks.items())
        return f"<Session of the {self._we.value}, {self._revision.name}: {states}>"

    @property
    def is_open(self) -> bool:
        """Whether the handshake is done, and both ends have agreed."""
        return len(self._demultiplexer.channels) > 1

    @property
    def is_idle(self) -> bool:
        """Whether the other side may speak in all that was agreed on, and has begun nothing."""
        agreed = self._talks[submission.NUMBER], self._talks[notification.NUMBER]
        return self.deadline_s() == inf and all(talk.machine.agency is self._peer and not talk.inbox for talk in agreed)

    def deadline_s(self) -> float:
        """Return when, by the clock given to `hear`, an SDU is overdue; infinity if none is under way."""
        return self._demultiplexer.deadline_s(SDU_S if self.is_open else SDU_HANDSHAKE_S)

    def is_stuck(self, now_s: float) -> bool:
        """Whether a part of a message has waited for its rest for `MESSAGE_S`; to be asked about once a second."""
        is_late = False
        for talk in self._talks.values():
            if talk.machine.agency is not self._peer or not len(talk.inbox):
                talk.partial = 0, inf
            elif talk.partial[1] == inf or talk.partial[0] != talk.inbox.taken:
                talk.partial = talk.inbox.taken, now_s
            is_late |= now_s - talk.partial[1] >= MESSAGE_S
        return is_late

    def is_our_turn(self, number: int) -> bool:
        return self._talks[number].machine.agency is self._we

    def hear(self, data: bytes, now_s: float) -> list[Heard]:
        """Return the messages that `data` completes; raise `RemoteProtocolError`, with earlier ones in `before`."""
        sdu = self._demultiplexer.whole(data)
        if sdu is not None and (heard := self._whole(*sdu)) is not None:
            return [heard]
        return self._collected(self._hear(data, now_s))

    def say(self, number: int, message: Any, encoded: bytes = b"") -> list[Heard]:
        """Queue a message, and return those that were waiting for this turn to pass. `encoded`: it, if that is known.

        Raises `LocalProtocolError` out of turn, and `RemoteProtocolError` like `hear`.
        """
        talk = self._talks[number]
        talk.machine.step(self._we, message)
        self._multiplexer.add((number, self._we), encoded or talk.encode(message))
        self._follow(number, message)
        return self._collected(self._waiting(number)) if talk.inbox else []

    @property
    def has_to_write(self) -> bool:
        """Whether something is queued."""
        return bool(self._multiplexer)

    def take(self, clock_us: int) -> bytes:
        """Return the next SDU to write, or b"" if nothing is queued; `clock_us` as in `Multiplexer.take`."""
        return self._multiplexer.take(clock_us)

    def _collected(self, heard: Iterator[Heard]) -> list[Heard]:
        found: list[Heard] = []  # extend keeps what came before a fault
        try:
            found.extend(heard)
        except Malformed as error:
            reason = Reason.TOO_LARGE if isinstance(error, TooLarge) else Reason.MALFORMED
            raise _after(RemoteProtocolError(reason, str(error)), found) from None
        except RemoteProtocolError as error:
            raise _after(error, found) from None
        return found

    def _hear(self, data: bytes, now_s: float) -> Iterator[Heard]:
        for (number, _), payload in self._demultiplexer.feed(data, now_s):
            if (whole := self._whole(number, payload)) is not None:
                yield whole
                continue
            self._talks[number].inbox.add(payload)
            yield from self._waiting(number)

    def _whole(self, number: int, payload: bytes) -> Heard | None:
        """Return the submitted message or the request that an SDU holds, all of it and nothing else, as nearly all do;
        None: whatever it holds is to be cut out of its protocol's bytes."""
        talk = self._talks[number]
        if talk.inbox or talk.machine.agency is not self._peer or self.ends:
            return None
        if number == submission.NUMBER:
            return self._submitted(talk, payload)
        request = self._revision.notification.requests.get(payload) if number == notification.NUMBER else None
        if request is None:
            return self._short(number, payload)
        talk.machine.step(self._peer, request)
        return Heard(number, request)

    def _short(self, number: int, payload: bytes) -> Heard | None:
        """Return the message of a client that an SDU holds whole, if it is short: a proposal or an end, which nearly
        all clients write alike, so it is read once."""
        if len(payload) > SHORT_BYTES_MAX or self._we is Agency.INITIATOR:
            return None
        talk = self._talks[number]
        try:
            message = _read_once(talk.decode, payload)
        except Malformed:
            return None
        talk.machine.step(self._peer, message)
        self._follow(number, message)
        return Heard(number, self._opened(message))

    def _submitted(self, talk: _Talk, payload: bytes) -> Heard | None:
        if not payload.startswith(submission.SUBMITS):
            return self._short(submission.NUMBER, payload)
        if len(payload) > talk.machine.bytes_max:
            return None
        try:
            message = self._revision.encoding.read(payload[len(submission.SUBMITS) :])
        except Malformed:
            return None
        talk.machine.step(self._peer, submission.MsgSubmitMessage)
        return Heard(submission.NUMBER, message)

    def _waiting(self, number: int) -> Iterator[Heard]:
        """Yield the waiting messages of a protocol whose turn it is."""
        talk = self._talks[number]
        while talk.machine.agency is self._peer and not self.ends:
            wire = talk.inbox.take(talk.machine.bytes_max)
            if wire is None:
                return
            message = talk.decode(wire)
            talk.machine.step(self._peer, message)
            self._follow(number, message)
            yield Heard(number, self._opened(message))

    def _opened(self, message: Any) -> Any:
        """Return the message with its content checked; a submitted one is read."""
        if isinstance(message, handshake.MsgAcceptVersion):
            handshake.check_accepted(message)
        if isinstance(message, submission.MsgSubmitMessage):
            return self._revision.encoding.read(message.message)
        return message

    def _follow(self, number: int, message: Any) -> None:
        """Apply the further effects of a message, besides the step in its table."""
        talk = self._talks[number]
        if isinstance(message, handshake.MsgAcceptVersion):
            self._demultiplexer.channels = _AGREED[self._peer]
        elif isinstance(message, _LAST) or self._ends_with(message):
            self.ends = True
        elif talk.machine.done and number != handshake.NUMBER:
            talk.machine = self._machine(talk.machine.table)

    def _ends_with(self, message: Any) -> bool:
        return self._revision.ends_early and isinstance(message, _LAST_EARLY)

    def _machine(self, table: Any) -> Machine:
        return Machine(table, we=self._we)


@lru_cache(SHORT_MAX)
def _read_once(decode: Callable[[bytes], Any], payload: bytes) -> Any:
    return decode(payload)


def _after(error: RemoteProtocolError, heard: list[Heard]) -> RemoteProtocolError:
    error.before = heard
    return error
