"""The beginning of a frame whose rest has not come yet, and how long one waits for that.

However small the pieces in which a frame comes, each byte is copied twice at most, and looked at when all are there.
"""

from __future__ import annotations

from math import inf

from router.core.wire.reasons import Reason

from .machine import RemoteProtocolError


class Unfinished:
    """At most one frame's beginning. `frame_s`: so many seconds may be spent waiting for the rest of it."""

    __slots__ = ("_bytes", "_end", "_frame_s", "_waited_s")

    def __init__(self, frame_s: float) -> None:
        self._bytes = bytearray()
        self._end = 0
        self._frame_s = frame_s
        self._waited_s = 0.0

    def __bool__(self) -> bool:
        return bool(self._bytes)

    def __repr__(self) -> str:
        return f"<the first {len(self._bytes)} of at least {self._end} bytes of a frame>"

    def keep(self, data: bytes, at: int, end: int) -> None:
        """`data[at:]` begins a frame that goes on at least to position `end`."""
        self._bytes = bytearray(memoryview(data)[at:])
        self._end = end - at
        self._waited_s = 0.0

    def complete(self, data: bytes) -> bytes | None:
        """What was kept, with `data` behind it, and nothing is kept any more; None: it still does not suffice."""
        if len(self._bytes) + len(data) < self._end:
            self._bytes += data
            return None
        whole = b"".join((self._bytes, data))
        self._bytes = bytearray()
        return whole

    @property
    def patience_s(self) -> float:
        """How long to wait for more; infinite where no frame has begun."""
        return max(0.0, self._frame_s - self._waited_s) if self._bytes else inf

    def waited(self, seconds: float) -> None:
        """For so long nothing came. Only waiting for the peer counts: what this end cannot take is not its fault."""
        self._waited_s += seconds

    def too_slow(self) -> RemoteProtocolError:
        """What the peer is told when patience is over."""
        text = f"a frame was not complete after {self._frame_s:g} s of waiting for it"
        return RemoteProtocolError(Reason.CONNECT_TIMEOUT, text)
