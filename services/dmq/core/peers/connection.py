"""One connection with another node: its session, what it is told and given, and what the operator sees of it."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

from router.core.link.machine import RemoteProtocolError
from router.service import contract as c

from ..mempool import Row
from ..protocols import message_submission as ms
from ..protocols.peer_session import PeerEvent, PeerSession, Side
from ..protocols.peer_sharing import PeerAddress
from .away import CAUSE_CHARS_MAX
from .known import KnownPeer
from .provider import Provider


class PeerConnection:
    """`door`, `name`: those of the stream. `provider`: None before the handshake is done. `has_begun`: whether the peer
    may be pulled from, as far as it goes by itself; in version 1 it has to begin. `fault`: why it is closed; then
    nothing more is read. `is_left`: we close it."""

    def __init__(self, door: str, name: str, address: PeerAddress, session: PeerSession, now: c.Now) -> None:
        self.door = door
        self.name = name
        self.address = address
        self.key = str(address)
        """The name of the peer in `Fetching`, and in the log."""
        self.session = session
        self.provider: Provider | None = None
        self.has_begun = False
        self.is_left = False
        self._is_marked = False
        self.fault = ""
        self.opened_at_s = now.wall_s
        self.round_trip_s = inf
        self.firsts = 0
        self.accepted = 0
        self.bytes_in = self.bytes_out = 0

    def __repr__(self) -> str:
        return f"<PeerConnection with {self.address}: {self.session!r}>"

    @property
    def is_ending(self) -> bool:
        return bool(self.fault) or self.is_left or self.session.ends

    @property
    def version(self) -> int:
        return self.session.agreement.version if self.session.agreement else 0

    @property
    def fetches_from_us(self) -> bool:
        """Whether the peer has asked for ids over this connection."""
        return self.provider is not None and self.provider.was_asked

    @property
    def has_peer_begun(self) -> bool:
        """Whether the peer has begun message submission: in version 2 it has asked, in version 1 it provides."""
        return self.has_begun if self.version == 1 else self.fetches_from_us

    @property
    def due_s(self) -> float:
        """When something is to be said, or is overdue."""
        if self.is_ending:
            return inf
        return min(self.session.deadline_s(), self.provider.due_s if self.provider else inf)

    def hear(self, data: bytes, now_s: float) -> list[PeerEvent]:
        """Return what the peer's bytes bring; what is wrong with them becomes the `fault`."""
        self.bytes_in += len(data)
        try:
            return self.session.hear(data, now_s)
        except RemoteProtocolError as error:
            return self.break_off(error)

    def go_on(self, now_s: float) -> list[PeerEvent]:
        """Say what is due, and return what the peer has said beyond its last turn."""
        try:
            return self.session.due(now_s)
        except RemoteProtocolError as error:
            return self.break_off(error)

    def say(self, side: Side, message: ms.Message, now_s: float) -> list[PeerEvent]:
        """Queue a message, and return what had been sent ahead of it."""
        try:
            return self.session.say(side, message, now_s)
        except RemoteProtocolError as error:
            return self.break_off(error)

    def break_off(self, error: RemoteProtocolError) -> list[PeerEvent]:
        """Close the connection for a fault of the peer; return what it said before."""
        self.fault = self.fault or str(error)
        return list(error.before)

    def announce(self, found: tuple[Row, ...], now_s: float, *, has_waited: bool) -> list[PeerEvent]:
        """Answer a request with the ids of these messages; `has_waited`: it blocks, so an answer without ids has a
        message of its own."""
        if has_waited and not found:
            return self.say(Side.PROVIDER, ms.MsgReplyNoSigIds(), now_s)
        ids = tuple([(row.id, row.size) for row in found])
        return self.say(Side.PROVIDER, ms.MsgReplySigIds(ids), now_s)

    def written(self, now_s: float, peer: KnownPeer | None) -> list[c.Deed]:
        """Return what writes all that was said, and closes the connection if it has ended. `peer`: what is known of the
        other node; if the topology or the ledger names it, it keeps its place at the door."""
        deeds: list[c.Deed] = []
        if not (self._is_marked or self.provider is None or peer is None or peer.is_stranger):
            self._is_marked = True
            deeds.append(c.MarkKnown(self.door, self.name))
        if not (self.session.has_to_write or self.is_ending):
            return deeds
        clock_us = int(now_s * 1e6) & 0xFFFFFFFF
        sdus: list[bytes] = []
        while more := self.session.take(clock_us):
            sdus.append(more)
        data = b"".join(sdus)
        self.bytes_out += len(data)
        if data:
            deeds.append(c.Write(self.door, self.name, data))
        return [*deeds, c.Write(self.door, self.name, b"")] if self.is_ending else deeds

    def as_status(self, state: str, announced: int, rejected: Mapping[str, int]) -> dict[str, Any]:
        """Return what `dmq peers` shows; `rejected`: the messages of its address that were not taken, by reason."""
        return {
            "address": self.key,
            "state": state,
            "direction": "outbound" if self.session.we_dialled else "inbound",
            "version": self.version,
            "is_duplex": self.session.agreement is not None and self.session.agreement.is_duplex,
            "rtt_ms": None if self.round_trip_s == inf else round(1000 * self.round_trip_s, 2),
            "announced": announced,
            "first": self.firsts,
            "accepted": self.accepted,
            "rejected": dict(rejected),
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "since": int(self.opened_at_s),
            "problem": self.fault[:CAUSE_CHARS_MAX],
        }
