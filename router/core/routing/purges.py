"""Queues that have ended: their messages are dropped in steps, which continue after a crash."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from router.core.log import events as ev
from router.core.wire.message import MULTICAST
from router.core.wire.now import Now

from .kernel import Kernel
from .parcel import Parcel


class Purge(NamedTuple):
    """An ended queue, or one group's part of it, whose messages are to be read and passed to `Router.drop`.

    Messages from the arrival number `before` on came after the end, and stay.
    """

    recipient: bytes
    group: bytes | None
    before: int


class Purges:
    """One purge for each queue that ended and is not yet empty; a later purge of a queue replaces the earlier.

    Each is committed with the change that ended the queue, and removed with the last message that it drops.
    """

    def __init__(self, kernel: Kernel, recovered: Iterable[Purge]) -> None:
        self._me = kernel.directory.me
        self._queues = kernel.queues
        self._arrivals = kernel.arrivals
        self._pending = kernel.pending
        self._before = {(one.recipient, one.group): one.before for one in recovered}

    def __repr__(self) -> str:
        return f"<{len(self._before)} queues to clear>"

    def __bool__(self) -> bool:
        return bool(self._before)

    def begin(self, clear: Purge) -> None:
        key = clear.recipient, clear.group
        self._before[key] = self._pending.changes.purges[key] = clear.before

    def queue_ends(self, recipient: bytes, group: bytes | None) -> None:
        """Begin to drop a recipient's queue, or one group's part of it; a queue that holds nothing is forgotten."""
        queue = self._queues.by_recipient.get(recipient)
        if queue is not None and queue.total.messages and (group is None or queue.owes(group)):
            self.begin(Purge(recipient, group, self._arrivals.following))
        self._queues.forget_if_empty(recipient)

    def ordered(self, recipient: bytes, now: Now) -> None:
        """Begin to drop a recipient's queue by the operator's order, and log it."""
        self.queue_ends(recipient, None)
        self._pending.changes.events.append(ev.by_router(self._me, ev.QUEUE_DROPPED, (("peer", recipient),), now))

    def move(self, recipient: bytes, to: bytes) -> None:
        """Go on to drop, of another key's queue, what was to be dropped of this recipient's."""
        for one, group in [*self._before]:
            if one == recipient:
                before = self._before[one, group]
                self.done(Purge(one, group, before))
                self.begin(Purge(to, group, before))

    def next(self) -> Purge | None:
        """Return the oldest purge, or None."""
        return next((Purge(*key, before) for key, before in self._before.items()), None)

    def done(self, clear: Purge) -> None:
        """Remove a purge whose messages have all been dropped."""
        key = clear.recipient, clear.group
        if self._before.get(key) == clear.before:
            del self._before[key]
            self._pending.changes.purges[key] = None

    def covers(self, recipient: bytes, parcel: Parcel) -> bool:
        """Whether the parcel will be dropped by a purge, and must not be handed over any more."""
        group = parcel.signer if parcel.kind == MULTICAST else None
        before = max(self._before.get((recipient, None), 0), self._before.get((recipient, group), 0))
        return parcel.first < before
