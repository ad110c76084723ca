"""A link to a real node, driven by hand: a test sends any frames, and all answers are recorded."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import trio
from rig import NodeProcess
from rigs.patience import HANG_S

from router.client.custody.outbox import Outbox, Submission
from router.client.errors import ClientError
from router.core.link.session import Ended, Offer
from router.core.wire import link_items as link
from router.core.wire.admin import Answer, Inquiry, encode_inquiry
from router.core.wire.codec import frame, split_frames
from router.core.wire.control import Control, encode_control
from router.core.wire.crypto import MessageId, PublicKey, SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import message_id, seal_multicast
from router.core.wire.reasons import Reason
from router.core.wire.redemption import Redeem, Redeemed, encode_redemption
from router.rig.app_link import LIFE_S, READ_BYTES, AppLink, LinkOver
from router.rig.process import RigFailed
from router.transport import contract as transport
from router.transport.contract import Buffer, StreamBroken


class RawLink(AppLink):
    """A link on which a test hands in any messages. `got`: messages as they came; `refused`: the reasons by message
    number, from 1; `written`: every byte of this end; `ended`: the node's goodbye.

    Messages are settled on arrival. `window`: how many messages the node may send without settlement.
    """

    def __init__(
        self,
        key: SigningKey,
        *,
        role: str = "app",
        durable: bool = False,
        window: int = 4096,
        pubsub: PublicKey | None = None,
    ) -> None:
        offer = Offer(role, bytes(8), durable, window, 8 << 20, os.urandom(16), pubsub=pubsub)
        super().__init__(key, offer, Outbox(1 << 20, 1 << 30))
        self.got: list[bytes] = []
        self.refused: dict[int, tuple[Reason, str]] = {}
        self.settled = 0
        self.sent = 0
        self.ended: Ended | None = None
        self.is_closed = False
        self.written = bytearray()

    async def connect(self, url: str, router: PublicKey, timeout_s: float = HANG_S) -> None:
        """Return when the link is up, even if it is over by then."""
        try:
            await super().connect(url, router, timeout_s)
        except LinkOver as over:
            if not self.end.is_up:
                raise
            self._note(over)

    # -- saying --------------------------------------------------------------------------------------------

    async def send(self, *wires: bytes, then: bytes = b"") -> int:
        """Hand in messages, well formed or not, and write these bytes after them; return the last message's number."""
        for wire in wires:
            self.sent += 1
            self.outbox.add(Submission(frame(wire), _Said(self, self.sent)))
        await self.write([*self.end.output(), then])
        return self.sent

    async def publish(self, *wires: bytes) -> list[Reason | None]:
        """Hand in messages and wait until they are settled; return for each why it was refused, or None."""
        last = await self.send(*wires)
        await self.until("everything is settled", lambda: self.settled >= last)
        return [self.refused[k][0] if k in self.refused else None for k in range(last - len(wires) + 1, last + 1)]

    async def join(self, group: PublicKey) -> bool:
        """Send JOIN, and return whether the router accepts it."""
        wanted = await self.want(group)
        await self.until("the JOIN is answered", wanted.answered.is_set)
        return wanted.granted

    async def ask(self, word: str, argument: str) -> bytes | None:
        """Return the router's answer to an inquiry; None if it is refused."""
        before = len(self.answers)
        number = await self.send(self.unicast(self.router, encode_inquiry(Inquiry(word, argument)), ttl_s=0))
        await self.until("an inquiry is answered", lambda: len(self.answers) > before or number in self.refused)
        return self.answers[-1] if len(self.answers) > before else None

    async def redeem(self, secret: bytes, name: str = "") -> Redeemed:
        """Return the router's answer to a redemption with this secret."""
        before = len(self.redeemed)
        await self.send(self.unicast(self.router, encode_redemption(Redeem(secret, name)), ttl_s=0))
        await self.until("the invitation is answered", lambda: len(self.redeemed) > before)
        return self.redeemed[-1]

    def says(self, control: Control, expiry_s: float = LIFE_S) -> bytes:
        """Send the router a control message by this key."""
        return self.unicast(self.router, encode_control(control), ttl_s=0, expiry_s=expiry_s)

    async def write(self, parts: Sequence[Buffer]) -> None:
        self.written += b"".join(parts)
        await super().write(parts)

    # -- hearing -------------------------------------------------------------------------------------------

    async def until(self, what: str, holds: Callable[[], bool]) -> None:
        """Read until the condition holds."""
        with trio.move_on_after(HANG_S) as scope:
            while not holds() and not self.is_closed:
                await self._hear()
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

    @property
    def answers(self) -> list[bytes]:
        return [said.text for said in self.heard if isinstance(said, Answer)]

    @property
    def redeemed(self) -> list[Redeemed]:
        return [said for said in self.heard if isinstance(said, Redeemed)]

    @property
    def heard_nothing(self) -> bool:
        """Whether the node has sent neither a message nor an item about one. Where it is reached, it tells each
        neighbour that was chosen, when it comes to it: that is passed over, as by any app."""
        return not self.got and not self.heard

    def _note(self, over: LinkOver) -> None:
        self.is_closed, self.ended = True, over.end.goodbye

    async def _hear(self) -> None:
        try:
            reads = await self.receive()
        except LinkOver as over:
            self._note(over)
            return
        except StreamBroken:
            self.is_closed = True
            return
        self.got += [read.data[start:end] for read in reads for _, start, end in read.spans]
        with suppress(StreamBroken):
            await self.settle(reads)


@dataclass
class _Said:
    """The outcome of one message handed in."""

    link: RawLink
    number: int

    def refused(self, reason: Reason, text: str) -> None:
        self.link.refused[self.number] = reason, text

    def ended(self) -> None:
        self.link.settled += 1

    def failed(self, error: ClientError) -> None:
        raise AssertionError(f"nothing is given up on a link driven by hand: {error}")


def multicast(group: SigningKey, body: bytes, *, ttl_s: int = LIFE_S, expiry_s: float = LIFE_S) -> bytes:
    return seal_multicast(group, body, ttl_s=ttl_s, expiry_min=expiry_min(time.time() + expiry_s))


@asynccontextmanager
async def linked(
    node: NodeProcess,
    key: SigningKey,
    *,
    tls: bool = False,
    role: str = "app",
    durable: bool = False,
    window: int = 4096,
    pubsub: PublicKey | None = None,
) -> AsyncIterator[RawLink]:
    """Open a link to that node, over its owner's socket or over TLS."""
    found = RawLink(key, role=role, durable=durable, window=window, pubsub=pubsub)
    url = node.url if tls else f"unix://{node.home.socket_path}"
    try:
        await found.connect(url, node.address)
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
