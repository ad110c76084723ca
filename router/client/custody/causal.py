"""Causal order of one group's messages: each is given after all its causes and after its sender's earlier ones (pure).

R-E10. `deps` decide; `seq` orders the messages that are here, and may have holes. A message waits for its causes that
have not come. The waiting ends without them by `gap_s`, by its expiry, if too many messages wait, or by the news that a
cause will not come. The message is then given with the ids of the missing causes; a cause that comes later is given as
late. Nothing waits for ever, and nothing is dropped.
"""

from __future__ import annotations

import math
from bisect import insort
from collections import OrderedDict
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Generic, NamedTuple, TypeVar

from msgspec import Struct, field

from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.packed_ids import PackedIds

T = TypeVar("T")


class OrderLimits(Struct, frozen=True):
    """Limits of causal order in one group; `given_max` and `senders_max` hold for all groups together.

    `waiting_max`: number of waiting messages at which the oldest is given, half of a window, so that a node may catch
    up for a while beside live messages that wait for what it fetches. `bytes_max`: bytes of answers to questions
    that may wait. `gap_s`: the longest wait. `full_s`: the longest wait of the oldest message once the node's window is
    full, so that no cause can come through it. `old_s`: how long the causes are waited for of a message that was asked
    for and may be from before this app's time. `given_max`: ids of messages remembered as given; `missed_max`: ids
    remembered as missing. `senders_max`: senders whose newest number is remembered. `walk_max`: steps from an overdue
    message along the messages it waits for.
    """

    waiting_max: int = 512
    bytes_max: int = 4 << 20
    gap_s: float = 30.0
    full_s: float = 2.0
    old_s: float = 1.0
    given_max: int = 65_536
    missed_max: int = 4096
    senders_max: int = 4096
    walk_max: int = 16


class Given:
    """The ids of the newest messages, in all groups, that the app was given or has published, or that could not be
    given: at most `most`, 16 bytes each (`PackedIds`).

    Other objects read `ids`, but do not change it."""

    def __init__(self, most: int) -> None:
        self.ids = PackedIds(most)

    def __repr__(self) -> str:
        return f"<{len(self.ids)} messages given>"

    def __contains__(self, id: MessageId) -> bool:
        return id in self.ids

    def add(self, id: MessageId) -> None:
        self.ids.add(id)


class WaitingMessage(Struct, Generic[T], eq=False):
    """A waiting message: `number` in the order of arrival; `due_s`: when it is given at the latest; `waits_for`: the
    causes that have not come (a dict, for its order); `missing`: all causes that had not come at first, except those
    that came since."""

    number: int
    id: MessageId
    sender: PublicKey
    seq: int
    size: int
    came_s: float
    due_s: float
    item: T
    waits_for: dict[MessageId, None]
    missing: dict[MessageId, None]
    behind: list[WaitingMessage[T]] = field(default_factory=list)
    """Later messages of the same sender, which wait for nothing else."""


class Turn(NamedTuple, Generic[T]):
    """A message to be given now."""

    item: T
    missing: tuple[MessageId, ...]
    late: bool


