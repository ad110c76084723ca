"""Streams of a queue that wait because the next router, or an app, refused something of them for now.

A refusal holds back no more than it concerns: what has the same signer, and as unicast the same destination, for only
within that does order matter. What is wrong with the whole node there concerns its whole queue instead.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from router.core.wire.reasons import Reason

OF_THE_NODE = frozenset((Reason.QUEUE_FULL_NODE, Reason.DISK_FULL, Reason.SHUTDOWN))

Stream = tuple[bytes, bytes | None]
"""A signer, and of unicasts the destination."""


@dataclass(slots=True)
class Hold:
    """From arrival `first` on, not before `retry_at` (monotonic seconds); 0: it is being tried again."""

    first: int
    retry_at: float
    pause_s: float


class StreamBackoff:
    """At most `streams_max`; one stream more, and the caller must hold back the whole queue. Empty is falsy."""

    __slots__ = ("_holds",)

    def __init__(self) -> None:
        self._holds: dict[Stream, Hold] = {}

    def __repr__(self) -> str:
        return f"<{len(self._holds)} streams that were refused for now>"

    def __bool__(self) -> bool:
        return bool(self._holds)

    def holds_back(self, stream: Stream) -> bool:
        hold = self._holds.get(stream)
        return hold is not None and hold.retry_at > 0

    def retry_at(self, stream: Stream) -> float:
        """The monotonic second from which the stream is tried again; 0: it is not held back."""
        hold = self._holds.get(stream)
        return hold.retry_at if hold is not None else 0.0

    def passes_over(self, stream: Stream, arrival: int) -> bool:
        """The same for a message that comes from the queue: if it stays there, it is not forgotten."""
        if not self.holds_back(stream):
            return False
        hold = self._holds[stream]
        hold.first = min(hold.first, arrival)
        return True

    def refuse(
        self, stream: Stream, arrival: int, now_s: float, pause_s: tuple[float, float], streams_max: int
    ) -> bool:
        """Hold the stream back from `arrival` on, twice as long as the last time within `pause_s`; one pause for all
        that is refused before it is over. Whether there was room for it."""
        hold = self._holds.get(stream)
        if hold is None and len(self._holds) >= streams_max:
            return False
        if hold is not None and hold.retry_at:
            hold.first = min(hold.first, arrival)
            return True
        pause = longer(hold.pause_s if hold is not None else 0.0, *pause_s)
        self._holds[stream] = Hold(arrival, now_s + pause, pause)
        return True

    def due(self, now_s: float, flying: Container[Stream] = ()) -> int | None:
        """Try again the streams whose pause is over and of which nothing is in flight, for that may be refused yet;
        the arrival to begin from, None if there is none."""
        streams = self._holds.items()
        over = [hold for stream, hold in streams if 0 < hold.retry_at <= now_s and stream not in flying]
        for hold in over:
            hold.retry_at = 0.0
        return min((hold.first for hold in over), default=None)

    def took(self, stream: Stream) -> None:
        """Something of the stream was taken: the next pause is a short one again."""
        hold = self._holds.get(stream)
        if hold is not None:
            hold.pause_s = 0.0
            if not hold.retry_at:
                del self._holds[stream]

    def forget(self, stream: Stream) -> None:
        """Nothing of the stream is owed any more."""
        self._holds.pop(stream, None)

    def clear(self) -> None:
        self._holds.clear()


def longer(pause_s: float, least_s: float, most_s: float) -> float:
    """The pause after this one."""
    return min(max(pause_s * 2, least_s), most_s)
