"""The room for a message: on the disk, in the duplicate index, at the node, and in the queues of its recipients."""

from __future__ import annotations

from typing import NamedTuple

from router.core.neighbours.directory import Standing
from router.core.wire.reasons import Reason

from .intake import ArrivedMessage
from .kernel import Kernel
from .links import Link

LeftOut = tuple[tuple[bytes, Reason], ...]
"""Recipients that a message is not owed to after all, each with the reason."""


class Room(NamedTuple):
    """The recipients of a plan that have room, the smallest room among them, and the recipients left out, with
    reasons."""

    recipients: tuple[bytes, ...]
    messages: int
    size: int
    full: LeftOut


class Rooms:
    """Measures the room."""

    def __init__(self, kernel: Kernel) -> None:
        self._directory = kernel.directory
        self._queues = kernel.queues
        self._index = kernel.index
        self._disk_full = False
        self._is_closed = False

    def set_disk_full(self, full: bool) -> None:
        """Record whether the disk has no room, as the node sees before each decision."""
        self._disk_full = full

    def set_closed(self, closed: bool) -> None:
        """Record whether there is room for nothing, as this node is a barred copy (`control/node_copies.py`)."""
        self._is_closed = closed

    def of(self, link: Link, row: ArrivedMessage, plan: tuple[bytes, ...]) -> tuple[Room, Reason | None]:
        """Return the recipients with room, or the reason to refuse: no recipient has room, or an uplink has none."""
        size = row.end - row.frame_at
        messages, most, reason = self._queues.node_room(None if link.standing is Standing.LOCAL else link.charged, size)
        if (unable := self.unable(link)) is not None:
            return Room((), 0, 0, ()), unable
        messages = min(messages, self._index.room(link.holder))
        if messages < 1 or most < size:
            return Room((), 0, 0, ()), reason
        able, full = [], []
        uplinks = self._directory.uplinks
        for recipient in plan:
            its_messages, its_bytes, why = self._queues.room(recipient, row.head.signer, link.charged, size)
            if its_messages < 1 or its_bytes < size:
                if recipient in uplinks:
                    return Room((), 0, 0, ()), why
                full.append((recipient, why))
                continue
            able.append(recipient)
            messages, most = min(messages, its_messages), min(most, its_bytes)
        return Room(tuple(able), messages, most, tuple(full)), None if able else full[0][1]

    def unable(self, link: Link) -> Reason | None:
        """Return why nothing at all is taken of a link now, or None."""
        if self._is_closed:
            return Reason.COPIED
        if self._disk_full:
            return Reason.DISK_FULL
        return Reason.INDEX_FULL if self._index.room(link.holder) < 1 else None
