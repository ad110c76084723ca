"""The beginning of a frame whose rest has not arrived yet, and the limit of waiting for it.

However small the pieces of a frame, each byte is copied at most twice, and parsed only when the frame is complete.
"""

from __future__ import annotations

from math import inf

from router.core.wire.reasons import Reason

from .machine import RemoteProtocolError


class Unfinished:
    """The beginning of at most one frame; `frame_s` bounds the seconds spent waiting for its rest."""

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
        """Keep `data[at:]`, the beginning of a frame that extends at least to position `end`."""
        self._bytes = bytearray(memoryview(data)[at:])
        self._end = end - at
        self._waited_s = 0.0

    def complete(self, data: bytes) -> bytes | None:
        """Release and return the kept bytes followed by `data`; return None, and keep both, if they do not suffice."""
        if len(self._bytes) + len(data) < self._end:
            self._bytes += data
            return None
        whole = b"".join((self._bytes, data))
        self._bytes = bytearray()
        return whole

    @property
    def patience_s(self) -> float:
        """Return the seconds to wait for more; infinite if no frame has begun."""
        return max(0.0, self._frame_s - self._waited_s) if self._bytes else inf

    def waited(self, seconds: float) -> None:
        """Count `seconds` of waiting for the peer; time in which this end could not read is not the peer's fault."""
        self._waited_s += seconds

    def too_slow(self) -> RemoteProtocolError:
        """Return the error that ends the session when the wait has been too long."""
        text = f"a frame was not complete after {self._frame_s:g} s of waiting for it"
        return RemoteProtocolError(Reason.CONNECT_TIMEOUT, text)
