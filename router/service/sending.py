"""A service's messages on their way to the own router: handed in in order, until they are in custody or refused.

Until then the service's state holds them. Copies are followed further, to the next router.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from math import inf
from typing import NamedTuple

import trio
from msgspec import Struct

from router.client.custody.outbox import Submission
from router.client.errors import ClientError, Refused
from router.client.wires import Wires
from router.core.wire.codec import frame
from router.core.wire.crypto import MessageId
from router.core.wire.link_items import Outcome
from router.core.wire.message import message_id
from router.core.wire.reasons import Reason
from router.service import contract as c
from router.service.passing import Copies, copied_to

SENT_MAX, SENT_S = 100, 1.0
"""Number of messages in custody that the state still holds, and seconds after the first of them, at which a transaction
of their own deletes them; before, the next transaction does."""
SAID_S = 60.0
"""Seconds between two sentences in the log about messages that were not sent. The next one counts those between, since
anybody may ask a service for answers that it cannot deliver."""
AT_ONCE = 256
"""Number of messages after which the process's other tasks may run."""

UNKEPT = 0
"""The number of a message that the state does not hold."""


class ToSend(NamedTuple):
    """A message to hand in: its number in the state's outbox, tag and bytes. `ended` is called when it is in custody or
    refused."""

    number: int
    tag: str
    wire: bytes
    ended: Callable[[], None] | None = None


class Sending:
    """Hands in messages. `hear` passes the results of those with a tag to the rules; `wake` asks for a cycle that
    deletes those in custody; `say` logs a sentence; `now_s` is trio's clock."""

    def __init__(
        self,
        hear: Callable[[c.Heard], None],
        wake: Callable[[], None],
        say: Callable[[str], None],
        now_s: Callable[[], float] = trio.current_time,
    ) -> None:
        self._hear = hear
        self._wake = wake
        self._say = say
        self._now_s = now_s
        self._waiting: deque[ToSend] = deque()
        self._work = trio.Event()
        self._sent: list[int] = []
        self.due_s = inf
        """Trio's time from which the state should delete messages; infinity: none is in custody."""
        self._unheard: dict[tuple[str, bytes], list[int]] = {}  # several may be the same to the byte
        self._copies = Copies()
        self._said_s, self._unsaid = -inf, 0

    def __repr__(self) -> str:
        return f"<sending: {len(self._waiting)} wait, {self._copies!r}>"

    def put(self, messages: Iterable[ToSend]) -> None:
        """Hand in these messages, after those that wait."""
        self._waiting += messages
        self._work.set()

    @property
    def is_due(self) -> bool:
        """Whether the state should delete messages that are in custody, though it is not written to otherwise."""
        return len(self._sent) >= SENT_MAX or self.due_s <= self._now_s()

    async def until_due_or(self, work: trio.Event) -> None:
        """Wait until there is other work, or until the state should delete messages."""
        with trio.move_on_at(self.due_s):
            await work.wait()

    def take_sent(self, told: Iterable[c.Sent] = ()) -> list[int]:
        """Return the numbers of messages in custody, or refused, of which the rules have heard; each once. `told`: of
        which they hear in this transaction."""
        for one in told:
            self._was_heard(one)
        sent, self._sent, self.due_s = self._sent, [], inf
        return sent

    async def run(self, wires: Wires) -> None:
        """Hand in waiting messages as soon as there is room, until cancelled."""
        wires.on_outcome = self._passed
        while True:
            await self._work.wait()
            self._work = trio.Event()
            while self._waiting:
                await wires.until_room()
                for _ in range(min(len(self._waiting), AT_ONCE)):
                    if not wires.has_room:
                        break
                    wires.submit(self._next())

    def _next(self) -> Submission:
        number, tag, wire, ended = self._waiting.popleft()
        id = message_id(wire)
        self._copies.expect(id, wire, tag)
        return Submission(frame(wire), _OnItsWay(self, number, tag, id, wire, when_ended=ended))

    def settled(self, one: _OnItsWay) -> None:
        """Record that the router has a message in custody, or has refused it."""
        reason, text = one.refusal or (None, "")
        if reason is not None:
            self._copies.refused(one.id, one.wire)
        is_told = one.tag and (reason is not None or copied_to(one.wire) is None)  # `HopOutcome` tells of a copy
        if is_told and one.number != UNKEPT:
            self._unheard.setdefault((one.tag, one.id), []).append(one.number)
        elif one.number != UNKEPT:
            if not self._sent:
                self.due_s = self._now_s() + SENT_S
            self._sent.append(one.number)
        if is_told:
            self._hear(c.Sent(one.tag, one.id, reason, text))
        elif reason is not None:
            self.not_sent(str(Refused(reason, text, one.id)))
        if one.when_ended is not None:
            one.when_ended()
        if len(self._sent) in (1, SENT_MAX):  # with the first the host learns when they are due
            self._wake()

    def not_sent(self, why: str) -> None:
        """Log that a message was not sent, at most once each `SAID_S`."""
        if (now_s := self._now_s()) < self._said_s + SAID_S:
            self._unsaid += 1
            return
        before = f"; {self._unsaid} more were not sent before it" if self._unsaid else ""
        self._said_s, self._unsaid = now_s, 0
        self._say(f"a message was not sent: {why}{before}")

    def _was_heard(self, sent: c.Sent) -> None:
        """Let the state delete a message, together with what follows from this: after a crash before that, the rules
        hear it again."""
        if numbers := self._unheard.get((sent.tag, sent.id)):
            self._sent.append(numbers.pop(0))
            if not numbers:
                del self._unheard[sent.tag, sent.id]

    def _passed(self, outcome: Outcome) -> None:
        for passed in self._copies.hear(outcome):
            self._hear(passed)


class _OnItsWay(Struct, eq=False):
    """Gets the outcome of one message."""

    sending: Sending
    number: int
    tag: str
    id: MessageId
    wire: bytes
    refusal: tuple[Reason, str] | None = None
    when_ended: Callable[[], None] | None = None

    def refused(self, reason: Reason, text: str) -> None:
        self.refusal = reason, text

    def ended(self) -> None:
        self.sending.settled(self)

    def failed(self, error: ClientError) -> None:
        """Do nothing: the connection is gone for good, and the state still holds the message."""
