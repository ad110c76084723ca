"""The pauses in reading a stream that comes in pieces smaller than the frames that it carries.

To read single bytes costs as much as to read whole frames, and whoever sends them need not be known for that. So a
frame that trickles in is read in intervals, in which its bytes gather; and what gathering does not make cheaper, a
record of TLS or a frame of a WebSocket for each byte, is taken at a bounded rate. A stream whose pieces are whole
frames is not touched, however small they are.

That rate is taken by turns, so a stream of few short pieces does not wait for those of many, nor for those of streams
that have ended.
"""

from __future__ import annotations

import trio

from router.transport.pace import Pace, SharedPace

TRICKLE_BYTES = 256
"""A read of fewer bytes, all of them of one unfinished frame, is followed by a pause."""
TRICKLE_S = 0.05
"""The first such pause."""
TRICKLE_MAX_S = 0.2
"""The longest pause; each is twice as long as the one before, until a frame is complete or more comes at once."""
SHORT_BYTES = 128
"""A record of TLS, or a frame of a WebSocket, with fewer bytes is a short piece."""
SHORT_PER_S = 8_000.0
"""Short pieces a second without a frame of their own that all streams together may bring: a tenth of a core."""
SHORT_BURST_S = 0.25
"""Seconds whose share of short pieces may come at once."""
OWN_PER_S = 8.0
"""Short pieces a second that one stream may bring before it shares that rate: the ends of long frames, say."""
OWN_BURST_S = 16.0


_UNLIMITED = Pace(0)


def shared_pace() -> SharedPace:
    """Return the rate of short pieces that streams share."""
    return SharedPace(SHORT_PER_S, SHORT_BURST_S)


class ReadingPauses:
    """The pauses before the next read of one stream; `shared`: the rate of all such streams.

    `trickle_s`: how long its bytes are to gather; `excess`: short pieces for which it has yet to wait for its turn."""

    __slots__ = ("_own", "_shared", "_short", "excess", "trickle_s")

    def __init__(self, shared: SharedPace) -> None:
        self._shared = shared
        self._own: Pace | None = None  # most links never need one
        self._short = 0
        self.trickle_s = 0.0
        self.excess = 0

    def __repr__(self) -> str:
        return f"<reading pauses: {self.trickle_s:g} s and {self.excess} of {self._short} short pieces to wait for>"

    def took(self, size: int, short: int, frames: int, now: float, *, is_between: bool) -> None:
        """Count a read of `size` bytes that completed that many frames. `short`: how many short pieces of the stream
        have come; `is_between`: no frame has begun whose rest is missing."""
        more, self._short = short - self._short, short
        is_trickle = not (is_between or frames or size >= TRICKLE_BYTES)
        self.trickle_s = min(max(TRICKLE_S, 2 * self.trickle_s), TRICKLE_MAX_S) if is_trickle else 0.0
        if more > frames:
            self._own = self._own or Pace(OWN_PER_S, OWN_BURST_S)
            self.excess += more - frames if self._own.wait_s(more - frames, now) else 0

    async def wait_turn(self) -> None:
        """Wait until the shared rate allows what came over this stream's own."""
        if self.excess:
            excess, self.excess = self.excess, 0
            await self._shared.take(excess, _UNLIMITED)

    async def wait(self) -> None:
        """Wait for both."""
        await self.wait_turn()
        if self.trickle_s:
            await trio.sleep(self.trickle_s)
