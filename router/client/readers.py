"""What loops over received messages share: whose turn it is, opening, and settling what they have handled.

In a group that was joined in causal order a message is opened when it comes, and given when its causes were given. With
a journal it is settled once the journal has it on disk, for which a loop does not wait: handled messages are gathered,
and one sync writes all of them. `Received.settle` does wait.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from functools import partial

import trio

from router.client.custody.arrivals import Arrival
from router.client.custody.asks import Wanted
from router.client.custody.causes import Causes
from router.client.custody.inbox import Inbox
from router.client.errors import NOT_BEGUN, ClientError
from router.client.journal import Journal, Row, nothing
from router.client.ordering import Opened, Ordering
from router.client.received import Received
from router.client.said import SAID_AGAIN, SAID_KEEP_S, Said, SaidAgain
from router.client.undeliverable import UNSEALED, Undeliverable
from router.core.wire.application import ApplicationMessage, SealError, content_key_id, unseal
from router.core.wire.codec import Malformed
from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.lifetime import expiry_s
from router.core.wire.message import (
    Multicast,
    Unicast,
    message_id,
    open_message,
    read_header,
    verify_message,
    without_via,
)
from router.core.wire.reasons import Reason
from router.core.wire.text import key_text, short


class Nothing(Enum):
    """Why no next message was found."""

    YET = "one was looked at, which cannot be given, or not yet"
    HERE = "none is here"


class GroupKeys:
    """The data for reading one group: the keys that open its bodies (none: they are unsealed), and its causes."""

    def __init__(self, content_key: bytes | None, causes: Causes) -> None:
        self.keys: Mapping[bytes, bytes] = {} if content_key is None else {content_key_id(content_key): content_key}
        self.causes = causes


class Readers:
    """Hands out messages to loops and settles them. `me`: this app; `group_keys` finds the keys of a group; `problem`
    gets sentences about messages that cannot be given, which are settled all the same; `pull` asks the node for a
    missing message, `judge` whether one that it has is in this app's queue."""

    def __init__(
        self,
        me: PublicKey,
        group_keys: Callable[[PublicKey], GroupKeys],
        problem: Callable[[str], None],
        pull: Callable[[Wanted], None],
        judge: Callable[[PublicKey, MessageId], None],
        wall_s: Callable[[], float],
        mono_s: Callable[[], float] = trio.current_time,
        *,
        verify: bool,
    ) -> None:
        self._group_keys = group_keys
        self._problem = problem
        self._undeliverable = Undeliverable(problem, wall_s)
        self._pull = pull
        self._judge = judge
        self._wall_s = wall_s
        self._mono_s = mono_s
        self._verify = verify
        self.ordering = Ordering(me, self.known)
        self._said = Said()
        self._lot = trio.lowlevel.ParkingLot()
        self._ended: ClientError | None = ClientError(NOT_BEGUN)
        self._is_over = False
        self.journal: Journal | None = None
        self.inbox: Inbox  # set by the node, which connects both

    def wake(self) -> None:
        self._lot.unpark_all()

    def begin(self) -> None:
        """Let loops wait for messages from now on."""
        self._ended = None

    def end(self, error: ClientError | None) -> None:
        """End all loops, with the error if there is one."""
        self._is_over, self._ended = True, error
        self.wake()

    async def wait(self, address: bytes | None) -> None:
        """Wait until a message to this address may have come, or have waited too long for its causes. Raise the error
        that ended the connection, or `StopAsyncIteration`."""
        if self._ended is not None:
            raise self._ended
        if self._is_over:
            raise StopAsyncIteration
        if self.journal is not None:
            self.journal.check()
        ordering = self.ordering
        until_s = ordering.wake_s(address, is_full=self.inbox.is_full) if ordering.is_busy else math.inf
        with trio.move_on_at(until_s):
            await self._lot.park()

    def known(self, ids: Sequence[MessageId]) -> Collection[MessageId]:
        """Return the ids among `ids` that the journal has as handled."""
        return () if self.journal is None else self.journal.known(ids)

    async def finish(self, one: Arrival) -> None:
        """Write a handled message into the journal, if there is one, then settle it."""
        if one.done:
            return
        if self.journal is not None:
            self._keep_heads(one)
            await self.journal.remember(self._rows(one))
        self.inbox.done(one)

    def move_on(self, one: Arrival) -> None:
        """Settle a message that a loop has handled without waiting: with a journal, once its next commit is on disk."""
        if self.journal is None:
            self.inbox.done(one)
        elif not one.done:
            self.journal.check()
            self._keep_heads(one)
            self.journal.gather(self._rows(one), partial(self.inbox.done, one))

    async def leave(self) -> None:
        """Write the messages that loops have handled, at the end; those that cannot be written come again."""
        if self.journal is not None:
            with trio.CancelScope(shield=True):
                try:
                    await self.journal.flush()
                except ClientError as error:
                    self._problem(error.text)

    def published(self, group: PublicKey, id: MessageId, until_min: int) -> None:
        """Record that a message of this app is in custody: with a journal, a later run knows that it need not wait for
        it."""
        if self.journal is not None and self.ordering.has(group):
            self.journal.gather([(id, expiry_s(until_min))], nothing)

    def _keep_heads(self, one: Arrival) -> None:
        """Have the journal's next commit write the causes that the next message to this group will then name."""
        if one.said is not None and self.journal is not None:
            group = PublicKey(one.address)
            self.journal.keep_heads(group, self._group_keys(group).causes.heads.lasting)

    def _rows(self, one: Arrival) -> list[Row]:
        until_s = expiry_s(one.header.expiry_min)
        if one.said is None:
            return [(one.id, until_s)]
        return [(one.id, until_s), (one.said, max(until_s, int(self._wall_s()) + SAID_KEEP_S))]

    # -- whose turn it is ----------------------------------------------------------------------------------

    def step(self, address: bytes | None) -> Opened | Nothing:
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
        one = one or self.inbox.take(address)
        if one is None:
            return self._overdue(address)
        return self._look_at(one)

    def _overdue(self, address: bytes | None) -> Opened | Nothing:
        now_s = self._mono_s()
        found = self.ordering.overdue(address, now_s, is_full=self.inbox.is_full)
        self._ask(now_s)
        return Nothing.HERE if found is None else self._give(found)

    def _sought(self, address: bytes | None) -> Arrival | None:
        """Return the causes of the message that has waited longest, if they are in the inbox."""
        picked = (self.inbox.pick(group, id) for group, id in self.ordering.sought(address))
        return next((one for one in picked if one is not None), None)

    def _look_at(self, one: Arrival) -> Opened | Nothing:
        received = self.open(one)
        ordering, group = self.ordering, received.group if received is not None else one.address
        if received is None:
            self.move_on(one)
            ordering.unreadable(one.address, one.id)
            return Nothing.YET
        if group is None or not ordering.has(group):
            return self._give(Opened(one, received))
        if ordering.is_busy and ordering.holds(group, one.id):
            self.inbox.refuse(one, Reason.RATE_LIMITED, "the same message waits for its causes already")
            return Nothing.YET
        now_s = self._mono_s()
        found = ordering.offer(Opened(one, received), now_s, self._wall_s())
        if found is not None:
            return self._give(found)
        for dep in received.deps:
            if ordering.asks.group_of(dep) is not None and (cause := self.inbox.pick(group, dep)) is not None:
                ordering.found(cause)
        self._ask(now_s)
        return Nothing.YET

    def _give(self, opened: Opened) -> Opened:
        """Count a message as given: the next one that the app publishes names it as a cause."""
        received = opened.received
        if received.group is not None and received.sender is not None:
            causes = self._group_keys(received.group).causes
            causes.given(received.id, received.expiry_min, opened.arrival.header.ttl_s, received.deps)
            if self._lot and self.ordering.has(received.group):
                self.wake()  # it may be what other loops wait for
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
        if self.ordering.answered(one, self._sender_of(wire)) and self.inbox.adopt(one):
            self.ordering.found(one)
        for doubt in self.ordering.take_doubts():
            self._judge(*doubt)
        self.wake()

    def judged(self, id: MessageId, is_owed: bool | None) -> None:
        """Record whether a message that the node has is in this app's queue; see `Ordering.judged`."""
        self.ordering.judged(id, is_owed)
        self.wake()

    def _sender_of(self, wire: bytes) -> tuple[PublicKey, int] | None:
        """Return sender and number of a message; None if this app cannot read it."""
        message = open_message(wire)
        assert isinstance(message, Multicast)
        try:
            said = unseal(message.body, message.group, self._group_keys(message.group).keys)
        except (Malformed, SealError):
            return None
        return said.sender, said.seq

    # -- opening -------------------------------------------------------------------------------------------

    def open(self, one: Arrival) -> Received | None:
        """Open a message for the app; return None if it cannot be given to it, which is reported.

        An unreadable message is refused, so that its outcome shows this. Signed words that came before, in another
        message, are settled like those.
        """
        message = open_message(one.wire)
        group = None if isinstance(message, Unicast) else message.group
        if self._verify and not verify_message(one.wire):
            why = "its signature does not fit"
        elif isinstance(message, Unicast):
            return self._unicast(message, one)
        else:
            try:
                return self._multicast(message, one)
            except SaidAgain as again:
                self._undeliverable.note(group, message.via, str(again))
                return None
            except Malformed:
                why = UNSEALED
            except SealError as error:
                why = f"its body cannot be opened: {error}"
        self._undeliverable.note(group, message.via, why)
        self.inbox.refuse(one, Reason.PEER_REFUSED, why)
        return None

    def _unicast(self, message: Unicast, one: Arrival) -> Received:
        source = message.source
        return Received(
            one.id,
            message.body,
            None,
            source,
            source,
            None,
            (),
            None,
            message.via,
            one.at_s,
            one.redelivered,
            (),
            message.expiry_min,
            without_via(one.wire),
            partial(self.finish, one),
            partial(self.inbox.refuse, one),
        )

    def _is_said_again(self, said: MessageId, message: MessageId) -> bool:
        """Whether another message brought these signed words before."""
        first = self._said.first(said)
        if first is None and not self.known([said]):
            self._said.note(said, message)
            return False
        return first != message

    def _multicast(self, message: Multicast, one: Arrival) -> Received:
        group_keys = self._group_keys(message.group)
        said: ApplicationMessage | None = (
            unseal(message.body, message.group, group_keys.keys) if group_keys.keys else None
        )
        if said is not None:
            one.said = said.said
            if self._is_said_again(one.said, one.id):
                raise SaidAgain(SAID_AGAIN.format(sender=short(key_text("addr", said.sender))))
        group_keys.causes.recent.note(one.id, message.expiry_min)
        sender, seq, deps, code, body = (
            (None, None, (), None, message.body)
            if said is None
            else (said.sender, said.seq, said.deps, said.code, said.content)
        )
        return Received(
            one.id,
            body,
            message.group,
            None,
            sender,
            seq,
            deps,
            code,
            message.via,
            one.at_s,
            one.redelivered,
            message.seen,
            message.expiry_min,
            without_via(one.wire),
            partial(self.finish, one),
            partial(self.inbox.refuse, one),
        )