class CausalOrder(Generic[T]):
    """The messages of one group that wait for their causes. Times are of one monotonic clock."""

    def __init__(self, given: Given, limits: OrderLimits) -> None:
        self._given = given
        self._limits = limits
        self._number = 0
        self._waiting: OrderedDict[MessageId, WaitingMessage[T]] = OrderedDict()
        self._by_sender: dict[PublicKey, list[tuple[int, int, WaitingMessage[T]]]] = {}
        # By the cause that is waited for, and by number:
        self._effects: dict[MessageId, dict[int, WaitingMessage[T]]] = {}
        self._free: list[tuple[int, WaitingMessage[T]]] = []  # a heap of those that wait for no cause
        self._due: list[tuple[float, int, WaitingMessage[T]]] = []  # a heap
        self._missed: OrderedDict[MessageId, bool] = OrderedDict()  # said to be missing; True: not waited for again
        self._bytes = 0

    def __repr__(self) -> str:
        return f"<{len(self._waiting)} messages wait for {len(self._effects)} causes>"

    def __len__(self) -> int:
        return len(self._waiting)

    # -- what comes ----------------------------------------------------------------------------------------

    def is_next(self, sender: PublicKey, unknown: Iterable[MessageId]) -> bool:
        """Whether a message of this sender, with these causes not given yet, may be given at once."""
        return not unknown and sender not in self._by_sender

    def pass_by(self, id: MessageId) -> bool:
        """Record that a message for which `is_next` was True is given; return whether it is late."""
        self._given.add(id)
        late = self._missed.pop(id, None) is not None
        if id in self._effects:
            self._release(id)
        return late

    def add(
        self,
        id: MessageId,
        sender: PublicKey,
        seq: int,
        unknown: Iterable[MessageId],
        item: T,
        *,
        size: int,
        now_s: float,
        life_s: float,
    ) -> list[MessageId]:
        """Let a message wait, and return the causes that have not come. `unknown`: its causes that have not been given;
        `life_s`: the longest that it may wait, because it expires or its causes are before this app's time."""
        assert id not in self._waiting
        missing = dict.fromkeys(one for one in unknown if one != id)
        waits_for = dict.fromkeys(one for one in missing if not self._missed.get(one))
        due_s = now_s + max(0.0, min(self._limits.gap_s, life_s))
        self._number += 1
        one = WaitingMessage(self._number, id, sender, seq, size, now_s, due_s, item, waits_for, missing)
        self._waiting[id] = one
        self._bytes += size
        insort(self._by_sender.setdefault(sender, []), (seq, one.number, one))
        heappush(self._due, (due_s, one.number, one))
        for cause in waits_for:
            self._effects.setdefault(cause, {})[one.number] = one
        if not waits_for:
            heappush(self._free, (one.number, one))
        return [cause for cause in waits_for if cause not in self._waiting]

    def holds(self, id: MessageId) -> bool:
        """Whether this message waits."""
        return id in self._waiting

    def has_missed(self, id: MessageId) -> bool:
        """Whether this cause was reported missing."""
        return id in self._missed

    def awaits(self, id: MessageId) -> bool:
        """Whether a message waits for this cause."""
        return id in self._effects

    def has_room(self, size: int) -> bool:
        """Whether one more message that was asked for may wait."""
        return len(self._waiting) < self._limits.waiting_max and self._bytes + size <= self._limits.bytes_max

    def settle(self, id: MessageId) -> None:
        """Record a message that came and cannot be given, or is the app's own: nothing waits for it any more."""
        self._given.add(id)
        self._missed.pop(id, None)
        self._release(id)

    def give_up(self, id: MessageId) -> None:
        """Stop waiting for this cause: it is missing for all messages that name it."""
        self._miss(id, for_all=True)
        for one in self._effects.pop(id, {}).values():
            self._free_of(one, id)

    # -- what is given -------------------------------------------------------------------------------------

    def ready(self) -> Turn[T] | None:
        """Return the next message whose causes have all been given; None if there is none."""
        while self._free:
            _, one = heappop(self._free)
            if self._waiting.get(one.id) is not one:
                continue
            earlier = self._earlier(one)
            if earlier is None:
                return self._give(one)
            earlier.behind.append(one)
        return None

    def overdue(self, now_s: float, *, is_full: bool = False) -> Turn[T] | None:
        """Return a message that has waited too long, or the message it waits for if that is here; None if there is
        none.

        `is_full`: the node's window is full, and everything that came through it has been read."""
        if not self._waiting:
            return None
        if self._first_due.due_s <= now_s:
            one = self._root(self._first_due)
            for cause in list(one.waits_for):
                if cause not in self._waiting:
                    self.give_up(cause)
            return self._give(one)
        if self.is_crowded or (is_full and self._oldest.came_s + self._limits.full_s <= now_s):
            return self._give(self._root(self._oldest))
        return None

    def sought(self) -> list[MessageId]:
        """Return the causes of the oldest message, to be looked for a last time before it is given."""
        return list(self._root(self._oldest).waits_for) if self._waiting else []

    def wake_s(self, *, is_full: bool) -> float:
        """Return when `overdue` may return a message, if none comes before."""
        if not self._waiting:
            return math.inf
        full_s = self._oldest.came_s + self._limits.full_s if is_full else math.inf
        return min(self._first_due.due_s, full_s)

    @property
    def is_crowded(self) -> bool:
        """Whether so many messages wait that the oldest must be given."""
        return len(self._waiting) >= self._limits.waiting_max

    @property
    def _oldest(self) -> WaitingMessage[T]:
        return next(iter(self._waiting.values()))

    @property
    def _first_due(self) -> WaitingMessage[T]:
        """Return the waiting message with the earliest deadline; the heap drops those already given."""
        if len(self._due) > 2 * len(self._waiting) + self._limits.waiting_max:
            self._due = sorted((one.due_s, one.number, one) for one in self._waiting.values())
        while self._waiting.get(self._due[0][2].id) is not self._due[0][2]:
            heappop(self._due)
        return self._due[0][2]

    def _root(self, one: WaitingMessage[T]) -> WaitingMessage[T]:
        """Follow from a message to those it waits for, as long as they are here, for at most `walk_max` steps: only
        forged ids can form a circle."""
        for _ in range(self._limits.walk_max):
            inner = next((self._waiting[id] for id in one.waits_for if id in self._waiting), None)
            if inner is None and not one.waits_for:
                inner = self._earlier(one)
            if inner is None:
                return one
            one = inner
        return one

    def _earlier(self, one: WaitingMessage[T]) -> WaitingMessage[T] | None:
        """Return a waiting message of the same sender with a lower number that does not wait for this one."""
        for seq, _, other in reversed(self._by_sender[one.sender]):
            if seq < one.seq and one.id not in other.waits_for:
                return other
        return None

    def _give(self, one: WaitingMessage[T]) -> Turn[T]:
        del self._waiting[one.id]
        self._bytes -= one.size
        of_sender = self._by_sender[one.sender]
        of_sender.remove((one.seq, one.number, one))
        if not of_sender:
            del self._by_sender[one.sender]
        for cause in one.waits_for:
            self._miss(cause, for_all=False)
            effects = self._effects[cause]
            del effects[one.number]
            if not effects:
                del self._effects[cause]
        for later in one.behind:
            heappush(self._free, (later.number, later))
        missing = tuple(cause for cause in one.missing if cause not in self._given)  # one given up may have come since
        return Turn(one.item, missing, self.pass_by(one.id))

    def _release(self, id: MessageId) -> None:
        for one in self._effects.pop(id, {}).values():
            del one.missing[id]
            self._free_of(one, id)

    def _free_of(self, one: WaitingMessage[T], cause: MessageId) -> None:
        del one.waits_for[cause]
        if not one.waits_for:
            heappush(self._free, (one.number, one))

    def _miss(self, id: MessageId, *, for_all: bool) -> None:
        self._missed[id] = for_all or self._missed.get(id, False)
        if len(self._missed) > self._limits.missed_max:
            self._missed.popitem(last=False)
