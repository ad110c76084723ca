"""An app's loops over what it received: `async for` settles a message when it asks for the next one."""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial

import trio

from router.client.arrivals import Arrival, Batch
from router.client.composer import Causes
from router.client.errors import NOT_BEGUN, ClientError
from router.client.handover import Handover
from router.client.journal import Journal
from router.client.received import Received
from router.client.unopened import UNSEALED, Unopened
from router.core.application import ApplicationMessage, SealError, content_key_id, unseal
from router.core.codec import Malformed
from router.core.crypto import PublicKey
from router.core.lifetime import expiry_s
from router.core.message import Multicast, Unicast, open_message, verify_message

CHECKPOINT_EVERY = 16  # messages that a loop gets at once, if they are there, before others have their turn


class Ear:
    """How one group is heard: the keys that open its bodies (none: they come as they are), and its causes."""

    def __init__(self, content_key: bytes | None, causes: Causes) -> None:
        self.keys: Mapping[bytes, bytes] = {} if content_key is None else {content_key_id(content_key): content_key}
        self.causes = causes


class Readings:
    """Hands out messages to loops and takes them back. `ear` finds how a group is heard, `problem` hears of messages
    that can be given to nobody; such a message is settled all the same."""

    def __init__(
        self,
        ear: Callable[[PublicKey], Ear],
        problem: Callable[[str], None],
        wall_s: Callable[[], float],
        *,
        verify: bool,
    ) -> None:
        self._ear = ear
        self._unopened = Unopened(problem, wall_s)
        self._wall_s = wall_s
        self._verify = verify
        self._lot = trio.lowlevel.ParkingLot()
        self._ended: ClientError | None = ClientError(NOT_BEGUN)
        self._is_over = False
        self.journal: Journal | None = None
        self.handover: Handover  # given by the node, which wires both

    def wake(self) -> None:
        self._lot.unpark_all()

    def begin(self) -> None:
        """From now on something may come."""
        self._ended = None

    def end(self, error: ClientError | None) -> None:
        """No more will come: all loops end, with the error if there is one."""
        self._is_over, self._ended = True, error
        self.wake()

    async def wait(self) -> None:
        """Until something may have come. Raises what ended the connection, or `StopAsyncIteration`."""
        if self._ended is not None:
            raise self._ended
        if self._is_over:
            raise StopAsyncIteration
        await self._lot.park()

    async def finish(self, one: Arrival) -> None:
        """The app has handled it: into the journal, if there is one, then settled."""
        if one.done:
            return
        if self.journal is not None:
            await self.journal.remember(one.id, expiry_s(one.header.expiry_min), self._wall_s())
        self.handover.done(one)

    # -- opening -------------------------------------------------------------------------------------------

    def open(self, one: Arrival) -> Received | None:
        """What the app gets to see; None if that is nothing, which has been reported."""
        wire = one.wire
        message = open_message(wire)
        group = None if isinstance(message, Unicast) else message.group
        if self._verify and not verify_message(wire):
            self._unopened.note(group, message.via, "its signature does not fit")
            return None
        if isinstance(message, Unicast):
            return self._unicast(message, one)
        try:
            return self._multicast(message, one)
        except Malformed:
            self._unopened.note(group, message.via, UNSEALED)
        except SealError as error:
            self._unopened.note(group, message.via, f"its body cannot be opened: {error}")
        return None

    def _unicast(self, message: Unicast, one: Arrival) -> Received:
        source = message.source
        return Received(
            one.id, message.body, None, source, source, None, (), None, message.via, one.at_s, one.redelivered,
            partial(self.finish, one), partial(self.handover.refuse, one),
        )  # fmt: skip

    def _multicast(self, message: Multicast, one: Arrival) -> Received:
        ear = self._ear(message.group)
        said: ApplicationMessage | None = unseal(message.body, message.group, ear.keys) if ear.keys else None
        ear.causes.note(one.id, message.expiry_min)
        sender, seq, deps, code, body = (
            (None, None, (), None, message.body) if said is None
            else (said.sender, said.seq, said.deps, said.code, said.content)
        )  # fmt: skip
        return Received(
            one.id, body, message.group, None, sender, seq, deps, code, message.via, one.at_s, one.redelivered,
            partial(self.finish, one), partial(self.handover.refuse, one),
        )  # fmt: skip


class Hand:
    """The message that a loop holds."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held: Arrival | None = None


class Door:
    """The loops over one address. What a loop held that was left counts as asked for when the next one begins."""

    def __init__(self, readings: Readings, address: bytes | None) -> None:
        self._readings = readings
        self._address = address
        self._hands: list[tuple[weakref.ref[Messages], Hand]] = []

    def loop(self, *, settle_on_next: bool = True) -> Messages:
        hand = Hand()
        left = [old for ref, old in self._hands if ref() is None and old.held is not None]
        loop = Messages(self._readings, self._address, hand, left, settle_on_next=settle_on_next)
        alive = [(ref, old) for ref, old in self._hands if ref() is not None]
        self._hands = [*alive, (weakref.ref(loop), hand)]
        return loop


class Messages(AsyncIterator[Received]):
    """One loop over messages. Several loops over the same group share its messages: each goes to one of them."""

    def __init__(
        self, readings: Readings, address: bytes | None, hand: Hand, left: list[Hand], *, settle_on_next: bool
    ) -> None:
        self._readings = readings
        self._address = address
        self._hand = hand
        self._left = left
        self._settle_on_next = settle_on_next
        self._in_a_row = 0

    def __aiter__(self) -> Messages:
        return self

    async def __anext__(self) -> Received:
        await self._let_go()
        readings, handover = self._readings, self._readings.handover
        while True:
            one = handover.take(self._address)
            self._in_a_row += 1
            if one is None:
                self._in_a_row = 0
                await readings.wait()
                continue
            received = readings.open(one)
            if received is None:
                await readings.finish(one)
                continue
            self._hand.held = one if self._settle_on_next else None
            return received

    async def _let_go(self) -> None:
        """Settle what this loop, or one that was left, held."""
        for hand in (*self._left, self._hand):
            if hand.held is not None:
                await self._readings.finish(hand.held)
                hand.held = None
        self._left = []
        if self._in_a_row >= CHECKPOINT_EVERY:
            self._in_a_row = 0
            await trio.lowlevel.checkpoint()


class Batches(AsyncIterator[Batch]):
    """The bulk loop: what each read brought, unparsed. Asking for the next batch settles the one before."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings
        self._held: Batch | None = None

    def __aiter__(self) -> Batches:
        return self

    async def __anext__(self) -> Batch:
        if self._held is not None:
            self._held.settle()
            self._held = None
        await trio.lowlevel.checkpoint()
        while (batch := self._readings.handover.take_batch()) is None:
            await self._readings.wait()
        self._held = batch
        return batch
