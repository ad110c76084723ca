"""Messages of this node that no neighbour has taken custody of yet: they are sent until one has (R-C33).

Their ids are kept over a restart; their bytes are fetched from this node's router when they are retried.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec import Struct, field

from router.core.wire.crypto import MessageId, PublicKey
from services.pubsub.core.comparison.due_topics import DueTopics


class UntakenLimits(Struct, frozen=True):
    """At most `own_max` messages are kept. A topic's are retried after `again_s_min`, then after pauses that double up
    to `again_s_max`, at most `own_at_once` at a time; while the topic has no neighbours, this is checked every
    `again_s_min`."""

    own_max: int = 10_000
    own_at_once: int = 16
    again_s_min: float = 1.0
    again_s_max: float = 30.0


class Own(NamedTuple):
    """A message of this node: its group, and the Unix second at which it expires."""

    group: PublicKey
    until_s: float


class _Resting(Struct):
    """The waiting messages of a topic, and the pause before their next retry."""

    pause_s: float
    messages: dict[MessageId, Own] = field(default_factory=dict)


class Untaken:
    """The untaken messages. `has_neighbours(group)`: whether there is a router to send to. Seconds are monotonic,
    expiries Unix seconds."""

    def __init__(self, has_neighbours: Callable[[PublicKey], bool], limits: UntakenLimits) -> None:
        self._has_neighbours = has_neighbours
        self._limits = limits
        self._own: dict[MessageId, Own] = {}
        self._of: dict[PublicKey, dict[MessageId, Own]] = {}  # the same by group
        self._resting: dict[PublicKey, _Resting] = {}
        self._due = DueTopics()  # by their next retry
        self._fetching: set[MessageId] = set()

    def __repr__(self) -> str:
        return f"<{len(self._own)} messages of this node that no neighbour has taken>"

    def __len__(self) -> int:
        return len(self._own)

    def __contains__(self, id: MessageId) -> bool:
        return id in self._own

    @property
    def due_s(self) -> float:
        """Return the monotonic second of the next retry; infinity: never."""
        return self._due.due_s

    def add(self, id: MessageId, own: Own) -> bool:
        """Keep a message; return whether there is room."""
        if len(self._own) >= self._limits.own_max:
            return False
        self._own[id] = self._of.setdefault(own.group, {})[id] = own
        return True

    @property
    def groups(self) -> list[PublicKey]:
        """Return the groups of the kept messages."""
        return list(self._of)

    @property
    def room(self) -> int:
        return max(0, self._limits.own_max - len(self._own))

    def add_run(self, ids: Sequence[MessageId], own: Own, now_s: float) -> None:
        """Keep messages, at most `room`, that expire together, and let them wait for their first try."""
        found = dict.fromkeys(ids, own)
        self._own |= found
        self._of.setdefault(own.group, {}).update(found)
        self._resting_in(own.group, now_s).messages |= found

    def end(self, id: MessageId) -> bool:
        """Remove a message; return whether it was kept."""
        own = self._own.pop(id, None)
        if own is None:
            return False
        self._fetching.discard(id)
        of_group = self._of[own.group]
        del of_group[id]
        if not of_group:
            del self._of[own.group]
        resting = self._resting.get(own.group)
        if resting is not None:
            resting.messages.pop(id, None)
            if not resting.messages:
                self._end_rest(own.group)
        return True

    def _end_rest(self, group: PublicKey) -> None:
        del self._resting[group]
        self._due.end(group)

    def rest(self, id: MessageId, now_s: float) -> None:
        """Let a kept message wait for its next retry, since no router has taken it."""
        own = self._own[id]
        self._resting_in(own.group, now_s).messages[id] = own

    def _resting_in(self, group: PublicKey, now_s: float) -> _Resting:
        resting = self._resting.get(group)
        if resting is None:
            pause_s = self._limits.again_s_min
            resting = self._resting[group] = _Resting(pause_s)
            self._due.put(group, now_s + pause_s)
        return resting

    def hurry(self, group: PublicKey, now_s: float) -> None:
        """Retry the waiting messages of a topic at once, since a neighbour takes messages."""
        if (resting := self._resting.get(group)) is not None:
            resting.pause_s = self._limits.again_s_min
            self._due.put(group, now_s)

    def due(self, now_s: float, wall_s: float) -> tuple[list[tuple[MessageId, Own]], list[tuple[MessageId, Own]]]:
        """Return the messages to fetch now, and those that have expired, which are removed."""
        fetch: list[tuple[MessageId, Own]] = []
        expired: list[tuple[MessageId, Own]] = []
        for group in self._due.take(now_s):
            resting = self._resting[group]
            has_neighbours = self._has_neighbours(group)
            if has_neighbours:
                resting.pause_s = min(2 * resting.pause_s, self._limits.again_s_max)
            self._due.put(group, now_s + resting.pause_s)
            over = [(id, own) for id, own in resting.messages.items() if own.until_s <= wall_s]
            for id, _ in over:
                self.end(id)
            expired += over
            if group in self._resting and has_neighbours:
                fetch += self._fetch(group)
        return fetch, expired

    def _fetch(self, group: PublicKey) -> list[tuple[MessageId, Own]]:
        resting = self._resting[group]
        found = list(resting.messages.items())[: self._limits.own_at_once]
        for id, _ in found:
            del resting.messages[id]
            self._fetching.add(id)
        if not resting.messages:
            self._end_rest(group)
        return found

    def fetched(self, id: MessageId) -> Own | None:
        """Return the message whose bytes have come, or None if they were not asked for."""
        if id not in self._fetching:
            return None
        self._fetching.discard(id)
        return self._own[id]

    def oldest(self, group: PublicKey) -> tuple[MessageId, Own] | None:
        """Return the earliest kept message of a topic; None if there is none."""
        return next(iter(self._of.get(group, {}).items()), None)

    def count(self, group: PublicKey) -> int:
        """Return how many messages of a topic are kept."""
        return len(self._of.get(group, ()))

    def of(self, group: PublicKey) -> list[MessageId]:
        """Return all messages of a topic."""
        return list(self._of.get(group, ()))
