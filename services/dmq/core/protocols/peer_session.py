"""One connection with another DMQ node: handshake, then message submission, keep-alive and peer sharing on one stream.

Bytes in, events out; `say` and its like queue messages, `take` cuts them into SDUs. Nothing is decided here: a provider
and a consumer decide what is said (`PeerSaid` brings what the other side said to each), and a governor which sides run.
Wrong bytes, a wrong cookie, and more addresses than were asked for raise `RemoteProtocolError`; then the connection is
to be closed, and so it is when something is `overdue`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from math import inf
from typing import Any

from msgspec import Struct

from router.core.link.machine import Agency, RemoteProtocolError
from router.core.wire.codec import Malformed, TooLarge
from router.core.wire.reasons import Reason

from ..messages.signed_message import usual_end
from . import handshake, keep_alive, node_handshake
from . import message_submission as ms
from . import peer_sharing as sharing
from .mux import SDU_HANDSHAKE_S, SDU_S, Channel, Demultiplexer, Multiplexer
from .node_handshake import Agreement, NodeData
from .talk import Protocol, Talk

IDLE_S = 5.0
"""Seconds for which nothing may run on a connection."""
TURN_MAX = 64
"""Most messages of a peer that are handled at once; further ones wait for the next turn, so that a flood of short ones
holds up nobody."""
COOKIES = 1 << keep_alive.COOKIE_BITS
HANDSHAKE = Protocol(
    handshake.NUMBER, node_handshake.TABLE, handshake.encode_message, handshake.decode_message,
    handshake.MESSAGE_BYTES_MAX,
)  # fmt: skip
KEEP_ALIVE = Protocol(
    keep_alive.NUMBER, keep_alive.TABLE, keep_alive.encode_message, keep_alive.decode_message,
    keep_alive.INGRESS_BYTES_MAX,
)  # fmt: skip
SHARING = Protocol(
    sharing.NUMBER, sharing.TABLE, sharing.encode_message, sharing.decode_message, sharing.INGRESS_BYTES_MAX
)
_SUBMISSION = {
    one.name: Protocol(ms.NUMBER, one.table, one.encode, one.decode, ms.INGRESS_BYTES_MAX, ms.AHEAD, usual_end)
    for one in (ms.SEED, *ms.VERSIONS.values())
}


class Side(Enum):
    """Our side of message submission: we answer a peer that asks, or we ask."""

    PROVIDER = "provider"
    CONSUMER = "consumer"

    __hash__ = object.__hash__  # as of `Agency`


class PeerAgreed(Struct, frozen=True):
    """The handshake is done."""

    agreement: Agreement


class PeerRefused(Struct, frozen=True):
    """The peer does not agree, in its words; or it only asked which versions there are, and `text` is empty."""

    text: str


class PeerSaid(Struct, frozen=True):
    """The peer's message in message submission. `side`: ours.

    To our provider come `MsgRequestSigIdsBlocking`, `MsgRequestSigIdsNonBlocking`, `MsgRequestSigs` and `MsgDone`; to
    our consumer `MsgInit`, `MsgReplySigIds`, `MsgReplyNoSigIds`, `MsgReplySigs` and `MsgDone`."""

    side: Side
    message: ms.Message


class PeersAsked(Struct, frozen=True):
    """The peer asks for at most so many addresses; `tell_peers` answers."""

    amount: int


class PeersTold(Struct, frozen=True):
    """The addresses that we have asked for."""

    addresses: tuple[sharing.PeerAddress, ...]


class PeerAnswered(Struct, frozen=True):
    """The peer has answered our keep-alive after that time."""

    round_trip_s: float


PeerEvent = PeerAgreed | PeerRefused | PeerSaid | PeersAsked | PeersTold | PeerAnswered


class PeerSession:
    """One end of a connection between nodes: that of the dialler, if `we` are the initiator.

    `agreement`: None before the handshake is done. `ends`: the connection is to be closed when all is written."""

    def __init__(
        self,
        we: Agency,
        ours: NodeData,
        opened_s: float,
        versions: Mapping[int, ms.MessageSubmission] = ms.VERSIONS,
        cookie: int = 0,
    ) -> None:
        """`versions`: those that are spoken, and what each has as message submission."""
        self._we = we
        self._peer = Agency.RESPONDER if we is Agency.INITIATOR else Agency.INITIATOR
        self._ours = ours
        self._versions = versions
        self._hello = Talk(HANDSHAKE, we)
        self._talks: dict[Channel, Talk] = {}  # by number, and our side of it
        self._submissions: dict[Side, Talk] = {}
        speakers = {self._peer, Agency.INITIATOR}  # a peer that dials us at this moment is one, too
        self._demultiplexer = Demultiplexer((handshake.NUMBER, one) for one in speakers)
        self._multiplexer = Multiplexer()
        self._hello_by_s = opened_s + node_handshake.HELLO_S
        self._quiet_s = inf
        self._ping_s = inf
        self._pinged_s = 0.0
        self._cookie = cookie % COOKIES
        self._amount = 0
        self._handled = 0
        self._waiting: dict[Talk, None] = {}  # those with messages beyond this turn
        self.agreement: Agreement | None = None
        self.ends = False
        if we is Agency.INITIATOR:
            self._queue(self._hello, node_handshake.propose(ours, versions), opened_s)

    def __repr__(self) -> str:
        talks = ", ".join(map(repr, self._talks.values())) or repr(self._hello)
        return f"<PeerSession of the {self._we.value}: {talks}>"

    @property
    def we_dialled(self) -> bool:
        return self._we is Agency.INITIATOR

    # -- what comes ----------------------------------------------------------------------------------------

    def hear(self, data: bytes, now_s: float) -> list[PeerEvent]:
        """Return what `data` brings; raise `RemoteProtocolError`, with earlier events in `before`."""
        self._handled = TURN_MAX if self._waiting else 0
        return self._collected(self._hear(data, now_s), now_s)

    def _collected(self, events: Iterator[PeerEvent], now_s: float) -> list[PeerEvent]:
        found: list[PeerEvent] = []  # extend keeps what came before a fault
        try:
            found.extend(events)
        except Malformed as error:
            reason = Reason.TOO_LARGE if isinstance(error, TooLarge) else Reason.MALFORMED
            raise _after(RemoteProtocolError(reason, str(error)), found) from None
        except RemoteProtocolError as error:
            raise _after(error, found) from None
        self._note_quiet(now_s)
        return found

    def _hear(self, data: bytes, now_s: float) -> Iterator[PeerEvent]:
        for (number, speaker), payload in self._demultiplexer.feed(data, now_s):
            if self.ends:
                return
            if number == handshake.NUMBER:
                talk = self._hello
            else:
                ours = Agency.RESPONDER if speaker is Agency.INITIATOR else Agency.INITIATOR
                talk = self._talks[number, ours]
            talk.add(payload)
            yield from self._received(talk, now_s)

    def _received(self, talk: Talk, now_s: float) -> Iterator[PeerEvent]:
        if self._handled >= TURN_MAX:
            self._waiting[talk] = None
            return
        for state, message in talk.received(now_s):
            self._handled += 1
            match talk.protocol.number:
                case handshake.NUMBER:
                    yield from self._greeted(message, now_s)
                case ms.NUMBER:
                    ms.check_in(state, message)
                    yield PeerSaid(self._side_of(talk), message)
                case keep_alive.NUMBER:
                    yield from self._kept_alive(talk, message, now_s)
                case _:
                    yield from self._shared(message)
            if self.ends:
                return
            if self._handled >= TURN_MAX:
                self._waiting[talk] = None
                return

    def _greeted(self, message: handshake.Message, now_s: float) -> Iterator[PeerEvent]:
        match message:
            case handshake.MsgProposeVersions() if self.we_dialled:
                yield self._agree(node_handshake.met(message, self._ours, self._versions), now_s)
            case handshake.MsgProposeVersions():
                answer = node_handshake.answer(message, self._ours, self._versions)
                self._queue(self._hello, answer, now_s)
                if isinstance(answer, handshake.MsgAcceptVersion):
                    yield self._agree(node_handshake.agreement(answer, self._ours, self._versions), now_s)
                else:
                    self.ends = True
                    text = node_handshake.said_in(answer) if isinstance(answer, handshake.MsgRefuse) else ""
                    yield PeerRefused(text and f"this node refuses it: {text}")
            case handshake.MsgAcceptVersion():
                yield self._agree(node_handshake.agreement(message, self._ours, self._versions), now_s)
            case handshake.MsgRefuse():
                self.ends = True
                yield PeerRefused(node_handshake.said_in(message))
            case handshake.MsgQueryReply(versions):
                self.ends = True
                yield PeerRefused("" if self._ours.query else f"it was not asked, and speaks {sorted(versions)}")

    def _agree(self, agreement: Agreement, now_s: float) -> PeerAgreed:
        """Let run what was agreed on; who has dialled begins at once with keep-alive."""
        self.agreement = agreement
        submission = self._versions[agreement.version]
        protocols = [_SUBMISSION[submission.name], KEEP_ALIVE, *[SHARING] * agreement.shares_peers]
        sides = (Agency.INITIATOR, Agency.RESPONDER) if agreement.is_duplex else (self._we,)
        talks = [Talk(protocol, side) for protocol in protocols for side in sides]
        self._talks = {talk.channel: talk for talk in talks}
        self._submissions = {
            Side.PROVIDER if talk.we is submission.provider else Side.CONSUMER: talk
            for talk in talks
            if talk.protocol.number == ms.NUMBER
        }
        self._demultiplexer.channels = frozenset(
            (number, Agency.RESPONDER if side is Agency.INITIATOR else Agency.INITIATOR) for number, side in self._talks
        )
        self._quiet_s = now_s
        if self.we_dialled:
            self.keep_alive(now_s)
        return PeerAgreed(agreement)

    def _kept_alive(self, talk: Talk, message: keep_alive.Message, now_s: float) -> Iterator[PeerEvent]:
        match message:
            case keep_alive.MsgKeepAlive(cookie):
                self._queue(talk, keep_alive.MsgKeepAliveResponse(cookie), now_s)
            case keep_alive.MsgKeepAliveResponse(cookie):
                if cookie != self._cookie:
                    text = f"its keep-alive has the cookie {cookie} where {self._cookie} was asked"
                    raise RemoteProtocolError(Reason.MALFORMED, text)
                self._ping_s = now_s + keep_alive.EVERY_S
                yield PeerAnswered(now_s - self._pinged_s)

    def _shared(self, message: sharing.Message) -> Iterator[PeerEvent]:
        match message:
            case sharing.MsgShareRequest(amount):
                yield PeersAsked(amount)
            case sharing.MsgSharePeers(addresses):
                if len(addresses) > self._amount:
                    text = f"it shares {len(addresses)} peers, and was asked for {self._amount}"
                    raise RemoteProtocolError(Reason.WINDOW_EXCEEDED, text)
                yield PeersTold(addresses)

    # -- what is said --------------------------------------------------------------------------------------

    def may(self, side: Side) -> bool:
        """Whether message submission can run on this connection with us on that side."""
        return self._submissions.get(side) is not None

    def is_our_turn(self, side: Side) -> bool:
        """Whether we may speak on that side: a provider that was asked, a consumer whose requests were answered."""
        talk = self._submissions.get(side)
        return talk is not None and talk.is_our_turn

    @property
    def is_asked_to_wait(self) -> bool:
        """Whether the peer's request for ids waits until there is one: an answer without any is a word of its own."""
        talk = self._submissions.get(Side.PROVIDER)
        return talk is not None and talk.state is ms.St.SIG_IDS_BLOCKING

    def begin(self, side: Side, now_s: float) -> None:
        """Begin message submission on a side, where the protocol has a word for that: a provider's in version 1."""
        talk = self._submissions.get(side)
        if talk is not None and talk.state is ms.St.INIT and talk.is_our_turn:
            self._queue(talk, ms.MsgInit(), now_s)

    def say(self, side: Side, message: ms.Message, now_s: float) -> list[PeerEvent]:
        """Queue a message of message submission, and return what was waiting for this turn to pass.

        A consumer may say further requests before earlier ones are answered. Raises `LocalProtocolError` out of turn,
        and `RemoteProtocolError` like `hear`."""
        talk = self._submissions.get(side)
        assert talk is not None, f"{side} does not run on this connection"
        self._queue(talk, message, now_s)
        return self._collected(self._received(talk, now_s), now_s) if talk.has_unread else []

    def keep_alive(self, now_s: float) -> None:
        """Ask whether the peer is alive, now and from now on, if we may begin here and have not."""
        talk = self._talks.get((keep_alive.NUMBER, Agency.INITIATOR))
        if talk is not None and talk.is_our_turn and not now_s < self._ping_s < inf:
            self._cookie = (self._cookie + 1) % COOKIES
            self._pinged_s, self._ping_s = now_s, inf
            self._queue(talk, keep_alive.MsgKeepAlive(self._cookie), now_s)

    def ask_peers(self, amount: int, now_s: float) -> bool:
        """Ask for at most so many addresses; return whether that is possible now."""
        talk = self._talks.get((sharing.NUMBER, Agency.INITIATOR))
        if talk is None or not talk.is_our_turn:
            return False
        self._amount = amount
        self._queue(talk, sharing.MsgShareRequest(amount), now_s)
        return True

    def tell_peers(self, addresses: tuple[sharing.PeerAddress, ...], now_s: float) -> list[PeerEvent]:
        """Answer `PeersAsked`; return what was waiting for this, and raise `RemoteProtocolError` like `hear`."""
        talk = self._talks[sharing.NUMBER, Agency.RESPONDER]
        self._queue(talk, sharing.MsgSharePeers(addresses), now_s)
        return self._collected(self._received(talk, now_s), now_s)

    def finish(self, now_s: float) -> None:
        """End what we have begun, as far as it is our turn there, before the connection is closed."""
        lasts = {ms.NUMBER: ms.MsgDone(), keep_alive.NUMBER: keep_alive.MsgDone(), sharing.NUMBER: sharing.MsgDone()}
        for (number, side), talk in self._talks.items():
            last = lasts[number]
            if side is Agency.INITIATOR and talk.is_running and talk.allows(last):
                self._queue(talk, last, now_s)
        self._ping_s = inf

    @property
    def has_to_write(self) -> bool:
        """Whether something is queued."""
        return bool(self._multiplexer)

    def take(self, clock_us: int) -> bytes:
        """Return the next SDU to write, or b"" if nothing is queued; `clock_us` as in `Multiplexer.take`."""
        return self._multiplexer.take(clock_us)

    # -- time ----------------------------------------------------------------------------------------------

    def deadline_s(self) -> float:
        """Return when `due` or `overdue` has something to do or say."""
        if self._waiting:
            return -inf
        if self.agreement is None:
            return min(self._hello_by_s, self._demultiplexer.deadline_s(SDU_HANDSHAKE_S))
        talks = min([talk.deadline_s for talk in self._talks.values()])
        return min(self._ping_s, talks, self._quiet_s + IDLE_S, self._demultiplexer.deadline_s(SDU_S))

    def due(self, now_s: float) -> list[PeerEvent]:
        """Say what is due, the next keep-alive, and return what waited for this turn; raise `RemoteProtocolError` like
        `hear`."""
        if now_s >= self._ping_s:
            self.keep_alive(now_s)
        waiting, self._waiting, self._handled = list(self._waiting), {}, 0
        return self._collected((event for talk in waiting for event in self._received(talk, now_s)), now_s)

    def overdue(self, now_s: float) -> str:
        """Return what the peer has failed to do in time, "" if nothing."""
        if self.agreement is None and now_s >= self._hello_by_s:
            return f"no handshake within {node_handshake.HELLO_S:g} s"
        if now_s >= self._demultiplexer.deadline_s(SDU_HANDSHAKE_S if self.agreement is None else SDU_S):
            return "a part of an SDU came, and the rest did not in time"
        if now_s >= self._quiet_s + IDLE_S:
            return f"nothing has run on the connection for {IDLE_S:g} s"
        return next(filter(None, (talk.overdue(now_s) for talk in self._talks.values())), "")

    # ------------------------------------------------------------------------------------------------------

    def _side_of(self, talk: Talk) -> Side:
        return Side.PROVIDER if talk is self._submissions.get(Side.PROVIDER) else Side.CONSUMER

    def _queue(self, talk: Talk, message: Any, now_s: float) -> None:
        self._multiplexer.add(talk.channel, talk.say(message, now_s))
        self._note_quiet(now_s)

    def _note_quiet(self, now_s: float) -> None:
        """Note since when nothing runs."""
        if self.agreement is not None:
            runs = any(talk.is_running for talk in self._talks.values())
            self._quiet_s = inf if runs else min(self._quiet_s, now_s)


def _after(error: RemoteProtocolError, found: list[PeerEvent]) -> RemoteProtocolError:
    error.before = found
    return error
