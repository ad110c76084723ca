"""The frames in a stream that is passed on: only their heads are read, and nothing of it is kept."""

from __future__ import annotations

from math import inf

from router.core.wire.codec import Malformed, frame_bounds, split_frames


class FrameCount:
    """Follows the frames of a stream, however it is cut. `is_between`: no frame has begun whose rest is missing."""

    __slots__ = ("_head", "_left")

    def __init__(self) -> None:
        self._head = b""  # the beginning of a frame, without its whole length
        self._left: float = 0  # bytes that are missing of the present frame

    def __repr__(self) -> str:
        return f"<frame count: {'between two frames' if self.is_between else 'in a frame'}>"

    @property
    def is_between(self) -> bool:
        return not self._head and not self._left

    def took(self, data: bytes) -> int:
        """Take the next bytes of the stream; return how many frames they complete. After bytes with which no frame
        begins there is none."""
        if len(data) < self._left:
            self._left -= len(data)
            return 0
        rest, count = self._head + data[int(self._left) :], int(self._left > 0)
        self._head, self._left = b"", 0
        try:
            spans, at = split_frames(rest, inf)
            if at < len(rest):
                start, end = frame_bounds(rest, at, inf)
                self._head, self._left = (rest[at:], 0) if start > len(rest) else (b"", end - len(rest))
        except Malformed:
            spans, self._left = [], inf
        return count + len(spans)
