"""The messages that an app has handed in and the node has not settled: order, windows, sending again (pure).

Messages leave in the order in which they were handed in, once per connection. When a connection is lost, the unsettled
ones go to the front again, in their old order and with identical bytes, so that the router finds duplicates by id and
settles them (link layer, "Custody").
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple, Protocol

from router.client.errors import ClientError
from router.core.link.custody import Outgoing
from router.core.routing.parcel import head_bytes
from router.core.wire.codec import FRAME_BYTES_MAX
from router.core.wire.reasons import Reason


class Sink(Protocol):
    """Gets the outcome of a submission. Its messages are numbered from `run.first`."""

    def refused(self, number: int, reason: Reason, text: str) -> None:
        """One message was refused; it is included in a later `ended`."""

    def ended(self, count: int) -> None:
        """`count` more messages were settled or refused, in order except after a reconnect."""

    def failed(self, error: ClientError) -> None:
        """The node is gone, so nothing more will be reported of this submission."""


@dataclass(slots=True, eq=False)
class Submission:
    """Frames that were handed in together. `again`: send them again after a lost connection.

    `at`: how many of them are on the present connection; `tries`: on how many connections they have been.
    """

    frames: Sequence[bytes]
    sink: Sink
    first: int = 0
    again: bool = True
    at: int = 0
    tries: int = 0
    ends: list[int] = field(init=False)
    refused: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.ends = list(accumulate(map(len, self.frames)))

    def size(self, start: int, stop: int) -> int:
        return self.ends[stop - 1] - (self.ends[start - 1] if start else 0)


class Flight(NamedTuple):
    """Messages start..stop-1 of a submission; the last of them is the connection's n-th."""

    n: int
    run: Submission
    start: int
    stop: int


class Outbox:
    """A queue that takes at most `messages_max` and `bytes_max` before the first is settled; then it is `full`."""

    def __init__(self, messages_max: int, bytes_max: int) -> None:
        self.messages_max = messages_max
        self.bytes_max = bytes_max
        self.messages = 0
        self.bytes = 0
        self._frame_bytes_max = FRAME_BYTES_MAX
        self._waiting: deque[Submission] = deque()
        self._flights: deque[Flight] = deque()

    def __repr__(self) -> str:
        return f"<outbox of {self.messages} messages, {len(self._flights)} flights out>"

    @property
    def full(self) -> bool:
        return self.messages >= self.messages_max or self.bytes >= self.bytes_max

    # -- in ------------------------------------------------------------------------------------------------

    def add(self, run: Submission, *, urgent: bool = False) -> None:
        """Queue a submission; an urgent one goes before all that wait."""
        self._count(run, 1)
        if urgent:
            self._waiting.appendleft(run)
        else:
            self._put_fitting(run)

    def withdraw(self, run: Submission) -> bool:
        """Take back a submission of which nothing has ever been sent; return whether that was possible."""
        if run.tries or run not in self._waiting:
            return False
        self._waiting.remove(run)
        self._count(run, -1)
        return True

    # -- out -----------------------------------------------------------------------------------------------

    def take(self, outgoing: Outgoing) -> list[bytes]:
        """Return the frames that fit the peer's window now; they count as sent."""
        parts: list[bytes] = []
        while self._waiting:
            run = self._waiting[0]
            count = outgoing.fits(run.ends, run.at)
            if not count:
                break
            start, stop = run.at, run.at + count
            n = outgoing.send(count, run.size(start, stop))
            self._flights.append(Flight(n, run, start, stop))
            parts += run.frames[start:stop]
            run.tries += not start
            run.at = stop
            if stop == len(run.frames):
                self._waiting.popleft()
        return parts

    # -- what the router says ------------------------------------------------------------------------------

    def refuse(self, k: int, reason: Reason, text: str) -> None:
        """Mark the connection's `k`-th message as refused. Refusals come in order, so the search is short."""
        for n, run, start, stop in self._flights:
            if k <= n:
                index = stop - 1 - (n - k)
                if index >= start and index not in run.refused:
                    run.refused.add(index)
                    run.sink.refused(run.first + index, reason, text)
                return

    def settle(self, n: int) -> None:
        """Settle the connection's first `n` messages."""
        flights = self._flights
        while flights and flights[0].n - (flights[0].stop - flights[0].start) < n:
            last, run, start, stop = flights[0]
            reached = stop - max(0, last - n)
            if reached == stop:
                flights.popleft()
            else:
                flights[0] = Flight(last, run, reached, stop)
            self._let_go(run, start, reached)

    # -- connections come and go ---------------------------------------------------------------------------

    def restart(self, frame_bytes_max: int) -> None:
        """Start a new connection: queue all unsettled messages again, in their old order."""
        self._frame_bytes_max = frame_bytes_max
        flown, self._flights = self._flights, deque()
        waiting, self._waiting = self._waiting, deque()
        for _, run, start, stop in flown:
            if run.again:
                self._put_pieces(run, start, stop)
        for run in waiting:
            if run.again and run.at:
                self._put_pieces(run, run.at, len(run.frames))
            elif run.again:
                self._put_fitting(run)

    def fail(self, error: ClientError) -> int:
        """Give up all messages; return how many had been sent and not settled."""
        flown, self._flights = self._flights, deque()
        waiting, self._waiting = self._waiting, deque()
        in_doubt = sum(stop - start for _, run, start, stop in flown if run.again)
        self.messages = self.bytes = 0
        for sink in dict.fromkeys([flight.run.sink for flight in flown] + [run.sink for run in waiting]):
            sink.failed(error)
        return in_doubt

    def _put_pieces(self, run: Submission, start: int, stop: int) -> None:
        """Queue messages start..stop-1 without the refused ones again, as separate submissions."""
        if stop - start == len(run.frames) and not run.refused:
            run.at = 0
            self._put_fitting(run)
            return
        at = start
        for hole in [*sorted(one for one in run.refused if start <= one < stop), stop]:
            if at < hole:
                piece = Submission(run.frames[at:hole], run.sink, run.first + at, run.again, tries=run.tries)
                self._put_fitting(piece)
            if hole < stop:
                self._let_go(run, hole, hole + 1)
            at = hole + 1

    def _has_too_large(self, run: Submission) -> bool:
        longest = max(run.frames, key=len)
        return len(longest) - head_bytes(longest) > self._frame_bytes_max

    def _put_fitting(self, run: Submission) -> None:
        """Queue a submission, but refuse a frame so large that this router would close the link."""
        if not self._has_too_large(run):
            self._waiting.append(run)
            return
        limit = self._frame_bytes_max
        for index, frame in enumerate(run.frames):
            if len(frame) - head_bytes(frame) > limit:
                said = f"{len(frame)} bytes; this router takes {limit}, its limits.frame_bytes_max"
                run.sink.refused(run.first + index, Reason.TOO_LARGE, said)
                self._let_go(run, index, index + 1)
            else:
                self._waiting.append(Submission((frame,), run.sink, run.first + index, run.again, tries=run.tries))

    # -- counting ------------------------------------------------------------------------------------------

    def _let_go(self, run: Submission, start: int, stop: int) -> None:
        self._count_range(run, start, stop, -1)
        run.sink.ended(stop - start)

    def _count(self, run: Submission, sign: int) -> None:
        self._count_range(run, 0, len(run.frames), sign)

    def _count_range(self, run: Submission, start: int, stop: int, sign: int) -> None:
        if run.again and start < stop:
            self.messages += sign * (stop - start)
            self.bytes += sign * run.size(start, stop)
