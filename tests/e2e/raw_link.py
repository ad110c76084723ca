"""One end of a link to a real node, by hand: it sends any frames the test wants, and records all answers."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import trio
from rig import NodeProcess
from rigs.patience import HANG_S

from router.core.link.session import Ended, Heard, Messages, Offer, RefusedAt, Session, SettledUpTo, Up
from router.core.wire import link_items as link
from router.core.wire.admin import Answer, Inquiry, decode_inquiry, encode_inquiry, is_inquiry
from router.core.wire.codec import frame, split_frames
from router.core.wire.control import Control, Join, JoinAck, decode_control, encode_control
from router.core.wire.crypto import MessageId, PublicKey, SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import Unicast, message_id, open_message, seal_multicast, seal_unicast
from router.core.wire.reasons import Reason
from router.rig.process import RigFailed
from router.transport import contract as transport
from router.transport.contract import Stream, StreamBroken

LIFE_S = 3600
READ_BYTES = 1 << 18


class RawLink:
    """One end of a link. `got`: messages as they came; `control`, `answers`: those of the router; `refused`: by number,
    from 1; `written`: every byte of this end.

    What arrives is settled at once. `window`: how many messages the node may send before that.
    """

    def __init__(self, key: SigningKey, *, role: str = "app", durable: bool = False, window: int = 4096) -> None:
        self.key = key
        self.got: list[bytes] = []
        self.control: list[Control] = []
        self.answers: list[bytes] = []
        self.items: list[link.Item] = []
        self.refused: dict[int, tuple[Reason, str]] = {}
        self.settled = 0
        self.sent = 0
        self.ended: Ended | None = None
        self.is_up = self.is_closed = False
        self.written = bytearray()
        self._offer = Offer(role, bytes(8), durable, window, 8 << 20, os.urandom(16))
        self.stream: Stream
        self.session: Session

    async def connect(self, url: str, expect: PublicKey) -> None:
        self.router = expect
        self.stream = await transport.dial(url, self.key, expect, timeout_s=HANG_S)
        self.session = Session(self._offer, self.key, dialler=True, peer=self.stream.peer, expect=expect)
        await self._flush()
        await self.until("the link is up", lambda: self.is_up)

    async def close(self) -> None:
        await self.stream.aclose()

    # -- saying --------------------------------------------------------------------------------------------

    async def send(self, *wires: bytes) -> int:
        """Hand in messages, well formed or not; return the number of the last."""
        self.sent += len(wires)
        await self._write(b"".join(map(frame, wires)))
        return self.sent

    async def publish(self, *wires: bytes) -> list[Reason | None]:
        """Hand in messages and wait until they are settled; return why each was refused, or None."""
        last = await self.send(*wires)
        await self.until("everything is settled", lambda: self.settled >= last)
        return [self.refused[k][0] if k in self.refused else None for k in range(last - len(wires) + 1, last + 1)]

    async def join(self, group: PublicKey) -> bool:
        """Send JOIN, and return whether the router accepts it."""
        await self.send(self.says(Join(group, False)))
        before = len(self.control)
        await self.until("the JOIN is answered", lambda: len(self.control) > before)
        answer = self.control[-1]
        assert isinstance(answer, JoinAck)
        return answer.success

    async def ask(self, word: str, argument: str) -> bytes | None:
        """Return the router's answer to an inquiry; None if it is refused."""
        before = len(self.answers)
        number = await self.send(self.unicast(self.router, encode_inquiry(Inquiry(word, argument)), ttl_s=0))
        await self.until("an inquiry is answered", lambda: len(self.answers) > before or number in self.refused)
        return self.answers[-1] if len(self.answers) > before else None

    def says(self, control: Control, expiry_s: float = LIFE_S) -> bytes:
        """Return a control message of this key to the router."""
        return self.unicast(self.router, encode_control(control), ttl_s=0, expiry_s=expiry_s)

    def unicast(self, to: PublicKey, body: bytes, *, ttl_s: int = LIFE_S, expiry_s: float = LIFE_S) -> bytes:
        return seal_unicast(self.key, to, body, ttl_s=ttl_s, expiry_min=expiry_min(time.time() + expiry_s))

    # -- hearing -------------------------------------------------------------------------------------------

    async def until(self, what: str, holds: Callable[[], bool]) -> None:
        """Read until the condition holds."""
        with trio.move_on_after(HANG_S) as scope:
            while not holds() and not self.is_closed:
                await self._read()
        if scope.cancelled_caught or not holds():
            raise RigFailed(f"not so: {what}; heard {self.ended or 'no goodbye'}, refused {self.refused}")

    async def until_got(self, *wires: bytes) -> None:
        """Read until all these messages have come."""
        wanted = {message_id(wire) for wire in wires}
        await self.until(f"{len(wanted)} messages come", lambda: wanted <= set(self.ids))

    async def until_closed(self) -> Ended | None:
        """Read until the node has closed, and return its goodbye."""
        await self.until("the node closes", lambda: self.is_closed)
        return self.ended

    @property
    def ids(self) -> list[MessageId]:
        return [message_id(wire) for wire in self.got]

    async def _read(self) -> None:
        try:
            data = await self.stream.receive_some(READ_BYTES)
        except StreamBroken:
            data = b""
        self.is_closed = not data
        for event in self.session.receive(data, time.monotonic()) if data else ():
            match event:
                case Messages(_, read, spans):
                    self._take([read[start:end] for _, start, end in spans])
                case SettledUpTo(n):
                    self.settled = n
                case RefusedAt(k, reason, text):
                    self.refused[k] = reason, text
                case Heard(item):
                    self.items.append(item)
                case Ended():
                    self.ended = event
                case Up():
                    self.is_up = True
        if data:
            with suppress(StreamBroken):
                await self._flush()

    def _take(self, wires: list[bytes]) -> None:
        for wire in wires:
            message = open_message(wire)
            if isinstance(message, Unicast) and message.source == self.router and is_inquiry(message.body):
                answer = decode_inquiry(message.body)
                assert isinstance(answer, Answer)
                self.answers.append(answer.text)
            elif isinstance(message, Unicast) and message.source == self.router:
                self.control.append(decode_control(message.body))
            else:
                self.got.append(wire)
        self.session.settle(self.session.incoming.received)

    async def _flush(self) -> None:
        data = b"".join(self.session.output())
        if data:
            await self._write(data)

    async def _write(self, data: bytes) -> None:
        self.written += data
        await self.stream.send_all(data)


