"""One connection between Nexa nodes: bytes in, messages out.

Greetings are answered here, and pings until both sides have greeted; a later ping must be answered after the requests
before it, so it is handed out. Wrong bytes and greetings out of turn raise `RemoteProtocolError`, after which the
connection is to be closed. A command whose payload cannot be read is handed out as `Unreadable`: the deployed node
rejects it, and goes on. So it does with a greeting, and with one that declares no pool: as a listener we wait as well,
but not for long.
"""

from __future__ import annotations

from typing import NamedTuple

from router.core.link.machine import Agency, Machine, RemoteProtocolError
from router.core.wire.codec import Malformed
from router.core.wire.reasons import Reason
from services.capd import reasons

from .envelope import Packet, Unpacker, WrongMagic, last_of
from .greeting import COOKIES_KEY, EXTVERSION, PROTOCOL_MIN, OldProtocol, Version, has_pool
from .packets import (
    OBSOLETE_CODE,
    PARSING,
    PAYLOADS,
    ExtVersion,
    Greeting,
    Message,
    Ping,
    Pong,
    Reject,
    Verack,
    checksum,
    packet_of,
    read_packet,
)
from .tables import GREETING_S, PACKET_S, TABLES, Said

REJECTED_MAX = 8
"""Most packets of one connection that are rejected before it has greeted."""


class Unreadable(NamedTuple):
    """A command of CAPD whose payload cannot be read."""

    command: str
    text: str
    size: int


class Heard(NamedTuple):
    """A message of the other side, and the cookie of its packet."""

    message: Message | Unreadable
    cookie: int = 0


