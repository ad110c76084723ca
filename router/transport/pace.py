"""How fast strangers are read: each has a pace, and all of them together have one. Who is ahead of it waits.

They are heard at beats, all at the same: what they bring and settle in a beat shares one verification and one commit,
and between two beats the node works for those whom it knows.

What waits is not read, so a flood stays in the sender's own buffers: it is neither decoded nor refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import trio

BURST_S = 1.0  # what would have been read in so long may come at once
TURNS_PER_S = 512  # of those who share a pace: less is too coarse to be fair, more is work
BEAT_S = 0.05  # all strangers are heard together, so often: what they bring shares a commit


class Pace:
    """So many a second (0: any number). Times are those of the caller's clock."""

    def __init__(self, per_s: float, burst_s: float = BURST_S) -> None:
        self._per_s = per_s
        self._burst_s = burst_s
        self._at = -math.inf  # until when what was taken would have lasted

    def wait_s(self, count: int, now: float) -> float:
        """Take `count`, and wait this long before acting on them."""
        self.take(count, now)
        return max(0.0, self._at - now) if self._per_s else 0.0

    def free_at(self, count: int) -> float:
        """When `count` may be taken, if none is taken before."""
        return self._at + count / self._per_s if self._per_s else -math.inf

    def take(self, count: int, now: float) -> None:
        if self._per_s:
            self._at = max(self._at, now - self._burst_s) + count / self._per_s

    def give_back(self, count: int) -> None:
        """They were taken and are not used."""
        if self._per_s:
            self._at -= count / self._per_s


class SharedPace:
    """A pace of several, who take a little each and then let the others: nobody waits for all that others want.

    It is charged for what is taken, when it is taken; who is cancelled gives that back.
    """

    def __init__(self, per_s: float) -> None:
        self._pace = Pace(per_s)
        self._little = max(1, int(per_s / TURNS_PER_S))
        self._turn = trio.StrictFIFOLock()

    def __repr__(self) -> str:
        return f"<pace for which {self._turn.statistics().tasks_waiting} wait>"

    async def take(self, count: int, own: Pace) -> None:
        """Take them as the taker's own pace allows it: what that holds back is no burden to the others."""
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


@dataclass(frozen=True, slots=True)
class PaceLimits:
    """Messages a second of one stranger, messages and bytes a second of all strangers together."""

    messages_per_s: float
    all_messages_per_s: float
    all_bytes_per_s: float


class Paces:
    """Those of all strangers together; `one` makes that of another stranger."""

    def __init__(self, limits: PaceLimits) -> None:
        self._limits = limits
        self.messages = SharedPace(limits.all_messages_per_s)
        self.bytes = SharedPace(limits.all_bytes_per_s)

    def one(self) -> StrangerPace:
        return StrangerPace(self, Pace(self._limits.messages_per_s))


class StrangerPace:
    """A stranger's own, within that of all."""

    def __init__(self, paces: Paces, own: Pace) -> None:
        self._all = paces
        self._own = own

    async def take_bytes(self, count: int) -> None:
        """Wait until it is heard: at a beat, whatever it is."""
        await self._all.bytes.take(count, Pace(0))
        await trio.sleep_until(next_beat(trio.current_time()))

    async def take_messages(self, count: int) -> None:
        began_s = trio.current_time()
        await self._all.messages.take(count, self._own)
        if (now := trio.current_time()) > began_s:
            await trio.sleep_until(next_beat(now))


def next_beat(at: float) -> float:
    """The first beat that is not before that time."""
    return math.ceil(at / BEAT_S) * BEAT_S
