"""The choice of missing messages to ask the own router for: at once, and again after ever longer pauses (pure)."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from msgspec import Struct

from router.core.wire.crypto import MessageId, PublicKey


class AskLimits(Struct, frozen=True):
    """`open_max`: most open questions; one counts as unanswered after `answer_s` (R-C18). `wanted_max`: most messages
    that are asked for; others are only waited for. `pause_s_max`: the longest pause between two questions about one
    message, which begins at `answer_s` and doubles."""

    open_max: int = 16
    answer_s: float = 1.0
    wanted_max: int = 4096
    pause_s_max: float = 8.0


class MissingMessage(NamedTuple):
    """A missing message. `via`: the router for the own router to ask, which sent the message that names this one; None
    at first, because most missing messages are on their way (R-C18)."""

    group: PublicKey
    id: MessageId
    via: PublicKey | None


class Asks:
    """The messages that are missing. First questions go before repeated ones, and the first cause of each message
    before the second of any, so a message that names many invented ids holds up no others."""

    def __init__(self, limits: AskLimits) -> None:
        self._limits = limits
        self._wanted: dict[MessageId, tuple[int, MissingMessage]] = {}  # with their numbers
        self._due: list[tuple[int, int, int, MessageId]] = []  # a heap: how often asked, which of its message, number
        self._later: list[tuple[float, int, int, int, MessageId]] = []  # a heap: when due, and the same
        self._repeated: set[MessageId] = set()
        self._asked_s: deque[float] = deque()
        self._number = 0

    def __repr__(self) -> str:
        return f"<{len(self._wanted)} messages are asked for>"

    def __len__(self) -> int:
        return len(self._wanted)

    def group_of(self, id: MessageId) -> PublicKey | None:
        """Return the group of a message that is asked for; None if it is not asked for."""
        found = self._wanted.get(id)
        return None if found is None else found[1].group

    def want(self, group: PublicKey, ids: Iterable[MessageId], via: PublicKey | None = None) -> None:
        """Ask from now on for these messages, which one message names that came from the router `via`."""
        for rank, id in enumerate(ids):
            if id not in self._wanted and len(self._wanted) < self._limits.wanted_max:
                self._number += 1
                self._wanted[id] = self._number, MissingMessage(group, id, via)
                heappush(self._due, (0, rank, self._number, id))

    def drop(self, id: MessageId) -> None:
        """Stop asking for this message."""
        if self._wanted.pop(id, None) is not None:
            self._repeated.discard(id)
            self._sweep()

    def was_repeated(self, id: MessageId) -> bool:
        """Whether this message was asked for more than once, so that it probably came because of that."""
        return id in self._repeated

    def take(self, now_s: float) -> list[MissingMessage]:
        """Return the questions to send now."""
        limits, asked_s = self._limits, self._asked_s
        while asked_s and asked_s[0] <= now_s - limits.answer_s:
            asked_s.popleft()
        while self._later and self._later[0][0] <= now_s:
            heappush(self._due, heappop(self._later)[1:])
        found = []
        while self._due and len(asked_s) < limits.open_max:
            times, rank, number, id = heappop(self._due)
            if self._is_wanted(id, number):
                wanted = self._wanted[id][1]
                found.append(wanted if times else wanted._replace(via=None))
                if times:
                    self._repeated.add(id)
                asked_s.append(now_s)
                pause_s = min(limits.pause_s_max, limits.answer_s * 2.0**times)
                heappush(self._later, (now_s + pause_s, times + 1, rank, number, id))
        return found

    def wake_s(self) -> float:
        """Return when `take` may have something to return."""
        if not self._wanted:
            return math.inf
        if not self._due:
            return self._later[0][0]
        is_free = len(self._asked_s) < self._limits.open_max
        return -math.inf if is_free else self._asked_s[0] + self._limits.answer_s

    def _is_wanted(self, id: MessageId, number: int) -> bool:
        """Whether this entry of the queue is still current: the message is asked for, and has no later entry."""
        found = self._wanted.get(id)
        return found is not None and found[0] == number

    def _sweep(self) -> None:
        """Remove outdated entries once they are the majority."""
        if len(self._due) + len(self._later) > 2 * len(self._wanted) + self._limits.open_max:
            self._due = [one for one in self._due if self._is_wanted(one[3], one[2])]
            self._later = [one for one in self._later if self._is_wanted(one[4], one[3])]
            heapify(self._due)
            heapify(self._later)
