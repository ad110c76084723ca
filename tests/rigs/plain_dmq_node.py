"""A DMQ node on a Unix socket, made of the pure core alone: nothing on disk, one cursor for each connection.

A test that wants a node with a fault overrides the method where the fault belongs.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from math import inf
from pathlib import Path
from typing import Any

import trio

from router.core.link.machine import Agency, RemoteProtocolError
from services.dmq.core.messages.authentication import Authentication, Moment, Topic
from services.dmq.core.messages.fault import Rejected
from services.dmq.core.messages.signatures import SignatureChecker
from services.dmq.core.messages.signed_message import SignedMessage
from services.dmq.core.protocols import handshake as h
from services.dmq.core.protocols import notification as n
from services.dmq.core.protocols import submission as s
from services.dmq.core.protocols.client_session import Heard, Session
from services.dmq.core.protocols.mux import HEAD, SDU_S
from services.dmq.core.protocols.revision import REVISIONS, Revision
from services.dmq.core.stake.distribution import StakeSet

MAGIC = h.MAGICS["preprod"]
DEPLOYED = REVISIONS["dmq-0.5"]
REPLY_MAX = 100


class PlainNode:
    """The node. `held`: the messages that it has taken, in order."""

    def __init__(self, stake: StakeSet, revision: Revision = DEPLOYED, *, pause_s: float = 0.0) -> None:
        self.revision = revision
        self.magic = MAGIC
        self.held: list[SignedMessage] = []
        self.clients: list[PlainClient] = []
        self.faults: list[str] = []
        self.sdu_s = SDU_S
        self.idle_s = inf
        self.is_patient = True
        """Whether a blocking request waits for a message."""
        self._authentication = Authentication(Topic(pause_s=pause_s), revision.encoding, stake)
        self._checker = SignatureChecker()

    @asynccontextmanager
    async def listening(self, path: Path) -> AsyncIterator[PlainNode]:
        """Serve clients on `path` while the block runs."""
        listening = trio.socket.socket(trio.socket.AF_UNIX)
        await listening.bind(str(path))
        listening.listen()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, self._serve, [trio.SocketListener(listening)])
            yield self
            nursery.cancel_scope.cancel()

    async def _serve(self, stream: trio.abc.Stream) -> None:
        client = PlainClient(self, stream)
        self.clients.append(client)
        try:
            await client.run()
        except RemoteProtocolError as error:
            self.faults.append(error.text)
        except trio.BrokenResourceError:
            pass
        finally:
            self.clients.remove(client)
            await stream.aclose()

    # The methods that a fault may override: reading, deciding, writing.

    def session(self) -> Session:
        return Session(Agency.RESPONDER, self.revision)

    def reads(self, numbered: int, payload: bytes) -> Iterable[tuple[int, bytes]]:
        """Return the SDUs to read instead of this one: the third field of the head, and the payload."""
        yield numbered, payload

    def greets(self, offer: h.MsgProposeVersions) -> h.Answer:
        return h.answer(offer, self.magic)

    def judges(self, message: SignedMessage) -> Rejected | None:
        moment = Moment(time.time(), time.monotonic())
        known = any(one.id == message.id for one in self.held)
        if (rejected := self._authentication.judge(message, moment, known)) is not None:
            return rejected
        if (fault := self._checker.fault(self._authentication.signature_check(message, moment))) is not None:
            return Rejected(fault)
        self._authentication.take(message, moment)
        return None

    def answers(self, rejected: Rejected | None) -> s.Message:
        if rejected is None:
            return s.MsgAcceptMessage()
        return s.rejection(rejected, self.revision.encoding.name)

    def gives(self, client: PlainClient) -> list[SignedMessage]:
        """Return the messages of a reply, and move the client's cursor."""
        found = self.held[client.cursor : client.cursor + REPLY_MAX]
        client.cursor += len(found)
        return found

    def blocks(self, request: Any) -> bool:
        return isinstance(request, n.MsgRequestMessagesBlocking)

    def says(self, number: int, message: Any) -> Any:
        """Return the message to send instead of this one; None for none."""
        return message

    def writes(self, sdu: bytes) -> bytes:
        """Return the bytes to write instead of an SDU."""
        return sdu

    async def after_handshake(self, client: PlainClient) -> None:
        """Do nothing once the handshake is done; overridden for faults."""

    async def at_end(self, client: PlainClient) -> None:
        """Do nothing when a connection is to end; overridden for faults."""


