"""What became of a published message here, recipient by recipient, as the router tells it.

A message begins with what is owed to whom (`queued`), and each recipient comes to one of the states in `TERMINAL`.
Where the node tells no names, a recipient is a number: how many are meant.
"""

from __future__ import annotations

from collections import deque

import trio

from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.link_items import Outcome, RecipientOutcome

FOLLOWED_MAX = 10_000
TERMINAL = frozenset(("delivered", "acked", "unconfirmed", "expired", "refused", "dropped", "evicted"))
UNREAD_MAX = 16_384


class Outcomes:
    """`async for` gives every word about the message until all its recipients have come to an end.

    The words also end when the connection is lost after the message was taken: what became of it from then on is in
    the node's event log, in the folder `log` of its home, and `complete` says False.
    """

    def __init__(self, id: MessageId) -> None:
        self.id = id
        self._states: dict[PublicKey, RecipientOutcome] = {}
        self._numbers: dict[str, int] = {}
        self._unread: deque[RecipientOutcome] = deque(maxlen=UNREAD_MAX)
        self._lot = trio.lowlevel.ParkingLot()
        self._heard = self._cut = False

    def __repr__(self) -> str:
        open_ones = sum(one.state not in TERMINAL for one in self.recipients)
        return f"<outcomes of {self.id.hex()[:12]}…: {len(self.recipients)} recipients, {open_ones} open>"

    @property
    def recipients(self) -> list[RecipientOutcome]:
        """What is known now: one per recipient, or numbers by state."""
        numbers = [RecipientOutcome(number, state) for state, number in self._numbers.items() if number]
        return [*self._states.values(), *numbers]

    @property
    def complete(self) -> bool:
        """Whether every recipient has come to an end."""
        return self._heard and all(one.state in TERMINAL for one in self.recipients)

    async def final(self, timeout_s: float | None = None) -> list[RecipientOutcome]:
        """All recipients, when all have come to an end, or what is known after `timeout_s`."""
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
        """After the first word, those who come to an end were among the queued ones before."""
        if self._heard and state in TERMINAL:
            self._numbers["queued"] = max(0, self._numbers.get("queued", 0) - number)
        self._numbers[state] = self._numbers.get(state, 0) + number

    def cut(self) -> None:
        """Nothing more will be heard."""
        self._cut = True
        self._lot.unpark_all()


class Followed:
    """The messages whose outcomes somebody waits for: at most `FOLLOWED_MAX`, then the oldest is cut."""

    def __init__(self) -> None:
        self._by_id: dict[MessageId, Outcomes] = {}

    def __repr__(self) -> str:
        return f"<{len(self._by_id)} messages followed>"

    def follow(self, id: MessageId) -> Outcomes:
        while len(self._by_id) >= FOLLOWED_MAX:
            self._by_id.pop(next(iter(self._by_id))).cut()
        outcomes = self._by_id[id] = Outcomes(id)
        return outcomes

    def hear(self, outcome: Outcome) -> None:
        outcomes = self._by_id.get(outcome.id)
        if outcomes is not None:
            outcomes.hear(outcome)
            if outcomes.complete:
                del self._by_id[outcome.id]

    def lost(self) -> None:
        """The connection is lost: a node tells the outcomes of what it has taken to that connection alone."""
        for outcomes in [one for one in self._by_id.values() if one.recipients]:
            self.stop(outcomes)

    def stop(self, outcomes: Outcomes) -> None:
        """Its message was refused or given up, or nothing can be heard of it any more."""
        self._by_id.pop(outcomes.id, None)
        outcomes.cut()
