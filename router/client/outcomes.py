"""The outcomes of a published message at the app's own node, recipient by recipient.

A message begins with all recipients `queued`, and each recipient comes to one of the states in `TERMINAL`. Where the
node gives no names, a number of recipients stands for them.
"""

from __future__ import annotations

from collections import deque

import trio

from router.client.interrupts import uninterrupted
from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.link_items import Outcome, RecipientOutcome
from router.core.wire.text import key_text, short

FOLLOWED_MAX = 10_000
TERMINAL = frozenset(("delivered", "acked", "unconfirmed", "expired", "refused", "dropped", "evicted"))
UNREAD_MAX = 16_384


@uninterrupted
class Outcomes:
    """`async for` gives each change of state until all recipients have reached a terminal state.

    The loop also ends when the connection is lost after the message was in custody: its later fate is in the node's
    event log, in the folder `log` of its home, and `complete` is False. `sealed`: nobody on the way can read it.
    """

    def __init__(self, id: MessageId, *, sealed: bool = False) -> None:
        self.id = id
        self.sealed = sealed
        self._states: dict[PublicKey, RecipientOutcome] = {}
        self._numbers: dict[str, int] = {}
        self._unread: deque[RecipientOutcome] = deque(maxlen=UNREAD_MAX)
        self._lot = trio.lowlevel.ParkingLot()
        self._heard = self._cut = False

    def __repr__(self) -> str:
        open_ones = sum(one.state not in TERMINAL for one in self.recipients)
        return f"<outcomes of {self.id.hex()[:12]}…: {len(self.recipients)} recipients, {open_ones} open>"

    def __str__(self) -> str:
        """Return a sentence: the message, and the state of each recipient."""
        found = "; ".join(map(str, self.recipients)) or "no recipient is known"
        return f"message {short(key_text('msg', self.id))}: {found}"

    @property
    def recipients(self) -> list[RecipientOutcome]:
        """Return the present states, one entry per recipient, or numbers by state."""
        numbers = [RecipientOutcome(number, state) for state, number in self._numbers.items() if number]
        return [*self._states.values(), *numbers]

    @property
    def complete(self) -> bool:
        """Whether every recipient has reached a terminal state."""
        return self._heard and all(one.state in TERMINAL for one in self.recipients)

    async def final(self, timeout_s: float | None = None) -> list[RecipientOutcome]:
        """Return all recipients once all are in a terminal state, or their present states after `timeout_s`."""
        with trio.move_on_after(float("inf") if timeout_s is None else timeout_s):
            await trio.lowlevel.checkpoint()
            while not (self.complete or self._cut):
                await self._lot.park()
        return self.recipients

    def __aiter__(self) -> Outcomes:
        return self

    async def __anext__(self) -> RecipientOutcome:
        await trio.lowlevel.checkpoint()
        while not self._unread:
            if self.complete or self._cut:
                raise StopAsyncIteration
            await self._lot.park()
        return self._unread.popleft()

    def hear(self, outcome: Outcome) -> None:
        for one in outcome.recipients:
            if isinstance(one.recipient, int):
                self._count(one.recipient, one.state)
            else:
                self._states[one.recipient] = one
        self._heard = True
        self._unread.extend(outcome.recipients)
        self._lot.unpark_all()

    def _count(self, number: int, state: str) -> None:
        """Add to a state's count; after the first report, recipients that end are taken from the queued ones."""
        if self._heard and state in TERMINAL:
            self._numbers["queued"] = max(0, self._numbers.get("queued", 0) - number)
        self._numbers[state] = self._numbers.get(state, 0) + number

    def cut(self) -> None:
        """End the loop, because no more outcomes will be reported."""
        self._cut = True
        self._lot.unpark_all()


class Followed:
    """The messages whose outcomes a caller waits for: at most `FOLLOWED_MAX`, beyond which the oldest is cut off."""

    def __init__(self) -> None:
        self._by_id: dict[MessageId, Outcomes] = {}

    def __repr__(self) -> str:
        return f"<{len(self._by_id)} messages followed>"

    def follow(self, id: MessageId, *, sealed: bool = False) -> Outcomes:
        while len(self._by_id) >= FOLLOWED_MAX:
            self._by_id.pop(next(iter(self._by_id))).cut()
        outcomes = self._by_id[id] = Outcomes(id, sealed=sealed)
        return outcomes

    def hear(self, outcome: Outcome) -> None:
        outcomes = self._by_id.get(outcome.id)
        if outcomes is not None:
            outcomes.hear(outcome)
            if outcomes.complete:
                del self._by_id[outcome.id]

    def lost(self) -> None:
        """Stop following the messages that the node has taken, since it reports their outcomes on the lost connection
        only."""
        for outcomes in [one for one in self._by_id.values() if one.recipients]:
            self.stop(outcomes)

    def stop(self, outcomes: Outcomes) -> None:
        """Stop following a message that was refused or given up, or whose outcomes can no longer be reported."""
        self._by_id.pop(outcomes.id, None)
        outcomes.cut()
