"""An app's loops over received messages: `async for` settles a message when it asks for the next one.

With a journal it is settled once the journal has it on disk, for which a loop does not wait: the messages it moves on
from are gathered, and one sync writes all that wait. `Received.settle` does wait.
"""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from functools import partial

import trio

from router.client.composer import RecentIds
from router.client.custody.arrivals import Arrival
from router.client.custody.inbox import Inbox
from router.client.errors import NOT_BEGUN, ClientError
from router.client.journal import Journal, Row
from router.client.received import Received
from router.client.said import Said
from router.client.undeliverable import UNSEALED, Undeliverable
from router.core.wire.application import ApplicationMessage, SealError, content_key_id, unseal
from router.core.wire.codec import Malformed
from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.lifetime import expiry_s
from router.core.wire.message import Multicast, Unicast, open_message, verify_message, without_via
from router.core.wire.reasons import Reason
from router.core.wire.text import key_text, short

SAID_AGAIN = "a member of the group sent again what {sender} had said; this app was given it once"
SAID_KEEP_S = 30 * 86_400
"""How long a journal remembers members' signed words, because a sender who repeats them chooses another expiry."""
CHECKPOINT_EVERY = 16  # messages that a loop gets in a row before other tasks may run


class SaidAgain(Exception):
    """A member's signed words came before, in another message."""


class GroupKeys:
    """How to read one group: the keys that open its bodies (none: they are unsealed), and its causes."""

    def __init__(self, content_key: bytes | None, causes: RecentIds) -> None:
        self.keys: Mapping[bytes, bytes] = {} if content_key is None else {content_key_id(content_key): content_key}
        self.causes = causes


class Readers:
    """Hand out messages to loops and settle them. `group_keys` finds the keys of a group; `problem` gets sentences
    about messages that cannot be given to the app, which are settled all the same."""

    def __init__(
        self,
        group_keys: Callable[[PublicKey], GroupKeys],
        problem: Callable[[str], None],
        wall_s: Callable[[], float],
        *,
        verify: bool,
    ) -> None:
        self._group_keys = group_keys
        self._problem = problem
        self._undeliverable = Undeliverable(problem, wall_s)
        self._wall_s = wall_s
        self._verify = verify
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

    async def wait(self) -> None:
        """Wait until a message may have come. Raise the error that ended the connection, or `StopAsyncIteration`."""
        if self._ended is not None:
            raise self._ended
        if self._is_over:
            raise StopAsyncIteration
        if self.journal is not None:
            self.journal.check()
        await self._lot.park()

    def known(self, ids: Sequence[MessageId]) -> Collection[MessageId]:
        """Return the ids among `ids` that the journal has as handled."""
        return () if self.journal is None else self.journal.known(ids)

    async def finish(self, one: Arrival) -> None:
        """Write a handled message into the journal, if there is one, then settle it."""
        if one.done:
            return
        if self.journal is not None:
            await self.journal.remember(self._rows(one))
        self.inbox.done(one)

    def move_on(self, one: Arrival) -> None:
        """Settle a message that a loop has handled without waiting: with a journal, once its next commit is on disk."""
        if self.journal is None:
            self.inbox.done(one)
        elif not one.done:
            self.journal.check()
            self.journal.gather(self._rows(one), partial(self.inbox.done, one))

    async def leave(self) -> None:
        """Write the messages that loops have moved on from, at the end; the node redelivers those that cannot be
        written."""
        if self.journal is not None:
            with trio.CancelScope(shield=True):
                try:
                    await self.journal.flush()
                except ClientError as error:
                    self._problem(error.text)

    def _rows(self, one: Arrival) -> list[Row]:
        until_s = expiry_s(one.header.expiry_min)
        if one.said is None:
            return [(one.id, until_s)]
        return [(one.id, until_s), (one.said, max(until_s, int(self._wall_s()) + SAID_KEEP_S))]

    # -- opening -------------------------------------------------------------------------------------------

    def open(self, one: Arrival) -> Received | None:
        """Open a message for the app; return None if it cannot be given to it, which is reported.

        One that this app cannot read is refused, so that its outcome says so. Words that came before, in another
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
            one.id, message.body, None, source, source, None, (), None, message.via, one.at_s, one.redelivered, (),
            message.expiry_min, without_via(one.wire), partial(self.finish, one), partial(self.inbox.refuse, one),
        )  # fmt: skip

    def _is_said_again(self, said: MessageId, message: MessageId) -> bool:
        """Whether another message brought these words before."""
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
        group_keys.causes.note(one.id, message.expiry_min)
        sender, seq, deps, code, body = (
            (None, None, (), None, message.body) if said is None
            else (said.sender, said.seq, said.deps, said.code, said.content)
        )  # fmt: skip
        return Received(
            one.id, body, message.group, None, sender, seq, deps, code, message.via, one.at_s, one.redelivered,
            message.seen, message.expiry_min, without_via(one.wire), partial(self.finish, one),
            partial(self.inbox.refuse, one),
        )  # fmt: skip


class Hand:
    """The message that a loop holds."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held: Arrival | None = None


class Reader:
    """The loops over one address. A message held by an abandoned loop is settled when the next loop asks."""

    def __init__(self, readers: Readers, address: bytes | None) -> None:
        self._readers = readers
        self._address = address
        self._hands: list[tuple[weakref.ref[Messages], Hand]] = []

    def loop(self, *, settle_on_next: bool = True) -> Messages:
        hand = Hand()
        left = [old for ref, old in self._hands if ref() is None and old.held is not None]
        loop = Messages(self._readers, self._address, hand, left, settle_on_next=settle_on_next)
        alive = [(ref, old) for ref, old in self._hands if ref() is not None]
        self._hands = [*alive, (weakref.ref(loop), hand)]
        return loop

    def held(self) -> list[Arrival]:
        """Return the messages that loops have in hand, neither settled nor refused."""
        return [hand.held for _, hand in self._hands if hand.held is not None and not hand.held.done]


class Messages(AsyncIterator[Received]):
    """One loop over messages. Several loops over the same group share its messages: each goes to one of them."""

    def __init__(
        self, readers: Readers, address: bytes | None, hand: Hand, left: list[Hand], *, settle_on_next: bool
    ) -> None:
        self._readers = readers
        self._address = address
        self._hand = hand
        self._left = left
        self._settle_on_next = settle_on_next
        self._in_a_row = 0

    def __aiter__(self) -> Messages:
        return self

    async def __anext__(self) -> Received:
        await self._let_go()
        readers, inbox = self._readers, self._readers.inbox
        while True:
            one = inbox.take(self._address)
            self._in_a_row += 1
            if one is None:
                self._in_a_row = 0
                await readers.wait()
                continue
            received = readers.open(one)
            if received is None:
                readers.move_on(one)
                continue
            self._hand.held = one if self._settle_on_next else None
            return received

    async def _let_go(self) -> None:
        """Settle the messages that this loop, or an abandoned one, held."""
        for hand in (*self._left, self._hand):
            if hand.held is not None:
                self._readers.move_on(hand.held)
                hand.held = None
        self._left = []
        if self._in_a_row >= CHECKPOINT_EVERY:
            self._in_a_row = 0
            await trio.lowlevel.checkpoint()
