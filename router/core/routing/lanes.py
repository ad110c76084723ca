"""Fair scheduling of tasks from many sources: deficit round robin over lanes, each of which keeps its order.

A lane gets its share of the work in each round, whatever the others bring, and saves up for larger tasks. A narrow lane
gets a part of a share, and only one of its tasks is under way at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from itertools import takewhile
from operator import attrgetter
from typing import Generic, Protocol, TypeVar

NARROW_PART = 4  # of a share


class Task(Protocol):
    """A piece of work with its cost, and whether it is done."""

    @property
    def cost(self) -> int: ...

    @property
    def done(self) -> bool: ...


T = TypeVar("T", bound=Task)


class Lane(Generic[T]):
    """The tasks of one source. `order`: all that are not released; `waiting`: those of them that are not taken."""

    __slots__ = ("credit", "is_narrow", "order", "under_way", "waiting")

    def __init__(self, is_narrow: bool) -> None:
        self.is_narrow = is_narrow
        self.order: deque[T] = deque()
        self.waiting: deque[T] = deque()
        self.credit = 0
        self.under_way = 0

    def __repr__(self) -> str:
        return f"<lane with {len(self.order)} tasks, {len(self.waiting)} of them waiting>"


class Lanes(Generic[T]):
    """All lanes, made and forgotten with their tasks; `share`: the cost that a lane may have in one round."""

    def __init__(self, share: int) -> None:
        self._share = share
        self._lanes: dict[Hashable, Lane[T]] = {}
        self._turns: deque[Lane[T]] = deque()  # lanes with something waiting
        self._count = 0

    def __repr__(self) -> str:
        return f"<{len(self._lanes)} lanes, {self._count} tasks>"

    def __len__(self) -> int:
        """Return how many tasks are not released."""
        return self._count

    def tasks(self) -> Iterator[T]:
        """Yield the tasks that are not released."""
        for lane in self._lanes.values():
            yield from lane.order

    def add(self, bringer: Hashable, task: T, *, is_narrow: bool = False) -> Lane[T]:
        """Append a task to the lane of its source, and return the lane; a task that is done only keeps its place."""
        lane = self._lanes.get(bringer)
        if lane is None:
            lane = self._lanes[bringer] = Lane(is_narrow)
        lane.order.append(task)
        self._count += 1
        if not task.done:
            lane.waiting.append(task)
            if len(lane.waiting) == 1:
                lane.credit = self._share_of(lane)
                self._turns.append(lane)
        return lane

    def holds(self, bringer: Hashable, is_meant: Callable[[T], bool]) -> bool:
        """Whether the lane of a source has an unreleased task of that kind."""
        lane = self._lanes.get(bringer)
        return lane is not None and any(map(is_meant, lane.order))

    def take(self) -> tuple[Lane[T], T] | None:
        """Take the next task to work on, with its lane; return None if no lane may go on."""
        passed = 0
        while passed < len(self._turns):
            lane = self._turns[0]
            if lane.is_narrow and lane.under_way:
                passed += 1
            elif lane.credit < lane.waiting[0].cost:
                lane.credit += self._share_of(lane)  # for its next turn
                passed = 0
            else:
                return lane, self._take_from(lane)
            self._turns.rotate(-1)
        return None

    def _take_from(self, lane: Lane[T]) -> T:
        task = lane.waiting.popleft()
        lane.under_way += 1
        lane.credit -= task.cost
        if not lane.waiting:
            self._turns.popleft()
        return task

    def _share_of(self, lane: Lane[T]) -> int:
        return self._share // NARROW_PART if lane.is_narrow else self._share

    def finish(self, lane: Lane[T]) -> bool:
        """Record that a task taken from the lane is done; return whether another of the lane may now be taken."""
        lane.under_way -= 1
        return lane.is_narrow and bool(lane.waiting)

    def release(self, bringer: Hashable, at_least: int = 1) -> list[T]:
        """Remove and return the done tasks at the head of a lane, in order.

        Fewer than `at_least` are released only if they are the whole lane."""
        lane = self._lanes[bringer]
        ready = sum(1 for _ in takewhile(attrgetter("done"), lane.order))
        if ready < min(at_least, len(lane.order)):
            return []
        released = []
        while lane.order and lane.order[0].done:
            released.append(lane.order.popleft())
        self._count -= len(released)
        if not lane.order:
            del self._lanes[bringer]
        return released
