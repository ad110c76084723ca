"""Custody of messages on one link: windows, settling and refusals (link layer, "Custody" and "Backpressure").

Messages are numbered from 1 in each direction. The receiver announces a window; unsettled messages must fit it, except
that one message of any allowed size may always be in flight. Messages are counted one by one, bytes by whole writes
and reads: a write's bytes are freed when its last message is settled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import count

from msgspec import Struct

from router.core.wire.reasons import Reason

from .machine import RemoteProtocolError

# A router's own answers are few and small, and may exceed the window by this much.
CONTROL_SLACK_MESSAGES = 64
CONTROL_SLACK_BYTES = 64 * 1024
# The sender counts a message as it stores it; on the wire it gains a VIA and perhaps a longer frame head.
ADDED_BYTES_MAX = 40


class Outgoing(Struct):
    """The messages that we sent and that the peer has not settled."""

    window_messages: int
    window_bytes: int
    sent: int = 0
    settled: int = 0
    bytes_in_flight: int = 0
    _writes: deque[tuple[int, int]] | tuple[()] = ()  # (n of its last message, bytes); an empty deque takes 600 bytes

    @property
    def in_flight(self) -> int:
        return self.sent - self.settled

    def room(self) -> tuple[int, int]:
        """Return how many messages and bytes may be sent now; negative beyond the window."""
        return self.window_messages - self.in_flight, self.window_bytes - self.bytes_in_flight

    def takes_control(self, size: int) -> bool:
        """Whether a message of our own may be sent; it may exceed the window by the slack that the receiver grants."""
        messages, room = self.room()
        fits = messages + CONTROL_SLACK_MESSAGES > 0 and size <= room + CONTROL_SLACK_BYTES
        return fits or not self.in_flight

    def fits(self, ends: Sequence[int], at: int = 0) -> int:
        """Return how many messages from index `at` may be sent now; message i ends at byte `ends[i]` of its parcel."""
        messages, room = self.room()
        start = ends[at - 1] if at else 0
        stop = min(len(ends), at + max(0, messages))
        if stop > at and ends[stop - 1] - start <= room:
            return stop - at
        fitting = 0
        while at + fitting < stop and ends[at + fitting] - start <= room:
            fitting += 1
        return fitting or (1 if at < stop and not self.in_flight else 0)

    def send(self, messages: int, size: int) -> int:
        """Count `messages` with a total of `size` bytes as sent; return the number of the last."""
        self.sent += messages
        self.bytes_in_flight += size
        if not self._writes:
            self._writes = deque()
        self._writes.append((self.sent, size))
        return self.sent

    def send_each(self, sizes: Sequence[int]) -> None:
        """Count messages of these sizes as sent, each freed when it is settled."""
        self._writes = self._writes or deque()
        self._writes.extend(zip(count(self.sent + 1), sizes, strict=False))
        self._writes = self._writes or ()
        self.sent += len(sizes)
        self.bytes_in_flight += sum(sizes)

    def settle(self, n: int) -> int:
        """Count our first `n` messages as settled by the peer; return how many are newly settled."""
        if n < self.settled or n > self.sent:
            text = f"settled {n}, but {self.settled} were settled and {self.sent} sent"
            raise RemoteProtocolError(Reason.MALFORMED, text)
        more, self.settled = n - self.settled, n
        while self._writes and self._writes[0][0] <= n:
            self.bytes_in_flight -= self._writes.popleft()[1]
        self._writes = self._writes or ()
        return more

    def check_refusal(self, k: int) -> None:
        """Raise `RemoteProtocolError` unless message `k`, named by a refusal, was sent and is not settled."""
        if not self.settled < k <= self.sent:
            raise RemoteProtocolError(Reason.MALFORMED, f"refused {k}, which is not in flight")


class Incoming(Struct):
    """The messages that the peer sent and that we have not settled."""

    window_messages: int
    window_bytes: int
    received: int = 0
    settled: int = 0
    bytes_in_flight: int = 0
    _reads: deque[tuple[int, int]] | tuple[()] = ()  # (k of its last message, bytes)
    _freed: int = 0  # k of the last message of the last freed read

    def receive(self, count: int, size: int) -> int:
        """Count `count` messages with a total of `size` bytes as received; return the number of the first."""
        first = self.received + 1
        in_flight = self.received - self.settled + count
        begun = self._reads[0][1] if self._reads and self.settled > self._freed else 0
        bytes_in_flight = self.bytes_in_flight - begun + size
        over = in_flight > self.window_messages + CONTROL_SLACK_MESSAGES
        over = over or bytes_in_flight > self.window_bytes + CONTROL_SLACK_BYTES + in_flight * ADDED_BYTES_MAX
        if over and in_flight > 1:
            text = f"{in_flight} messages, {bytes_in_flight} bytes unsettled; "
            text += f"the window is {self.window_messages} messages, {self.window_bytes} bytes"
            raise RemoteProtocolError(Reason.WINDOW_EXCEEDED, text)
        self.received += count
        self.bytes_in_flight += size
        if not self._reads:
            self._reads = deque()
        self._reads.append((self.received, size))
        return first

    def settle(self, n: int) -> int:
        """Count the peer's first `n` messages as settled by us; return the bytes this frees."""
        freed = 0
        while self._reads and self._reads[0][0] <= n:
            self._freed, size = self._reads.popleft()
            freed += size
        self._reads = self._reads or ()
        self.bytes_in_flight -= freed
        self.settled = max(self.settled, n)
        return freed
