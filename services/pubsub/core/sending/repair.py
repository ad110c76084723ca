"""Repair: messages that others name and this node lacks are asked for by their ids (R-C18, R-C30, R-C34).

    named in `seen` of a message    asked for after `seen_delay_s` of the router that brought it
    announced by HAVE               asked for after `have_delay_s` of the router that announced it
    not there after `answer_s`      asked for of another, three times in all: of those that named it, then of neighbours
    in none of these answers        given up, until it is named again

Anybody can invent ids. Each takes one from the allowance of its source, which gets it back if the message comes. The
service's own router decides last: it does not ask for messages that it knows.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from enum import Enum
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

from msgspec import Struct, field

from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.packed_ids import PackedIds
from router.service.contract import Chance
from services.pubsub.core.known import Topic
from services.pubsub.core.sending.targets import at_random


class RepairLimits(Struct, frozen=True):
    """The times and bounds of repair.

    `open_max`: open questions at a time, `catching_up_max`: while the node catches up; one source has at most half of
    them. `asks_max`: routers that are asked for an id. `missing_max`: ids remembered as missing. A source may name
    `source_burst` ids that do not come, and `source_per_s` later; this is counted for at most `sources_max` sources. An
    id that was given up is asked for again when it is named again, `rounds_max` times in all; `given_up_max` of them
    are remembered. `known_max`: remembered ids of received messages, 16 bytes each; the router knows older ones, and
    is asked.
    """

    open_max: int = 16
    catching_up_max: int = 64
    asks_max: int = 3
    seen_delay_s: float = 2.0
    have_delay_s: float = 1.0
    answer_s: float = 5.0
    missing_max: int = 2_000
    source_burst: int = 64
    source_per_s: float = 0.1
    sources_max: int = 1_024
    rounds_max: int = 3
    given_up_max: int = 2_000
    known_max: int = 16_384


class Named(Enum):
    """The way in which another node has named an id."""

    SEEN = "in `seen` of a message"
    HAVE = "by HAVE"


class SkipCause(Enum):
    """Why an id that was named is not asked for."""

    NO_ROOM = "more ids are missing than are remembered"
    SOURCE = "its source has named too many ids that did not come"
    GIVEN_UP = "nobody had it, as often as it was asked for"


# -- deeds ------------------------------------------------------------------------------------------------------------


class AskForMessage(NamedTuple):
    """Ask a router for a message; this node's router does so in its own name, if it does not know the message."""

    router: PublicKey
    group: PublicKey
    id: MessageId


class Repaired(NamedTuple):
    """Report that a message has come after it was asked for: from how many routers, and which one brought it.
    `is_announced`: that one had named it by HAVE."""

    id: MessageId
    group: PublicKey
    asks: int
    by: PublicKey | None
    is_announced: bool = False


class Unanswered(NamedTuple):
    """Report that a message did not come from any router that was asked for it."""

    id: MessageId
    group: PublicKey
    asks: int


Deed = AskForMessage | Repaired | Unanswered

Source = bytes
"""The source that named ids are charged to: the group of a message that names them, or the router of a HAVE."""


class _Missing(Struct, eq=False):
    """A missing id: the routers that named it and those that were asked, and the time of the next step. `is_open`: a
    question is open."""

    group: PublicKey
    source: Source
    named_by: list[PublicKey]
    at_s: float
    is_announced: bool
    asked: list[PublicKey] = field(default_factory=list)
    is_open: bool = False
    is_ready: bool = False


