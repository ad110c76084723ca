"""The messages that an app has handed in and the node has not settled: order, windows, sending again (pure).

Messages leave in the order in which they were handed in, once per connection. When a connection is lost, the unsettled
ones go to the front again, in their old order and with identical bytes, so that the router finds duplicates by id and
settles them (link layer, "Custody").
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from msgspec import Struct

from router.client.errors import ClientError
from router.core.link.custody import Outgoing
from router.core.routing.parcel import head_bytes
from router.core.wire.codec import FRAME_BYTES_MAX
from router.core.wire.reasons import Reason


class Sink(Protocol):
    """Gets the outcome of a submission."""

    def refused(self, reason: Reason, text: str) -> None:
        """The message was refused; `ended` follows."""

    def ended(self) -> None:
        """The message was settled or refused."""

    def failed(self, error: ClientError) -> None:
        """The node is gone, so nothing more will be reported of this submission."""


class Silent:
    """The sink of a control message that is answered by another message or not at all, so its end means nothing."""

    def refused(self, reason: Reason, text: str) -> None:
        """Do nothing: the router ignores the message, and a caller that waits for an answer gives up."""

    def ended(self) -> None:
        """Do nothing: the router has it."""

    def failed(self, error: ClientError) -> None:
        """Do nothing: the connection is gone, and a caller that waits for an answer gives up."""


class Submission(Struct, eq=False):
    """A frame that was handed in. `again`: send it again after a lost connection; `was_sent`: on some connection."""

    frame: bytes
    sink: Sink
    again: bool = True
    was_sent: bool = False
    is_refused: bool = False


class Outbox:
    """A queue that takes at most `messages_max` and `bytes_max` until some are settled; then it is `full`."""

    def __init__(self, messages_max: int, bytes_max: int) -> None:
        self.messages_max = messages_max
        self.bytes_max = bytes_max
        self.messages = 0
        self.bytes = 0
        self._frame_bytes_max = FRAME_BYTES_MAX
        self._waiting: deque[Submission] = deque()
        self._urgent = 0  # so many of them, from the first on
        self._sent: deque[Submission] = deque()
        self._settled = 0

    def __repr__(self) -> str:
        return f"<outbox of {self.messages} messages, {len(self._sent)} of them sent>"

    @property
    def full(self) -> bool:
        return self.messages >= self.messages_max or self.bytes >= self.bytes_max

    # -- in ------------------------------------------------------------------------------------------------

    def add(self, run: Submission, *, urgent: bool = False) -> None:
        """Queue a submission; an urgent one goes before all waiting ones but those that are urgent."""
        if run.again:
            self.messages += 1
            self.bytes += len(run.frame)
        if urgent:
            self._waiting.insert(self._urgent, run)
            self._urgent += 1
        elif len(run.frame) <= self._frame_bytes_max:
            self._waiting.append(run)
        else:
            self._put_fitting(run)

    def withdraw(self, run: Submission) -> bool:
        """Take back a submission that has never been sent; return whether that was possible."""
        if run.was_sent or run not in self._waiting:
            return False
        self._urgent -= self._waiting.index(run) < self._urgent
        self._waiting.remove(run)
        self._count(run, -1)
        return True

    # -- out -----------------------------------------------------------------------------------------------

    def take(self, outgoing: Outgoing) -> list[bytes]:
        """Return the frames that fit the peer's window now; they count as sent."""
        waiting, parts = self._waiting, list[bytes]()
        messages, room = outgoing.room()
        while waiting and len(parts) < messages:
            run = waiting[0]
            room -= len(run.frame)
            if room < 0 and (parts or outgoing.in_flight):
                break
            self._sent.append(waiting.popleft())
            self._urgent = max(0, self._urgent - 1)
            run.was_sent = True
            parts.append(run.frame)
        outgoing.send_each([*map(len, parts)])
        return parts

    # -- what the router says ------------------------------------------------------------------------------

    def refuse(self, k: int, reason: Reason, text: str) -> None:
        """Mark the connection's `k`-th message as refused."""
        index = k - self._settled - 1
        if 0 <= index < len(self._sent) and not (run := self._sent[index]).is_refused:
            run.is_refused = True
            run.sink.refused(reason, text)

    def settle(self, n: int) -> None:
        """Settle the connection's first `n` messages."""
        sent = self._sent
        while self._settled < n and sent:
            self._settled += 1
            run = sent.popleft()
            if run.again:
                self.messages -= 1
                self.bytes -= len(run.frame)
            run.sink.ended()

    # -- connections come and go ---------------------------------------------------------------------------

    def restart(self, frame_bytes_max: int) -> None:
        """Start a new connection: queue all unsettled messages again, in their old order."""
        self._frame_bytes_max = frame_bytes_max
        for run in self._emptied():
            if run.is_refused:
                self._let_go(run)
            elif run.again:
                self._put_fitting(run)

    def fail(self, error: ClientError) -> int:
        """Give up all messages; return how many had been sent and not settled."""
        in_doubt = sum(run.again for run in self._sent)
        self.messages = self.bytes = 0
        for sink in dict.fromkeys(run.sink for run in self._emptied()):
            sink.failed(error)
        return in_doubt

    def _emptied(self) -> list[Submission]:
        """Forget and return all submissions, in their order."""
        found = [*self._sent, *self._waiting]
        self._sent.clear()
        self._waiting.clear()
        self._settled = self._urgent = 0
        return found

    def _put_fitting(self, run: Submission) -> None:
        """Queue a submission, but refuse a frame so large that this router would close the link."""
        size, limit = len(run.frame), self._frame_bytes_max
        if size - head_bytes(run.frame) <= limit:
            self._waiting.append(run)
            return
        said = f"{size} bytes; this router takes {limit}, its limits.frame_bytes_max"
        run.sink.refused(Reason.TOO_LARGE, said)
        self._let_go(run)

    # -- counting ------------------------------------------------------------------------------------------

    def _let_go(self, run: Submission) -> None:
        self._count(run, -1)
        run.sink.ended()

    def _count(self, run: Submission, sign: int) -> None:
        if run.again:
            self.messages += sign
            self.bytes += sign * len(run.frame)
