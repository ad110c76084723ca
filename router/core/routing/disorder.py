"""Queues that were handed over out of order: after a restart of the node, any of their messages may be a repetition.

Messages are handed over in order, so the messages that a link of before a restart may have brought are the first
window of a queue. This does not hold once a stream was held back, since newer messages went past it. A row of the
store tells the next start so, from the transaction that holds the stream back until the queue is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .effects import Pending
from .queues import Queue

DISORDERED = b"o"


class Disorder:
    """Notes the queues that were handed over out of order, each in a row of the book."""

    def __init__(self, pending: Pending) -> None:
        self._pending = pending

    def load(self, rows: Iterable[tuple[bytes, bytes]], queues: Mapping[bytes, Queue]) -> None:
        """Note for the queues in the rows of the store that each of their messages may be repeated; delete the rows of
        queues that are gone."""
        for key, _ in rows:
            if key[:1] == DISORDERED:
                queue = queues.get(key[1:])
                if queue is None:
                    self._pending.changes.book[key] = None
                else:
                    queue.repeats.recovered_out_of_order()

    def began(self, queue: Queue) -> None:
        """Note that messages of the queue go past others from now on."""
        if not queue.repeats.is_disordered:
            queue.repeats.is_disordered = True
            self._pending.changes.book[DISORDERED + queue.recipient] = b""

    def move(self, queue: Queue, to: bytes) -> None:
        """Note it of the key that gets the queue."""
        if queue.repeats.is_disordered:
            self._pending.changes.book[DISORDERED + queue.recipient] = None
            self._pending.changes.book[DISORDERED + to] = b""

    def ended(self, queue: Queue) -> None:
        """Note that the queue is empty."""
        queue.repeats.is_disordered = False
        self._pending.changes.book[DISORDERED + queue.recipient] = None