class PlainClient:
    """A connection of the node."""

    def __init__(self, node: PlainNode, stream: trio.abc.Stream) -> None:
        self.node = node
        self.stream = stream
        self.session = node.session()
        self.cursor = 0
        self.waits = False
        self._writing = trio.Lock()
        self._bytes = bytearray()

    async def run(self) -> None:
        while data := await self._read():
            for sdu in self._sdus(data):
                await self._handle(sdu)
                if self.session.ends:
                    await self.node.at_end(self)
                    return

    async def _read(self) -> bytes:
        """Return the bytes that come; none if an SDU that has begun does not end in time."""
        data = b""
        with trio.move_on_after(self.node.sdu_s if self._bytes else self.node.idle_s):
            data = bytes(await self.stream.receive_some(1 << 16))
        return data

    def _sdus(self, data: bytes) -> Iterable[bytes]:
        """Yield whole SDUs as the node reads them."""
        self._bytes += data
        while len(self._bytes) >= HEAD.size:
            clock, numbered, length = HEAD.unpack_from(self._bytes)
            if len(self._bytes) < HEAD.size + length:
                return
            payload = bytes(self._bytes[HEAD.size : HEAD.size + length])
            del self._bytes[: HEAD.size + length]
            for taken, content in self.node.reads(numbered, payload):
                yield HEAD.pack(clock, taken, len(content)) + content

    async def _handle(self, sdu: bytes) -> None:
        fault: RemoteProtocolError | None = None
        try:
            heard: Iterable[Heard] = self.session.hear(sdu, trio.current_time())
        except RemoteProtocolError as error:
            heard, fault = error.before, error
        for one in heard:
            await self._answer(one)
        if fault is not None:
            raise fault

    async def _answer(self, heard: Heard) -> None:
        match heard.message:
            case h.MsgProposeVersions():
                answer = self.node.greets(heard.message)
                await self.say(h.NUMBER, answer)
                if isinstance(answer, h.MsgAcceptVersion):
                    await self.node.after_handshake(self)
            case SignedMessage() as message:
                rejected = self.node.judges(message)
                if rejected is None:
                    self.node.held.append(message)
                await self.say(s.NUMBER, self.node.answers(rejected))
                if rejected is None:
                    for client in list(self.node.clients):
                        await client.reply_if_waiting()
            case n.MsgRequestMessagesBlocking() | n.MsgRequestMessagesNonBlocking() | n.MsgNextMessages():
                self.waits = self.node.blocks(heard.message)
                if not (self.waits and self.node.is_patient) or self.cursor < len(self.node.held):
                    await self.reply()

    async def reply_if_waiting(self) -> None:
        if self.waits:
            await self.reply()

    async def reply(self) -> None:
        given = self.node.gives(self)
        found = tuple(self.node.revision.encoding.notified(one) for one in given)
        waited, self.waits = self.waits, False
        await self.say(n.NUMBER, self._reply_of(found, waited))

    def _reply_of(self, found: tuple[bytes, ...], waited: bool) -> n.Message:
        name = self.node.revision.notification.name
        if name == "cip-29ffe0e":
            return n.MsgHasMessages(found) if found else n.MsgNoMessages()
        if name == "overview-2025-04":
            return n.MsgReplyMessages(found)
        if waited:
            return n.MsgReplyMessagesBlocking(found)
        return n.MsgReplyMessagesNonBlocking(found, self.cursor < len(self.node.held))

    async def say(self, number: int, message: Any) -> None:
        said = self.node.says(number, message)
        if said is None:
            return
        early = self.session.say(number, said)
        await self.write()
        for one in early:
            await self._answer(one)

    async def write(self) -> None:
        async with self._writing:
            while sdu := self.session.take(int(trio.current_time() * 1e6)):
                await self.stream.send_all(self.node.writes(sdu))