class Repair:
    """The missing messages of one node. `topics` has the live neighbours of each, which are asked; seconds are
    monotonic.

    `is_catching_up`: whether more may be asked for at once. `left_out` counts ids that were named and are not asked
    for, by cause and source."""

    def __init__(self, topics: Mapping[PublicKey, Topic], chance: Chance, limits: RepairLimits | None = None) -> None:
        self._topics = topics
        self._chance = chance
        self._limits = limits = limits or RepairLimits()
        self._known = PackedIds(limits.known_max)
        self._missing: dict[MessageId, _Missing] = {}
        self._due: list[tuple[float, MessageId]] = []
        self._ready: dict[Source, deque[MessageId]] = {}
        self._open = Counter[Source]()
        self._open_in_all = 0
        self._spent: dict[Source, tuple[float, float]] = {}
        self._given_up: dict[MessageId, int] = {}
        self.is_catching_up = False
        self.left_out = Counter[tuple[SkipCause, Source]]()

    def __repr__(self) -> str:
        return f"<repair: {len(self._missing)} messages missing, {self._open_in_all} asked for>"

    def __len__(self) -> int:
        """Return how many messages are missing."""
        return len(self._missing)

    @property
    def open(self) -> int:
        """Return how many questions are open."""
        return self._open_in_all

    def knows(self, id: MessageId) -> bool:
        """Whether the message has come here lately."""
        return id in self._known

    @property
    def due_s(self) -> float:
        """Return the monotonic second at which `tick` has something to do; infinity: never."""
        due = self._due
        while due and ((one := self._missing.get(due[0][1])) is None or one.at_s != due[0][0]):
            heappop(due)
        return due[0][0] if due else inf

    # -- what happens -------------------------------------------------------------------------------------------------

    def arrived(self, id: MessageId, by: PublicKey | None, now_s: float) -> list[Deed]:
        """Record that a message has come, perhaps because it was asked for."""
        self._known.add(id)
        missing = self._missing.get(id)
        if missing is None:
            self._given_up.pop(id, None)
            return []
        asks = len(missing.asked)
        self._remove(id, missing, now_s, refund=True)
        is_announced = missing.is_announced and by in missing.named_by
        repaired = [Repaired(id, missing.group, asks, by, is_announced)] if asks else []
        return [*repaired, *self._ask_more(now_s)]

    def published(self, ids: Iterable[MessageId]) -> None:
        """Record messages of this node."""
        self._known.update(ids)

    def named(self, ids: Iterable[MessageId], group: PublicKey, by: PublicKey, how: Named, now_s: float) -> None:
        """Record the ids that a router has named; unknown ones are asked for later."""
        is_announced = how is Named.HAVE
        source = by if is_announced else group
        delay_s = self._limits.have_delay_s if is_announced else self._limits.seen_delay_s
        for id in ids:
            if id in self._known:
                continue
            missing = self._missing.get(id)
            if missing is not None:
                if by not in missing.named_by and len(missing.named_by) < self._limits.asks_max:
                    missing.named_by.append(by)
                missing.is_announced |= is_announced
            elif (cause := self._refusal(id, source, now_s)) is not None:
                self._count(cause, source)
            else:
                self._missing[id] = _Missing(group, source, [by], now_s + delay_s, is_announced)
                heappush(self._due, (now_s + delay_s, id))

    def known_here(self, id: MessageId, now_s: float) -> list[Deed]:
        """Record that this node's router already has a message that it was to ask for."""
        self._known.add(id)
        if (missing := self._missing.get(id)) is not None:
            self._remove(id, missing, now_s, refund=True)
        return self._ask_more(now_s)

    def not_asked(self, id: MessageId, now_s: float) -> list[Deed]:
        """Ask another router at once, because the last one is not connected."""
        missing = self._missing.get(id)
        if missing is None or not missing.is_open:
            return []
        self._close(missing)
        missing.at_s = inf
        return [*self._ask_again(id, missing, now_s), *self._ask_more(now_s)]

    def postponed(self, id: MessageId, now_s: float) -> list[Deed]:
        """Ask the same router again in a while, because this node's router asks for too much now."""
        missing = self._missing.get(id)
        if missing is None or not missing.is_open:
            return []
        self._close(missing)
        missing.asked.pop()
        missing.at_s = now_s + self._limits.have_delay_s
        heappush(self._due, (missing.at_s, id))
        return []

    def left(self, group: PublicKey, now_s: float) -> list[Deed]:
        """Forget the missing messages of a topic that this node has left."""
        for id, missing in [(id, one) for id, one in self._missing.items() if one.group == group]:
            self._remove(id, missing, now_s, refund=True)
        return self._ask_more(now_s)

    def tick(self, now_s: float) -> list[Deed]:
        """Ask for messages that are due, and ask other routers for those that have not come."""
        deeds: list[Deed] = []
        while self.due_s <= now_s:
            _, id = heappop(self._due)
            missing = self._missing[id]
            missing.at_s = inf
            if missing.is_open:
                self._close(missing)
                deeds += self._ask_again(id, missing, now_s)
            else:
                self._make_ready(id, missing)
        return [*deeds, *self._ask_more(now_s)]

    # -- asking -----------------------------------------------------------------------------------------------------

    def _ask_again(self, id: MessageId, missing: _Missing, now_s: float) -> list[Deed]:
        """Have another router asked, or give the message up if three were asked, or there is no other."""
        if len(missing.asked) < self._limits.asks_max and self._next_router(missing) is not None:
            self._make_ready(id, missing)
            return []
        self._remove(id, missing, now_s, refund=False)
        rounds = self._given_up.pop(id, 0)
        if len(self._given_up) >= self._limits.given_up_max:
            del self._given_up[next(iter(self._given_up))]
        self._given_up[id] = rounds + 1
        return [Unanswered(id, missing.group, len(missing.asked))]

    def _make_ready(self, id: MessageId, missing: _Missing) -> None:
        missing.is_ready = True
        self._ready.setdefault(missing.source, deque()).append(id)

    def _ask_more(self, now_s: float) -> list[Deed]:
        """Ask for ready ids while questions may be open, taking sources in turn."""
        deeds: list[Deed] = []
        most = self._limits.catching_up_max if self.is_catching_up else self._limits.open_max
        while self._open_in_all < most:
            source = next((one for one in self._ready if self._open[one] < max(1, most // 2)), None)
            if source is None:
                break
            ids = self._ready.pop(source)
            id = ids.popleft()
            if ids:
                self._ready[source] = ids
            missing = self._missing.get(id)
            if missing is not None and missing.is_ready:
                deeds += self._ask(id, missing, now_s)
        return deeds

    def _ask(self, id: MessageId, missing: _Missing, now_s: float) -> list[Deed]:
        missing.is_ready = False
        router = self._next_router(missing)
        if router is None:
            return self._ask_again(id, missing, now_s)
        missing.asked.append(router)
        missing.is_open = True
        missing.at_s = now_s + self._limits.answer_s
        heappush(self._due, (missing.at_s, id))
        self._open[missing.source] += 1
        self._open_in_all += 1
        return [AskForMessage(router, missing.group, id)]

    def _next_router(self, missing: _Missing) -> PublicKey | None:
        """Return the router to ask: one that named the id, else a neighbour; one that announced it may be asked
        again."""
        asked = missing.asked
        if (by := next((one for one in missing.named_by if one not in asked), None)) is not None:
            return by
        topic = self._topics.get(missing.group)
        if topic is not None and (found := at_random(topic, asked, 1, self._chance)):
            return found[0].router
        return missing.named_by[0] if missing.is_announced and topic is not None else None

    # -- the books --------------------------------------------------------------------------------------------------

    def _refusal(self, id: MessageId, source: Source, now_s: float) -> SkipCause | None:
        """Return why an id is not asked for; or charge its source for it and return None."""
        limits = self._limits
        if self._given_up.get(id, 0) >= limits.rounds_max:
            return SkipCause.GIVEN_UP
        if len(self._missing) >= limits.missing_max:
            return SkipCause.NO_ROOM
        spent = self._spent_by(source, now_s)
        if spent + 1 > limits.source_burst:
            return SkipCause.SOURCE
        self._note_spent(source, spent + 1, now_s)
        return None

    def _spent_by(self, source: Source, now_s: float) -> float:
        spent, at_s = self._spent.get(source, (0.0, now_s))
        return max(0.0, spent - (now_s - at_s) * self._limits.source_per_s)

    def _note_spent(self, source: Source, spent: float, now_s: float) -> None:
        self._spent.pop(source, None)
        while len(self._spent) >= self._limits.sources_max:
            del self._spent[next(iter(self._spent))]
        if spent > 0:
            self._spent[source] = spent, now_s

    def _count(self, cause: SkipCause, source: Source) -> None:
        row = cause, source
        known = row in self.left_out or len(self.left_out) < self._limits.sources_max
        self.left_out[row if known else (cause, b"")] += 1

    def _close(self, missing: _Missing) -> None:
        missing.is_open = False
        self._open_in_all -= 1
        self._open[missing.source] -= 1
        if not self._open[missing.source]:
            del self._open[missing.source]

    def _remove(self, id: MessageId, missing: _Missing, now_s: float, *, refund: bool) -> None:
        del self._missing[id]
        if missing.is_open:
            self._close(missing)
        if refund:
            self._note_spent(missing.source, max(0.0, self._spent_by(missing.source, now_s) - 1), now_s)
