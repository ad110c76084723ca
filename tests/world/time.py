"""The world's clock, its one source of randomness, and wires that carry bytes late, in pieces, or not at all."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from router.core.wire.now import Now

WALL_S = 1_800_000_000


class Time:
    """The world's clock, which runs delayed calls in order of time. Nothing happens but through `after`."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.mono_ns = 1_000_000_000
        self.wall_ahead_ns = WALL_S * 1_000_000_000
        self._todo: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0

    def __repr__(self) -> str:
        return f"<time {self.mono_ns / 1e9:.3f} s, {len(self._todo)} things to do>"

    def now(self) -> Now:
        return Now(self.mono_ns + self.wall_ahead_ns, self.mono_ns)

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        self.at(self.mono_ns + int(seconds * 1e9), call)

    def at(self, mono_ns: int, call: Callable[[], None]) -> None:
        """Run `call` at that time; calls for the same nanosecond run in the order of `at`."""
        self._count += 1
        heapq.heappush(self._todo, (mono_ns, self._count, call))

    def run(self, seconds: float) -> None:
        end_ns = self.mono_ns + int(seconds * 1e9)
        while self._todo and self._todo[0][0] <= end_ns:
            self.mono_ns, _, call = heapq.heappop(self._todo)
            call()
        self.mono_ns = end_ns

    def chance(self, share: float) -> bool:
        return self.random.random() < share


@dataclass(eq=False)
class End:
    """One end of a wire. Its owner's `hear` gets the bytes, and `gone` is called once it is closed."""

    wire: Wire
    hear: Callable[[bytes], None] = field(repr=False)
    gone: Callable[[], None] = field(repr=False)
    open: bool = True
    _last_ns: int = 0

    def send(self, data: bytes) -> None:
        """Send bytes, which arrive later, in one piece or several; after a cut not at all, or only their beginning."""
        if self.open and data:
            for piece in self.wire.pieces(data):
                self.wire.carry(self, piece)

    def close(self) -> None:
        """Close this end. Bytes already sent still arrive; then the other end is closed."""
        if self.open:
            self.open = False
            self.wire.carry(self, None)


class Wire:
    """Two ends and the bytes between them, first in first out in each direction."""

    def __init__(self, time: Time, delay_s: float) -> None:
        self._time = time
        self._delay_s = delay_s
        self._alive = True
        self._ends: list[End] = []

    def end(self, hear: Callable[[bytes], None], gone: Callable[[], None]) -> End:
        self._ends.append(End(self, hear, gone))
        return self._ends[-1]

    def pieces(self, data: bytes) -> list[bytes]:
        time = self._time
        if time.chance(0.8):
            return [data]
        at = time.random.randrange(len(data) + 1)
        return [piece for piece in (data[:at], data[at:]) if piece]

    def carry(self, sender: End, piece: bytes | None) -> None:
        time = self._time
        other = self._ends[self._ends[0] is sender]
        wanted = time.mono_ns + int(self._delay_s * 1e9 * (0.5 + time.random.random()))
        sender._last_ns = max(sender._last_ns, wanted)

        def arrive() -> None:
            if self._alive and other.open:
                if piece is not None:
                    other.hear(piece)
                else:
                    other.open = False
                    other.gone()

        time.at(sender._last_ns, arrive)

    def cut(self) -> None:
        """Lose everything under way; each end notices a little later."""
        self._alive = False
        for end in self._ends:
            if end.open:
                end.open = False
                self._time.after(self._time.random.random() * self._delay_s, end.gone)
