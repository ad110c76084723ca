"""A DMQ node between nodes, as plain as can be: it answers those that dial it, and asks them in version 1.

Each part is a method, so that a deliberate fault replaces one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import trio

from router.core.link.machine import Agency, RemoteProtocolError
from router.core.wire.codec import Malformed
from router.core.wire.reasons import Reason
from services.dmq.core.messages.signed_message import Dmq05, SignedMessage, digest
from services.dmq.core.protocols import handshake as h
from services.dmq.core.protocols import message_submission as ms
from services.dmq.core.protocols.mux import HEAD, RESPONDER_BIT, sdu
from services.dmq.core.protocols.node_handshake import NodeData
from services.dmq.core.protocols.peer_session import PeerEvent, PeerSaid, PeersAsked, PeerSession, Side

MAGIC = h.MAGICS["preprod"]
WINDOW, ASKED, SLACK = 132, 33, 32


class PlainPeer:
    """A node that holds these messages, and keeps none."""

    def __init__(self, held: Iterable[SignedMessage] = ()) -> None:
        self.held = list(held)
        self.data = NodeData(MAGIC, peer_sharing=True)

    # -- what a fault replaces -----------------------------------------------------------------------------

    def reads(self, numbered: int, payload: bytes) -> Iterable[tuple[int, bytes]]:
        """Return the SDUs in place of one that has come."""
        return [(numbered, payload)]

    def writes(self, said: bytes) -> bytes:
        """Return what is written in place of an SDU."""
        return said

    def judges(self, window: _Window, blocking: bool, acknowledged: int, requested: int) -> bool:
        """Whether a request for ids keeps to the window's rules."""
        left = len(window.told) - acknowledged
        if left < 0 or left + requested > WINDOW or (not requested and (blocking or not acknowledged)):
            return False
        return blocking is (left == 0)

    def has(self, window: _Window, own_id: bytes) -> bool:
        """Whether a body may be asked for."""
        return any(message.id == own_id for message in window.told)

    def checks_bodies(self, window: _Window, wires: tuple[bytes, ...]) -> bool:
        """Whether bodies are what was announced and asked for."""
        for wire in wires:
            message = Dmq05().read(wire)
            size = window.asked.pop(message.id, None)
            if size is None or abs(size - len(wire)) > SLACK or digest(message.signed) != message.id:
                return False
        return True

    # -- one connection ------------------------------------------------------------------------------------

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[int]:
        """Serve while the block runs; yield the port."""
        async with trio.open_nursery() as nursery:
            [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
            nursery.start_soon(trio.serve_listeners, self._serve, [listener])
            yield listener.socket.getsockname()[1]
            nursery.cancel_scope.cancel()

    async def _serve(self, stream: trio.SocketStream) -> None:
        session, window, kept = PeerSession(Agency.RESPONDER, self.data, trio.current_time()), _Window(), b""
        async with stream:
            try:
                async for data in stream:
                    kept += data
                    while len(kept) >= HEAD.size and len(kept) >= HEAD.size + (size := HEAD.unpack_from(kept)[2]):
                        numbered, payload = HEAD.unpack_from(kept)[1], kept[HEAD.size : HEAD.size + size]
                        kept = kept[HEAD.size + size :]
                        for one, taken in self.reads(numbered, payload):
                            self._take(session, window, one, taken)
                            await self._write(session, stream)
                    if session.ends:
                        return
            except (RemoteProtocolError, Malformed):
                await self._write(session, stream)
            except trio.BrokenResourceError:
                return

    def _take(self, session: PeerSession, window: _Window, numbered: int, payload: bytes) -> None:
        by = Agency.RESPONDER if numbered & RESPONDER_BIT else Agency.INITIATOR
        events = session.hear(sdu((numbered & ~RESPONDER_BIT, by), payload, 0), trio.current_time())
        while events:
            events = [*self._handle(session, window, events[0]), *events[1:]]

    async def _write(self, session: PeerSession, stream: trio.SocketStream) -> None:
        while said := session.take(0):
            if written := self.writes(said):
                await stream.send_all(written)

    def _handle(self, session: PeerSession, window: _Window, event: PeerEvent) -> list[PeerEvent]:
        now_s = trio.current_time()
        match event:
            case PeersAsked():
                session.tell_peers((), now_s)
            case PeerSaid(Side.PROVIDER, ms.MsgRequestSigs(ids)):
                if not all(self.has(window, one) for one in ids):
                    raise _wrong("RequestedUnavailableSig")
                found = tuple(message.wire for message in self.held if message.id in ids)
                return session.say(Side.PROVIDER, ms.MsgReplySigs(found), now_s)
            case PeerSaid(Side.PROVIDER, ms.MsgDone()):
                window.told, window.next = [], 0
            case PeerSaid(Side.PROVIDER, asks):
                return self._announce(session, window, asks)
            case PeerSaid(Side.CONSUMER, ms.MsgInit()):
                return session.say(Side.CONSUMER, ms.MsgRequestSigIdsBlocking(0, ASKED), now_s)
            case PeerSaid(Side.CONSUMER, ms.MsgReplySigIds(announced)):
                if len(announced) > ASKED:
                    raise _wrong("SigIdsNotRequested")
                window.asked = dict(announced)
                return session.say(Side.CONSUMER, ms.MsgRequestSigs(tuple(window.asked)), now_s)
            case PeerSaid(Side.CONSUMER, ms.MsgReplySigs(wires)):
                acknowledged = len(window.asked)
                if not self.checks_bodies(window, wires):
                    raise _wrong("SigNotRequested")
                return session.say(Side.CONSUMER, ms.MsgRequestSigIdsBlocking(acknowledged, ASKED), now_s)
        return []

    def _announce(self, session: PeerSession, window: _Window, asks: ms.Message) -> list[PeerEvent]:
        assert isinstance(asks, ms.MsgRequestSigIdsBlocking | ms.MsgRequestSigIdsNonBlocking)
        blocking = isinstance(asks, ms.MsgRequestSigIdsBlocking)
        if not self.judges(window, blocking, asks.acknowledged, asks.requested):
            raise _wrong("RequestedTooManySigIds")
        del window.told[: asks.acknowledged]
        found = self.held[window.next : window.next + asks.requested]
        window.next += len(found)
        window.told += found
        announced = tuple((one.id, len(one.wire)) for one in found)
        if blocking and not found:
            return session.say(Side.PROVIDER, ms.MsgReplyNoSigIds(), trio.current_time())
        return session.say(Side.PROVIDER, ms.MsgReplySigIds(announced), trio.current_time())


class _Window:
    """What a connection was told and not acknowledged, how far, and what was asked of it, with sizes."""

    def __init__(self) -> None:
        self.told: list[SignedMessage] = []
        self.next = 0
        self.asked: dict[bytes, int] = {}


def _wrong(text: str) -> RemoteProtocolError:
    return RemoteProtocolError(Reason.WINDOW_EXCEEDED, text)
