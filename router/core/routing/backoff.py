"""Back-off of single streams of a queue, after the next router or an app refused one of their messages for now.

A refusal holds back only the messages of the same signer and, for unicasts, the same destination, within which alone
order matters. A reason that concerns the whole node (`OF_THE_NODE`) holds back the whole queue instead.
"""

from __future__ import annotations

from collections.abc import Container

from msgspec import Struct

from router.core.wire.reasons import Reason

OF_THE_NODE = frozenset((Reason.QUEUE_FULL_NODE, Reason.DISK_FULL, Reason.SHUTDOWN))

Stream = tuple[bytes, bytes | None]
"""A signer, and for unicasts the destination."""


class Hold(Struct):
    """A stream held back from the arrival number `first` on until `retry_at` (monotonic seconds; 0: it is being
    retried)."""

    first: int
    retry_at: float
    pause_s: float


class StreamBackoff:
    """The streams held back, at most `streams_max`; for a further one the caller must hold back the whole queue."""

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
        """Return the monotonic second from which the stream is retried; 0 if it is not held back."""
        hold = self._holds.get(stream)
        return hold.retry_at if hold is not None else 0.0

    def passes_over(self, stream: Stream, arrival: int) -> bool:
        """Whether a message read from the queue is held back; if so, remember its arrival number for the next try."""
        if not self.holds_back(stream):
            return False
        hold = self._holds[stream]
        hold.first = min(hold.first, arrival)
        return True

    def refuse(
        self, stream: Stream, arrival: int, now_s: float, pause_s: tuple[float, float], streams_max: int
    ) -> bool:
        """Hold the stream back from `arrival` on; return whether there was room for it.

        Each pause is twice the last one, within `pause_s` (least, most); refusals during a pause do not extend it."""
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
        """Release the streams whose pause is over; return the arrival number to begin from, None without any.

        Streams with messages in flight (`flying`) are not released, as these may still be refused."""
        streams = self._holds.items()
        over = [hold for stream, hold in streams if 0 < hold.retry_at <= now_s and stream not in flying]
        for hold in over:
            hold.retry_at = 0.0
        return min((hold.first for hold in over), default=None)

    def took(self, stream: Stream) -> None:
        """Note that a message of the stream was accepted: the next pause is the shortest again."""
        hold = self._holds.get(stream)
        if hold is not None:
            hold.pause_s = 0.0
            if not hold.retry_at:
                del self._holds[stream]

    def forget(self, stream: Stream) -> None:
        """Forget a stream with nothing owed any more."""
        self._holds.pop(stream, None)

    def clear(self) -> None:
        self._holds.clear()


def longer(pause_s: float, least_s: float, most_s: float) -> float:
    """Return the pause that follows one of `pause_s`: twice as long, within the limits."""
    return min(max(pause_s * 2, least_s), most_s)