class Session:
    """One end of a connection: the dialler's, if `we` are the initiator. `own`: our greeting, by whose nonce a node
    recognises itself. `packets`: the number of packets that have come."""

    def __init__(self, we: Agency, magic: bytes, own: Version, opened_s: float) -> None:
        self._we = we
        self._peer = Agency.RESPONDER if we is Agency.INITIATOR else Agency.INITIATOR
        self._magic = magic
        self._own = own
        self._said, self._heard = Machine(TABLES[we], we=we), Machine(TABLES[self._peer], we=we)
        self._unpacker = Unpacker(magic, PAYLOADS.get)
        self._out: list[bytes] = []
        self._steps_s = opened_s
        self._partial_s: float | None = None
        self._knows_cookies = self._has_pool = False
        self._rejected = 0
        self.packets = 0
        self.queued_bytes = 0
        self.version: Version | None = None
        """The other's greeting, once it has come."""
        if we is Agency.INITIATOR:
            self.say(own)

    def __repr__(self) -> str:
        return f"<Session of the {self._we.value}: {self._said.state.value}, the other {self._heard.state.value}>"

    @property
    def is_open(self) -> bool:
        """Whether both sides have greeted, and have a pool."""
        return self._has_pool and self._said.state is self._heard.state is Said.VERACK

    @property
    def partial_bytes(self) -> int:
        """Return the number of bytes held of an incomplete packet."""
        return len(self._unpacker)

    @property
    def skipped(self) -> int:
        """Return the number of skipped bytes, which came for unknown commands."""
        return self._unpacker.skipped

    def overdue(self, now_s: float) -> tuple[Reason, str] | None:
        """Return why to close the connection to a side that has not sent something in time, or has no pool."""
        if self._heard.state is Said.VERACK and not self._has_pool and now_s - self._steps_s >= GREETING_S:
            return reasons.NO_POOL, "its extversion names none"
        late = self._late(now_s)
        return (reasons.TOO_SLOW, late) if late else None

    def _late(self, now_s: float) -> str:
        if now_s - self._steps_s >= self._heard.timeout_s:
            return f"{self._heard.state.value} for {self._heard.timeout_s:g} s"
        if self._partial_s is not None and now_s - self._partial_s >= PACKET_S:
            return f"a packet is not whole after {PACKET_S:g} s"
        return ""

    def hear(self, data: bytes, now_s: float) -> list[Heard]:
        """Return the messages that `data` completes; raise `RemoteProtocolError`, with those before the fault in
        `before`."""
        found: list[Heard] = []
        try:
            for packet in self._unpacker.feed(data):
                self._partial_s = None
                self.packets += 1
                self._take(packet, found, now_s)
        except WrongMagic as error:
            raise _after(RemoteProtocolError(reasons.WRONG_NETWORK, str(error)), found) from None
        except Malformed as error:
            raise _after(RemoteProtocolError(reasons.BAD_PACKET, str(error)), found) from None
        except RemoteProtocolError as error:
            own = reasons.OUT_OF_TURN if error.reason is Reason.MALFORMED else error.reason
            raise _after(RemoteProtocolError(own, error.text), found) from None
        if not self._unpacker.is_partial:
            self._partial_s = None
        elif self._partial_s is None:
            self._partial_s = now_s
        return found

    def say(self, message: Message, cookie: int = 0) -> None:
        """Queue a message; raise `LocalProtocolError` if it is out of turn."""
        self._said.step(self._we, message)
        packet = packet_of(message, cookie)
        if not self._knows_cookies:
            packet = packet._replace(cookie=checksum(packet.payload))
        data = packet.encoded(self._magic)
        self._out.append(data)
        self.queued_bytes += len(data)

    def take(self) -> bytes:
        """Return the queued bytes, and empty the queue."""
        data = b"".join(self._out)
        self._out.clear()
        self.queued_bytes = 0
        return data

    # -- what has come -------------------------------------------------------------------------------------

    def _take(self, packet: Packet, found: list[Heard], now_s: float) -> None:
        if packet.command not in PAYLOADS:
            return
        try:
            message = read_packet(packet)
        except Malformed as error:
            if self.is_open:
                found.append(Heard(Unreadable(packet.command, str(error), len(packet.payload)), packet.cookie))
            else:
                self._reject(packet, error)
            return
        assert message is not None
        if self._heard.state is not Said.VERACK and not isinstance(message, Greeting):
            if isinstance(message, Ping) and self._heard.state is not Said.NOTHING:
                self.say(Pong(message.nonce))
            return
        if isinstance(message, Verack) and self._heard.state is Said.VERSION:
            if self._rejected:
                return  # its extversion could not be read
            raise RemoteProtocolError(reasons.NO_POOL, "it ends its greeting without an extversion")
        self._heard.step(self._peer, message)
        match message:
            case Version():
                self._greeted(message, now_s)
            case ExtVersion(values):
                self._steps_s = now_s
                self._knows_cookies = values.get(COOKIES_KEY, 0) != 0
                self.say(Verack(), last_of(packet.cookie))
                self._has_pool = has_pool(values)
                if not self._has_pool and self._we is Agency.INITIATOR:
                    raise RemoteProtocolError(reasons.NO_POOL, "its extversion names none")
            case Verack():
                self._steps_s = now_s
            case Ping(nonce) if not self.is_open:
                self.say(Pong(nonce))
            case _:
                found.append(Heard(message, packet.cookie))

    def _reject(self, packet: Packet, error: Malformed) -> None:
        """Reject a greeting that cannot be read, and go on; raise `Malformed` where we have dialled, and after many."""
        self._rejected += 1
        if self._we is Agency.INITIATOR or self._rejected > REJECTED_MAX:
            raise Malformed(f"{packet.command}: {error}")
        if isinstance(error, OldProtocol):
            said = f"Protocol Version must be {PROTOCOL_MIN} or greater"
            self.say(Reject(packet.command, said, OBSOLETE_CODE), last_of(packet.cookie))
        else:
            self.say(Reject(packet.command, PARSING), last_of(packet.cookie))

    def _greeted(self, version: Version, now_s: float) -> None:
        self.version, self._steps_s = version, now_s
        if self._we is Agency.RESPONDER:
            self.say(self._own)
        if version.nonce == self._own.nonce:
            raise RemoteProtocolError(reasons.ITSELF, "its greeting is our own")
        if not version.knows_extversion:
            raise RemoteProtocolError(reasons.NO_POOL, "its version says that it knows no extversion")
        self.say(ExtVersion(EXTVERSION))


def _after(error: RemoteProtocolError, found: list[Heard]) -> RemoteProtocolError:
    error.before = found
    return error
