"""Nodes that spoil a round: they announce all of its messages before anybody has them, and never bring a right one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from enum import Enum

import trio

from router.core.link.machine import Agency, RemoteProtocolError
from services.dmq.bench import traffic
from services.dmq.core.messages.signed_message import Dmq05, SignedMessage
from services.dmq.core.protocols import message_submission as ms
from services.dmq.core.protocols.handshake import MAGICS
from services.dmq.core.protocols.node_handshake import NodeData
from services.dmq.core.protocols.peer_session import PeerEvent, PeerSaid, PeerSession, Side


class Badness(Enum):
    """What a node does when it is asked for messages that it has announced."""

    SILENT = "it never answers"
    WRONG_SIZE = "they are longer than it has announced"
    WRONG_BODY = "their KES signatures are wrong"


class BadPeer:
    """A node that others dial. It announces these messages to each."""

    def __init__(self, badness: Badness, wires: Sequence[bytes]) -> None:
        self._badness = badness
        self._messages = {message.id: message for message in map(Dmq05().read, wires)}

    def __repr__(self) -> str:
        return f"<BadPeer of {len(self._messages)} messages: {self._badness.value}>"

    @asynccontextmanager
    async def listening(self, port: int) -> AsyncIterator[None]:
        """Serve while the block runs."""
        async with trio.open_nursery() as nursery:
            listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
            nursery.start_soon(trio.serve_listeners, self._serve, listeners)
            yield
            nursery.cancel_scope.cancel()

    async def _serve(self, stream: trio.SocketStream) -> None:
        session = PeerSession(Agency.RESPONDER, NodeData(MAGICS[traffic.NETWORK]), trio.current_time())
        untold = list(self._messages.values())
        try:
            async with stream:
                async for data in stream:
                    events = session.hear(bytes(data), trio.current_time())
                    while events:
                        events = [*self.answer(session, untold, events[0], trio.current_time()), *events[1:]]
                    while said := session.take(0):
                        await stream.send_all(said)
        except (RemoteProtocolError, trio.BrokenResourceError):
            return

    def answer(
        self, session: PeerSession, untold: list[SignedMessage], event: PeerEvent, now_s: float
    ) -> list[PeerEvent]:
        """Answer a request; one for ids that blocks is left without an answer when all are told."""
        match event:
            case PeerSaid(Side.PROVIDER, ms.MsgRequestSigs(ids)) if self._badness is not Badness.SILENT:
                bodies = tuple(self._body(self._messages[own_id]) for own_id in ids)
                return session.say(Side.PROVIDER, ms.MsgReplySigs(bodies), now_s)
            case PeerSaid(
                Side.PROVIDER, (ms.MsgRequestSigIdsBlocking(_, most) | ms.MsgRequestSigIdsNonBlocking(_, most)) as asks
            ):
                found, untold[:most] = untold[:most], []
                if found or isinstance(asks, ms.MsgRequestSigIdsNonBlocking):
                    announced = tuple((one.id, self._size(one)) for one in found)
                    return session.say(Side.PROVIDER, ms.MsgReplySigIds(announced), now_s)
        return []

    def _size(self, message: SignedMessage) -> int:
        return len(message.wire) - 100 if self._badness is Badness.WRONG_SIZE else len(message.wire)

    def _body(self, message: SignedMessage) -> bytes:
        if self._badness is Badness.WRONG_SIZE:
            return message.wire
        at = message.wire.index(message.kes_signature)
        return message.wire[:at] + bytes((message.wire[at] ^ 1,)) + message.wire[at + 1 :]
