"""What an app has handed in and the node has not settled: order, windows, sending again (pure).

Everything leaves in the order in which it came in, once per connection. When a connection is lost, what was on it
goes to the front again, in its old order and with identical bytes, so that the router finds duplicates by id and
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
    """Who wants to know what became of a run. Messages have numbers, `run.first` and following."""

    def refused(self, number: int, reason: Reason, text: str) -> None:
        """This one was refused; it is among those that `ended` counts later."""

    def ended(self, count: int) -> None:
        """So many more are in the router's keeping, or refused; in order, but for what a lost connection mixed."""

    def failed(self, error: ClientError) -> None:
        """Nothing more will be heard of this run: the node is gone."""


@dataclass(slots=True, eq=False)
class Submission:
    """Frames that were handed in together. `again`: after a lost connection they are sent once more.

    `at` is how many of them are on the present connection, `tries` on how many connections they were.
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
    """Messages start..stop-1 of a run; the last of them is the connection's n-th."""

    n: int
    run: Submission
    start: int
    stop: int


class Outbox:
    """At most `messages_max` and `bytes_max` are taken in before the first is settled; then `full` says so."""

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
        """Hand in a run; an urgent one overtakes what waits."""
        self._count(run, 1)
        if urgent:
            self._waiting.appendleft(run)
        else:
            self._put_fitting(run)

    def withdraw(self, run: Submission) -> bool:
        """Take back a run of which nothing has ever been sent; whether that was possible."""
        if run.tries or run not in self._waiting:
            return False
        self._waiting.remove(run)
        self._count(run, -1)
        return True

    # -- out -----------------------------------------------------------------------------------------------

    def take(self, outgoing: Outgoing) -> list[bytes]:
        """The frames that fit the peer's window now; they count as sent."""
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
        """The connection's k-th message was refused. Refusals come in order, so the search is short."""
        for n, run, start, stop in self._flights:
            if k <= n:
                index = stop - 1 - (n - k)
                if index >= start and index not in run.refused:
                    run.refused.add(index)
                    run.sink.refused(run.first + index, reason, text)
                return

    def settle(self, n: int) -> None:
        """The connection's first `n` are settled."""
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
        """A new connection: what is unsettled is to be sent (again), in its old order."""
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
        """Give everything up; returns how many messages had been sent and not settled."""
        flown, self._flights = self._flights, deque()
        waiting, self._waiting = self._waiting, deque()
        in_doubt = sum(stop - start for _, run, start, stop in flown if run.again)
        self.messages = self.bytes = 0
        for sink in dict.fromkeys([flight.run.sink for flight in flown] + [run.sink for run in waiting]):
            sink.failed(error)
        return in_doubt

    def _put_pieces(self, run: Submission, start: int, stop: int) -> None:
        """What is left of messages start..stop-1 without the refused ones, as runs of their own."""
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
        """Queue it. A frame so large that this router would close the link is refused here instead."""
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
