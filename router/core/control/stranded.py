"""What waits for uplinks alone while none of them is connected: the pub/sub service is told its ids.

An uplink that dies is noticed after a while. What apps and clients publish meanwhile in groups that nobody here reads
is owed to it alone, and would wait for it though other routers have readers. So a service that is given such messages
while no uplink is connected (`FanOut`) is told of the earlier ones as well, and fetches them for whoever wants them.
They stay owed to the uplink: who has had one knows its id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from router.core.routing.effects import LookAtQueue
from router.core.routing.kernel import Kernel
from router.core.routing.links import Link
from router.core.routing.owed import Owed
from router.core.wire.message import MULTICAST
from router.core.wire.now import Now

from .part import Part
from .published import TOLD_MAX, PublishedIds

ROWS_BYTES = 1 << 40
"""The bytes of messages do not count, as they are not read."""


class QueueRows(Protocol):
    """The part of a store that knows what waits for whom (`router.disk.store.store.Store`)."""

    def fetch(
        self, recipient: bytes, position: int, messages: int, size: int, group: None = None, before: int | None = None
    ) -> tuple[list[Owed], bool]: ...


class Stranded(Part):
    """Reads the queues of uplinks that are away, a thousand messages a second, as far as they were filled before."""

    def __init__(self, kernel: Kernel, published: PublishedIds) -> None:
        self._directory = kernel.directory
        self._links = kernel.links
        self._groups = kernel.groups
        self._queues = kernel.queues
        self._arrivals = kernel.arrivals
        self._pending = kernel.pending
        self._published = published
        self._service: bytes | None = None
        self._before = 0
        """The arrival number at which the last uplink was found to be away; 0: one is connected."""
        self._next: dict[bytes, int] = {}  # by uplink: the arrival number up to which the service was told

    def __repr__(self) -> str:
        return f"<Stranded: messages before {self._before} of {len(self._next)} uplinks>"

    def link_down(self, link: Link, now: Now) -> None:
        """Count from now on: what was published until then may be owed to this uplink alone."""
        if link.key in self._directory.uplinks:
            self._before = 0

    def tick(self, now: Now) -> None:
        """Have the next messages read, if the service is to be told of some."""
        if self._groups.fanning != self._service:
            self._service, self._before = self._groups.fanning, 0
            self._next.clear()
        uplinks = self._directory.uplinks
        if self._service is None or any(self._links.standing_of(one) is not None for one in uplinks):
            self._before = 0
            return
        self._before = self._before or self._arrivals.following
        for uplink in uplinks:
            first, queue = self._next.get(uplink, 0), self._queues.by_recipient.get(uplink)
            if first < self._before and queue is not None and queue.total.messages and self._published.has_room:
                self._pending.effects.append(LookAtQueue(uplink, first, self._before, TOLD_MAX))
                return

    def look(self, asked: LookAtQueue, queues: QueueRows) -> None:
        """Tell the service of those messages that nobody but uplinks is owed."""
        to, position, before, most = asked
        found, more = queues.fetch(to, position, most, ROWS_BYTES, before=before)
        for parcel, start, stop in found:
            is_told = parcel.kind == MULTICAST and parcel.indexed and self._is_of_nobody_else(parcel.recipients)
            if is_told and self._groups.get(parcel.signer, self._service or b"") is None:
                self._published.note(parcel, start, stop)
        if not more:
            self._next[to] = before
        elif found:
            self._next[to] = found[-1].parcel.first + found[-1].stop

    def _is_of_nobody_else(self, recipients: Sequence[bytes]) -> bool:
        return all(one in self._directory.uplinks for one in recipients)