def multicast(group: SigningKey, body: bytes, *, ttl_s: int = LIFE_S, expiry_s: float = LIFE_S) -> bytes:
    return seal_multicast(group, body, ttl_s=ttl_s, expiry_min=expiry_min(time.time() + expiry_s))


@asynccontextmanager
async def linked(
    node: NodeProcess, key: SigningKey, *, tls: bool = False, role: str = "app", durable: bool = False,
    window: int = 4096,
) -> AsyncIterator[RawLink]:  # fmt: skip
    """Open a link to that node, over its owner's socket or over TLS."""
    found = RawLink(key, role=role, durable=durable, window=window)
    url = node.url if tls else f"unix://{node.home.socket_path}"
    await found.connect(url, node.address)
    try:
        yield found
    finally:
        with trio.CancelScope(shield=True):
            await found.close()


async def say_bytes(node: NodeProcess, data: bytes, *, key: SigningKey, tls: bool = False) -> list[link.Item]:
    """Write any bytes to a new connection, and return all items that the node sends until it closes."""
    url = node.url if tls else f"unix://{node.home.socket_path}"
    stream = await transport.dial(url, key, node.address, timeout_s=HANG_S)
    heard = b""
    with trio.fail_after(HANG_S), suppress(StreamBroken):
        await stream.send_all(data)
        while more := await stream.receive_some(READ_BYTES):
            heard += more
    await stream.aclose()
    return [link.decode_item(heard[start:end]) for _, start, end in split_frames(heard)[0]]
