"""The rates at which strangers are read: one for each, and one for all together. Faster senders wait.

All strangers are read at common beats: the messages of a beat share one verification and one commit, and between two
beats the node works for known neighbours.

Bytes over the rate are not read, so a flood stays in the sender's buffers and is neither decoded nor refused.
"""

from __future__ import annotations

import math

import trio
from msgspec import Struct

BURST_S = 1.0  # a burst may be as large as what the rate allows in this time
TURNS_PER_S = 512  # turns of those that share a rate: fewer are too coarse to be fair, more cost work
BEAT_S = 0.05  # the interval at which all strangers are read together, so that they share a commit


class Pace:
    """A rate of `per_s` a second (0: no limit). Times are those of the caller's clock."""

    def __init__(self, per_s: float, burst_s: float = BURST_S) -> None:
        self._per_s = per_s
        self._burst_s = burst_s
        self._at = -math.inf  # the time at which everything taken is used up

    def wait_s(self, count: int, now: float) -> float:
        """Take `count`; return how long to wait before acting on them."""
        self.take(count, now)
        return max(0.0, self._at - now) if self._per_s else 0.0

    def free_at(self, count: int) -> float:
        """Return when `count` may be taken, if none is taken before."""
        return self._at + count / self._per_s if self._per_s else -math.inf

    def take(self, count: int, now: float) -> None:
        if self._per_s:
            self._at = max(self._at, now - self._burst_s) + count / self._per_s

    def give_back(self, count: int) -> None:
        """Give back `count` that were taken and not used."""
        if self._per_s:
            self._at -= count / self._per_s


class SharedPace:
    """A rate shared by several takers, which take small parts in turn, so that none waits for the whole of another's
    demand.

    It is charged at each taking; a cancelled taker gives its part back.
    """

    def __init__(self, per_s: float, burst_s: float = BURST_S) -> None:
        self._pace = Pace(per_s, burst_s)
        self._little = max(1, int(per_s / TURNS_PER_S))
        self._turn = trio.StrictFIFOLock()

    def __repr__(self) -> str:
        return f"<pace for which {self._turn.statistics().tasks_waiting} wait>"

    async def take(self, count: int, own: Pace) -> None:
        """Take `count` as the taker's own rate allows; others are not held up meanwhile."""
        taken = 0
        try:
            while taken < count:
                taken += await self._take_some(count - taken, own)
        except trio.Cancelled:
            self._pace.give_back(taken)
            raise

    async def _take_some(self, most: int, own: Pace) -> int:
        now = trio.current_time()
        some = min(most, self._little)
        if not self._turn.locked() and max(self._pace.free_at(most), own.free_at(most)) <= now:
            some = most
            self._pace.take(some, now)
        else:
            await trio.sleep_until(own.free_at(some))
            async with self._turn:
                await trio.sleep_until(self._pace.free_at(some))
                self._pace.take(some, trio.current_time())
        own.take(some, trio.current_time())
        return some


class PaceLimits(Struct, frozen=True):
    """Messages a second of one stranger; messages and bytes a second of all strangers together."""

    messages_per_s: float
    all_messages_per_s: float
    all_bytes_per_s: float


class Paces:
    """The rates of all strangers together; `one` makes the rate of a further stranger."""

    def __init__(self, limits: PaceLimits) -> None:
        self._limits = limits
        self.messages = SharedPace(limits.all_messages_per_s)
        self.bytes = SharedPace(limits.all_bytes_per_s)

    def one(self) -> StrangerPace:
        return StrangerPace(self, Pace(self._limits.messages_per_s))


class StrangerPace:
    """The rate of one stranger, within that of all."""

    def __init__(self, paces: Paces, own: Pace) -> None:
        self._all = paces
        self._own = own

    async def take_bytes(self, count: int) -> None:
        """Wait until `count` bytes may be handled, which is always at a beat."""
        await self._all.bytes.take(count, Pace(0))
        await trio.sleep_until(next_beat(trio.current_time()))

    async def take_messages(self, count: int) -> None:
        began_s = trio.current_time()
        await self._all.messages.take(count, self._own)
        if (now := trio.current_time()) > began_s:
            await trio.sleep_until(next_beat(now))


def next_beat(at: float) -> float:
    """Return the first beat that is not before that time."""
    return math.ceil(at / BEAT_S) * BEAT_S
