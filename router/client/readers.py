"""What loops over received messages share: whose turn it is, and where they wait.

In a group that was joined in causal order a message is opened when it comes, and given when its causes were given.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum

import trio

from router.client.custody.arrivals import Arrival
from router.client.custody.asks import MissingMessage
from router.client.custody.inbox import Inbox
from router.client.errors import NOT_BEGUN, ClientError
from router.client.opening import Opener
from router.client.ordering import OpenedMessage, Ordering
from router.client.settling import Settling
from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.message import message_id, read_header
from router.core.wire.reasons import Reason


class Nothing(Enum):
    """Why no next message was found."""

    YET = "one was looked at, which cannot be given, or not yet"
    HERE = "none is here"


class Readers:
    """Hands out messages to loops. `pull` asks the node for a missing message, `judge` whether one that it has is in
    this app's queue; loops wait in `lot`, which all wake that may have something for them."""

    def __init__(
        self,
        inbox: Inbox,
        settling: Settling,
        opener: Opener,
        ordering: Ordering,
        pull: Callable[[MissingMessage], None],
        judge: Callable[[PublicKey, MessageId], None],
        lot: trio.lowlevel.ParkingLot,
        wall_s: Callable[[], float],
        mono_s: Callable[[], float] = trio.current_time,
    ) -> None:
        self._inbox = inbox
        self._settling = settling
        self._opener = opener
        self.ordering = ordering
        self._pull = pull
        self._judge = judge
        self._lot = lot
        self._wall_s = wall_s
        self._mono_s = mono_s
        self._ended: ClientError | None = ClientError(NOT_BEGUN)
        self._is_over = False

    def __repr__(self) -> str:
        return f"<readers: {len(self._lot)} loops wait, {self.ordering!r}>"

    def begin(self) -> None:
        """Let loops wait for messages from now on."""
        self._ended = None

    def end(self, error: ClientError | None) -> None:
        """End all loops, with the error if there is one."""
        self._is_over, self._ended = True, error
        self._lot.unpark_all()

    async def wait(self, address: bytes | None) -> None:
        """Wait until a message to this address may have come, or have waited too long for its causes. Raise the error
        that ended the connection, or `StopAsyncIteration`."""
        if self._ended is not None:
            raise self._ended
        if self._is_over:
            raise StopAsyncIteration
        self._settling.check()
        ordering = self.ordering
        until_s = ordering.wake_s(address, is_full=self._inbox.is_full) if ordering.is_busy else math.inf
        with trio.move_on_at(until_s):
            await self._lot.park()

    def move_on(self, one: Arrival) -> None:
        """Settle a message that a loop has handled; see `Settling.move_on`."""
        self._settling.move_on(one)

    # -- whose turn it is ----------------------------------------------------------------------------------

    def step(self, address: bytes | None) -> OpenedMessage | Nothing:
        """Return the next message to an address, or any (None), after looking at no more than one new arrival."""
        ordering = self.ordering
        is_at_work = ordering.is_at_work  # else nothing waits, and nothing was found for what waited
        if is_at_work and (found := ordering.ready(address)) is not None:
            return self._give(found)
        one = ordering.take_found(address) if is_at_work else None
        if is_at_work and one is None and ordering.is_crowded(address):
            one = self._sought(address)
            if one is None:
                return self._overdue(address)
        one = one or self._inbox.take(address)
        if one is None:
            return self._overdue(address)
        return self._look_at(one)

    def _overdue(self, address: bytes | None) -> OpenedMessage | Nothing:
        now_s = self._mono_s()
        found = self.ordering.overdue(address, now_s, is_full=self._inbox.is_full)
        self._ask(now_s)
        return Nothing.HERE if found is None else self._give(found)

    def _sought(self, address: bytes | None) -> Arrival | None:
        """Return the causes of the message that has waited longest, if they are in the inbox."""
        picked = (self._inbox.pick(group, id) for group, id in self.ordering.sought(address))
        return next((one for one in picked if one is not None), None)

    def _look_at(self, one: Arrival) -> OpenedMessage | Nothing:
        received = self._opener.open(one)
        ordering, group = self.ordering, received.group if received is not None else one.address
        if received is None:
            self._settling.move_on(one)
            ordering.unreadable(one.address, one.id)
            return Nothing.YET
        if group is None or not ordering.has(group):
            return self._give(OpenedMessage(one, received))
        if ordering.is_busy and ordering.holds(group, one.id):
            self._inbox.refuse(one, Reason.RATE_LIMITED, "the same message waits for its causes already")
            return Nothing.YET
        now_s = self._mono_s()
        found = ordering.offer(OpenedMessage(one, received), now_s, self._wall_s())
        if found is not None:
            return self._give(found)
        for dep in received.deps:
            if ordering.asks.group_of(dep) is not None and (cause := self._inbox.pick(group, dep)) is not None:
                ordering.found(cause)
        self._ask(now_s)
        return Nothing.YET

    def _give(self, opened: OpenedMessage) -> OpenedMessage:
        received = opened.received
        self._opener.count_given(opened.arrival, received)
        if self._lot and self.ordering.has(received.group):
            self._lot.unpark_all()  # it may be what other loops wait for
        return opened

    def _ask(self, now_s: float) -> None:
        for wanted in self.ordering.asks.take(now_s) if self.ordering.asks else ():
            self._pull(wanted)

    def carried(self, wire: bytes) -> None:
        """Take a message that the node carries to this app, if others wait for it."""
        id = message_id(wire)
        if self.ordering.asks.group_of(id) is None:
            return
        one = Arrival(0, 0, wire, 0, len(wire), read_header(wire, 0, len(wire)), id, self._wall_s(), redelivered=False)
        if self.ordering.answered(one, self._opener.sender_of(wire)) and self._inbox.adopt(one):
            self.ordering.found(one)
        for doubt in self.ordering.take_doubts():
            self._judge(*doubt)
        self._lot.unpark_all()

    def judged(self, id: MessageId, is_owed: bool | None) -> None:
        """Record whether a message that the node has is in this app's queue; see `Ordering.judged`."""
        self.ordering.judged(id, is_owed)
        self._lot.unpark_all()
