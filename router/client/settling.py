"""Settling the messages that an app has handled: at once, or with a journal when it has them on disk.

A loop does not wait for the disk: handled messages are gathered, and one sync writes all of them. `Received.settle`
does wait.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf

import trio

from router.client.custody.arrivals import Arrival
from router.client.custody.inbox import Inbox
from router.client.errors import ClientError, JournalError
from router.client.interrupts import uninterrupted
from router.client.journal import Journal, Row
from router.client.said import SAID_KEEP_S
from router.client.senders import GroupKeys
from router.core.wire.crypto import PublicKey
from router.core.wire.lifetime import expiry_s
from router.core.wire.reasons import Reason

SAY_AGAIN_S = 60.0
"""Least seconds between two sentences that the state cannot be written."""


@uninterrupted
class Settling:
    """Settles and refuses the messages of an inbox. `group_keys` finds the causes of a group's next message, which the
    journal keeps; `problem` gets sentences on what cannot be written while there is no journal."""

    def __init__(
        self,
        inbox: Inbox,
        journal: Journal,
        group_keys: Callable[[PublicKey], GroupKeys],
        wall_s: Callable[[], float],
        problem: Callable[[str], object],
    ) -> None:
        self._inbox = inbox
        self._journal = journal
        self._group_keys = group_keys
        self._wall_s = wall_s
        self._problem = problem
        self._told_s = -inf

    def __repr__(self) -> str:
        return f"<settling in {self._inbox!r}, {self._journal!r}>"

    async def finish(self, one: Arrival) -> None:
        """Write a handled message into the journal, if there is one, then settle it."""
        if one.done:
            return
        if self._journal.is_open:
            self._keep_heads(one)
            await self._journal.remember(self._rows(one))
        self._inbox.done(one)

    def move_on(self, one: Arrival) -> None:
        """Settle a message that a loop has handled without waiting: with a journal, once its next commit is on disk."""
        if not self._journal.is_open:
            self._inbox.done(one)
        elif not one.done:
            self._journal.check()
            self._keep_heads(one)
            self._journal.gather(self._rows(one), partial(self._inbox.done, one))

    def check(self) -> None:
        """Raise, once, the error that kept the journal from writing; see `Journal.check`. Without a journal nothing
        that a loop has handled waits for the disk, so the loop goes on, and the error is told."""
        try:
            self._journal.check()
        except JournalError as error:
            if self._journal.is_open:
                raise
            if self._wall_s() - self._told_s >= SAY_AGAIN_S:
                self._told_s = self._wall_s()
                self._problem(f"{error}; until then messages are given all the same")

    def refuse(self, one: Arrival, reason: Reason, text: str) -> None:
        """Refuse a message; see `Inbox.refuse`."""
        self._inbox.refuse(one, reason, text)

    async def leave(self, problem: Callable[[str], None]) -> None:
        """Write the messages that loops have handled, at the end; those that cannot be written come again, and
        `problem` gets the reason."""
        async with trio.open_nursery() as nursery:  # a task of its own, which Ctrl-C does not interrupt
            nursery.start_soon(self._flush, problem)

    async def _flush(self, problem: Callable[[str], None]) -> None:
        with trio.CancelScope(shield=True):
            try:
                await self._journal.flush()
            except ClientError as error:
                problem(error.text)

    def _keep_heads(self, one: Arrival) -> None:
        """Have the journal's next commit write the causes that the next message to this group will then name."""
        if one.said is not None:
            group = PublicKey(one.address)
            self._journal.keep_heads(group, self._group_keys(group).causes.heads.lasting)

    def _rows(self, one: Arrival) -> list[Row]:
        until_s = expiry_s(one.header.expiry_min)
        if one.said is None:
            return [(one.id, until_s)]
        return [(one.id, until_s), (one.said, max(until_s, int(self._wall_s()) + SAID_KEEP_S))]
