"""Fetching of the messages that another node has and this one lacks: they are asked for by id (R-C35).

Missing messages are asked for in the order in which the other took them, so that effects do not come before their
causes: from one router of a topic after the other, and at most `ahead_max` messages ahead of the first that has not
come. At most `open_max` questions are open, half of them with one router, or as many as it answers at once
(answerers.py); topics take turns. A router that answers fewer questions than it leaves unanswered is not asked any
more, in any topic, because it has named ids that do not exist, or is overloaded.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from heapq import heappop, heappush
from itertools import takewhile
from math import inf
from typing import NamedTuple

from msgspec import Struct, field

from router.core.wire.crypto import MessageId, PublicKey
from router.service import contract as c
from router.service.roles import overlay as o
from services.pubsub.core.comparison.negentropy import Needed
from services.pubsub.core.conduct.answerers import Answerers


class FetchLimits(Struct, frozen=True):
    """Bounds of fetching: open questions, in all and with one router, and for how many there must be room before more
    are asked, since together each costs less; how far a question may be ahead of the first without an answer, which an
    app in causal order can put right; seconds until a question is repeated, and how often; how many more may be without
    an answer than were answered by the same router since; and how many fetches and messages to fetch there may be when
    another comparison begins, which may add as many as its frames can name."""

    open_max: int = 128
    of_router_max: int = 64
    together: int = 16
    ahead_max: int = 128
    answer_s: float = 5.0
    later_s: float = 1.0
    asks_max: int = 3
    unanswered_max: int = 64
    fetches_max: int = 1_000
    lacked_max: int = 200_000


class OpenQuestion(NamedTuple):
    """An open question: how often the message was asked for, until when an answer counts, and how many questions its
    router had answered when it was asked."""

    asks: int
    until_s: float
    answered: int


class Fetch(Struct, eq=False):
    """The messages fetched from one router after one comparison: `needed` in all; `came`: news that came; `known`: the
    own router had them after all; `missing`: nobody sent them. `is_open`: more may be added, and nothing is asked for
    yet; `is_void`: the comparison did not end, so further missing messages are unknown.

    Messages with a rank below `old` are history, which the apps of this node do not get; `old_count`: how many of those
    that came or are missing are history. `whole_s`: the monotonic second at which the comparison was whole, None if it
    was not."""

    group: PublicKey
    router: PublicKey
    needed: int = 0
    came: int = 0
    known: int = 0
    missing: int = 0
    old: int = 0
    old_count: int = 0
    is_open: bool = True
    is_void: bool = False
    whole_s: float | None = None
    lacked: dict[MessageId, Needed] = field(default_factory=dict)
    places: dict[MessageId, int] = field(default_factory=dict)  # in the order in which they are asked for
    waiting: list[tuple[int, MessageId, int]] = field(default_factory=list)  # a heap: place, id, how often asked
    asked: dict[MessageId, OpenQuestion] = field(default_factory=dict)  # in the order of their ends
    late: set[MessageId] = field(default_factory=set)  # that did not come in time
    elsewhere: set[MessageId] = field(default_factory=set)  # that came while they waited
    not_before_s: float = -inf

    @property
    def is_over(self) -> bool:
        return not (self.is_open or self.waiting or self.asked)

    @property
    def news(self) -> int:
        """Return the number of messages that this node lacked and that are news to its apps, as far as anybody has
        them."""
        return max(0, self.needed - self.known - self.old_count)

    def add(self, ids: Mapping[bytes, Needed]) -> None:
        """Fetch these ids as well."""
        self.lacked |= {MessageId(id): one for id, one in ids.items()}
        self.needed = len(self.lacked)

    def close(self) -> None:
        """Begin to ask, in the order in which the other router took the messages."""
        if self.is_open:
            self.is_open = False
            self.places = {id: at for at, id in enumerate(sorted(self.lacked, key=lambda id: self.lacked[id].rank))}
            self.waiting = [(at, id, 0) for id, at in self.places.items()]

    def is_old(self, id: MessageId) -> bool:
        """Whether a message is history."""
        return self.lacked[id].rank < self.old

    def may_ask(self, ahead_max: int) -> bool:
        """Whether the next waiting message is not too far ahead of the first that has not come."""
        return bool(self.waiting) and self.waiting[0][0] - ahead_max < min(
            (self.places[id] for id in self.asked), default=self.waiting[0][0]
        )

    def arrived(self, id: MessageId) -> bool:
        """Record that a message has come; return whether a question was open. One that is still waiting is not asked
        for."""
        if self.asked.pop(id, None) is not None:
            self._count(id)
            return True
        if id in self.places and id not in self.elsewhere:
            self.elsewhere.add(id)
            self._skip()
        return False

    def _count(self, id: MessageId) -> None:
        """Count a message that has come because it was asked for."""
        is_old = self.is_old(id)
        self.came, self.old_count = self.came + (not is_old), self.old_count + is_old

    def _skip(self) -> None:
        while self.waiting and (id := self.waiting[0][1]) in self.elsewhere:
            heappop(self.waiting)
            if id in self.late:
                self._count(id)
            else:
                self.known += 1

    def ask(self, until_s: float, answered: int) -> MessageId:
        """Record that the next waiting message is asked for, and return it. `answered`: how many questions its router
        has answered."""
        _, id, asks = heappop(self.waiting)
        self.asked[id] = OpenQuestion(asks + 1, until_s, answered)
        self._skip()
        return id

    def put_back(self, id: MessageId, asks: int) -> None:
        """Let a message wait again that was asked for in vain."""
        heappush(self.waiting, (self.places[id], id, asks))

    @property
    def due_s(self) -> float:
        """Return the second at which a question counts as lost, or a pause is over; infinity: neither."""
        ends_s = next((one.until_s for one in self.asked.values()), inf)
        return min(ends_s, self.not_before_s) if self.waiting and self.not_before_s > -inf else ends_s

    def take_lost(self, now_s: float) -> list[tuple[MessageId, OpenQuestion]]:
        """Return and remove the questions whose answer counts as lost."""
        lost = list(takewhile(lambda one: one[1].until_s <= now_s, self.asked.items()))
        for id, _ in lost:
            del self.asked[id]
            self.late.add(id)
        return lost

    def lose(self, id: MessageId) -> None:
        """Record that nobody sends a message."""
        if self.is_old(id):
            self.old_count += 1
        else:
            self.missing += 1

    def give_up(self) -> None:
        """Ask for nothing more; messages that have not come are missing."""
        for id in (*self.asked, *(id for _, id, _ in self.waiting)):
            self.lose(id)
        self.waiting.clear()
        self.asked.clear()


class Fetching:
    """All messages being fetched. Seconds are monotonic."""

    def __init__(self, limits: FetchLimits | None = None) -> None:
        self._limits = limits or FetchLimits()
        self._fetches: list[Fetch] = []
        self._answerers = Answerers(self._limits.of_router_max, self._limits.unanswered_max)

    def __repr__(self) -> str:
        return f"<{len(self._fetches)} fetches, {self._asked} questions open>"

    @property
    def _asked(self) -> int:
        return sum(len(one.asked) for one in self._fetches)

    @property
    def due_s(self) -> float:
        """Return the second at which `tick` has something to do; infinity: never."""
        return min((one.due_s for one in self._fetches), default=inf)

    @property
    def is_due(self) -> bool:
        """Whether there is room to ask for several messages at once, or a fetch is over."""
        return self._limits.open_max - self._asked >= self._limits.together or any(one.is_over for one in self._fetches)

    @property
    def has_room(self) -> bool:
        """Whether another comparison may begin, which finds more to fetch."""
        limits, lacked = self._limits, sum(len(one.lacked) for one in self._fetches)
        return len(self._fetches) < limits.fetches_max and lacked < limits.lacked_max

    def begin(self, group: PublicKey, router: PublicKey) -> Fetch:
        """Return a new fetch, whose `add` takes the ids to fetch."""
        self._fetches.append(found := Fetch(group, router))
        return found

    # -- fetching ------------------------------------------------------------------------------------------------

    def go_on(self, now: c.Now) -> list[c.Deed]:
        """Ask for waiting messages, several at once, as far as questions may be open; topics take turns."""
        deeds: list[c.Deed] = []
        limits, turns = self._limits, self._turns()
        room, asked = limits.open_max - self._asked, self._asked_by_router()
        if room < limits.together:
            return deeds
        while room > 0 and turns:
            fetch = turns.popleft()
            if fetch.not_before_s > now.mono_s or not fetch.may_ask(limits.ahead_max):
                continue
            if asked[fetch.router] >= self._answerers.most(fetch.router):
                continue
            turns.append(fetch)
            asked[fetch.router] += 1
            room, fetch.not_before_s = room - 1, -inf
            id = fetch.ask(now.mono_s + limits.answer_s, self._answerers.count(fetch.router))
            first, last, _ = fetch.lacked[id]
            deeds.append(
                o.PullFrom(fetch.router, fetch.group, id, first, last - first + 1, is_history=fetch.is_old(id))
            )
        return deeds

    def _asked_by_router(self) -> Counter[PublicKey]:
        asked = Counter[PublicKey]()
        for fetch in self._fetches:
            asked[fetch.router] += len(fetch.asked)
        return asked

    def _turns(self) -> deque[Fetch]:
        """Return the first unfinished fetch of each topic, for whose end the others of it wait."""
        found: dict[PublicKey, Fetch] = {}
        for fetch in self._fetches:
            if not (fetch.is_open or fetch.is_over):
                found.setdefault(fetch.group, fetch)
        return deque(found.values())

    def is_asked(self, id: MessageId) -> bool:
        """Whether a message was asked for."""
        return any(id in fetch.asked or id in fetch.late for fetch in self._fetches)

    def is_history(self, id: MessageId) -> bool:
        """Whether a message is being fetched as history."""
        return any(id in fetch.asked and fetch.is_old(id) for fetch in self._fetches)

    def arrived(self, id: MessageId) -> bool:
        """Record that a message has come; return whether it was fetched, or a fetch is over with it."""
        is_fetched = False
        for fetch in self._fetches:
            is_answer = fetch.arrived(id) or id in fetch.late
            if is_answer:
                self._answerers.answered(fetch.router)
            is_fetched |= is_answer or fetch.is_over
        return is_fetched

    def pulled_from(self, heard: o.PulledFrom, now: c.Now) -> Fetch | None:
        """Handle the result of a question; there is nothing to do if the other router was asked. Return the fetch if it
        is cut off, because that router is not connected."""
        fetch = next((one for one in self._fetches if one.router == heard.router and heard.id in one.asked), None)
        if fetch is None or heard.state == "asked":
            return None
        if heard.state == "away":
            fetch.give_up()
            return fetch
        question = fetch.asked.pop(heard.id)
        if heard.state == "known":
            fetch.known += 1
        else:
            fetch.put_back(heard.id, question.asks - 1)
            fetch.not_before_s = now.mono_s + self._limits.later_s
        return None

    def lost(self, router: PublicKey) -> list[Fetch]:
        """Stop fetching from a router that is not connected any more, and return what is cut off."""
        found = [one for one in self._fetches if one.router == router]
        for fetch in found:
            fetch.give_up()
        return found

    def tick(self, now: c.Now) -> None:
        """Ask again for messages that did not come in time; give up those that were asked for often enough, by which
        no question counts that was asked too much at once."""
        for fetch in self._fetches:
            for id, question in fetch.take_lost(now.mono_s):
                if self._answerers.asked_too_much(fetch.router, question.answered):
                    fetch.put_back(id, question.asks - 1)
                elif question.asks < self._limits.asks_max:
                    fetch.put_back(id, question.asks)
                else:
                    fetch.lose(id)
        for router in self._answerers.take_silent():
            for fetch in self._fetches:
                if fetch.router == router:
                    fetch.give_up()

    def take_over(self) -> list[Fetch]:
        """Return the fetches that are over, each once."""
        over = [one for one in self._fetches if one.is_over]
        self._fetches = [one for one in self._fetches if not one.is_over]
        self._answerers.forget_others({one.router for one in self._fetches})
        return over

    def left(self, group: PublicKey) -> None:
        """Stop fetching messages of a topic."""
        for fetch in self._fetches:
            if fetch.group == group:
                fetch.is_open = False
                fetch.give_up()
