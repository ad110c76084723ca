"""One connection of an app, driven by hand: the client's own end of a link, which reads and writes only on command.

It never dials again, and returns messages unparsed, as each read brings them: the bench counts them as cheaply as it
can, and tests look at their bytes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import trio

from router.client.app_end import AppEnd, End, News
from router.client.custody.arrivals import Read
from router.client.custody.inbox import Inbox
from router.client.custody.outbox import Outbox, Sink, Submission
from router.client.errors import ClientError
from router.client.joins import Joins, WantedMembership
from router.core.link.session import Offer, Session
from router.core.link.table import LinkLimits
from router.core.wire.codec import frame
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import seal_unicast
from router.core.wire.reasons import Reason
from router.transport import contract as transport
from router.transport.contract import Buffer, Stream

READ_BYTES = 256 * 1024
LIFE_S = 3600


class LinkOver(Exception):
    """Raised when the node has closed the link; `end` says why."""

    def __init__(self, end: End) -> None:
        super().__init__(end.text)
        self.end = end


class SentCounts:
    """Counts messages handed in: how many are settled, and why some were refused."""

    def __init__(self) -> None:
        self.settled = 0
        self.refusals: list[tuple[Reason, str]] = []

    def refused(self, reason: Reason, text: str) -> None:
        self.refusals.append((reason, text))

    def ended(self) -> None:
        self.settled += 1

    def failed(self, error: ClientError) -> None:
        raise AssertionError(f"nothing is given up on a link driven by hand: {error}")


class AppLink:
    """A link to the node that is dialled once. `heard`: the router's items and messages, except answers to JOIN and
    LEAVE; `problems`: sentences about groups that were refused."""

    LIMITS = LinkLimits(link_items_per_s=0)
    """No rate for the node: who floods it gets as many answers, and reads them in one go after a moment's pause."""

    def __init__(self, key: SigningKey, offer: Offer, outbox: Outbox) -> None:
        self.key = key
        self.heard: list[News] = []
        self.problems: list[str] = []
        self.outbox = outbox
        self.inbox = Inbox(
            offer.window_messages,
            offer.window_bytes,
            durable=offer.durable,
            known=lambda _: (),
            problem=self.problems.append,
            wake_loops=_nothing,
            wake_link=_nothing,
        )
        self.joins = Joins(key, time.time, _nothing, self.problems.append)
        self.moved = trio.lowlevel.ParkingLot()
        """Where a task waits for the next settlement."""
        self.end = AppEnd(outbox, self.inbox, self.joins, self.heard.append, self._changed, time.time, router=None)
        self._offer = offer
        self._writing = trio.Lock()
        self.stream: Stream | None = None

    def _changed(self) -> None:
        self.moved.unpark_all()

    async def connect(self, url: str, router: PublicKey, timeout_s: float) -> None:
        """Return when the link is up. Raise `ConnectFailed` or `LinkOver`."""
        self.stream = await transport.dial(url, self.key, router, timeout_s=timeout_s)
        self.end.begin(
            Session(self._offer, self.key, dialler=True, peer=self.stream.peer, expect=router, limits=self.LIMITS)
        )
        await self.flush()
        while not self.end.is_up:
            await self._read()
            await self.flush()

    async def close(self) -> None:
        if self.stream is not None:
            await self.stream.aclose()

    @property
    def router(self) -> PublicKey:
        assert self.end.router is not None, "the link has not been up yet"
        return self.end.router

    # -- out -----------------------------------------------------------------------------------------------

    async def hand_in(self, wires: Sequence[bytes], sink: Sink) -> None:
        """Hand in messages, well formed or not; those beyond the node's window leave with a later `flush`."""
        for wire in wires:
            self.outbox.add(Submission(frame(wire), sink))
        await self.flush()

    async def flush(self) -> None:
        """Write everything that may be written now."""
        if parts := self.end.output():
            await self.write(parts)

    async def write(self, parts: Sequence[Buffer]) -> None:
        """Write any bytes, after those already being written."""
        assert self.stream is not None
        try:
            self._writing.acquire_nowait()  # nearly always: waiting for a free lock is a turn of the loop
        except trio.WouldBlock:
            await self._writing.acquire()
        try:
            await self.stream.send_parts(parts)
        finally:
            self._writing.release()

    def unicast(self, to: PublicKey, body: bytes, *, ttl_s: int = LIFE_S, expiry_s: float = LIFE_S) -> bytes:
        return seal_unicast(self.key, to, body, ttl_s=ttl_s, expiry_min=expiry_min(time.time() + expiry_s))

    async def want(self, group: PublicKey) -> WantedMembership:
        """Send JOIN. The membership is `answered` once the node's answer has been read."""
        wanted = self.joins.want(group)
        self.end.ask(time.monotonic())
        await self.flush()
        return wanted

    # -- in ------------------------------------------------------------------------------------------------

    async def receive(self) -> list[Read]:
        """Return the messages that the next read brings, for `settle`. Raise `LinkOver` if the node closed the link."""
        reads = self.inbox.take_reads()  # of the read that brought the link up
        if not reads:
            await self._read()
            reads = self.inbox.take_reads()
        return reads

    async def _read(self) -> None:
        assert self.stream is not None
        data = await self.stream.receive_some(READ_BYTES)
        end = self.end.receive(data, time.monotonic()) if data else End("the node closed the link")
        if end is not None:
            raise LinkOver(end)

    async def settle(self, reads: Sequence[Read]) -> None:
        """Settle messages that were received, and write what is ready."""
        self.inbox.reads_done(reads)
        await self.flush()


def _nothing() -> None:
    """Do nothing: the caller looks at the link after each read, and writes then."""
