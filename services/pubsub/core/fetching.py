"""Bringing what two nodes lack of each other: asking for it by ids, and sending it on (R-C35).

At most `open_max` questions are open, and as many messages are sent on at once; comparisons take turns. A router that
answers none of many questions is asked no more: it has named ids that do not exist, or it is overloaded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf

from router.core.wire.crypto import MessageId, PublicKey
from router.service import contract as c
from services.pubsub.core.held import minute_at
from services.pubsub.core.id_set import MINUTE_BYTES, IdSet, key_of

TAG = "compare"


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Bounds of fetching: open questions, seconds until one is asked again, and how often it is asked; how many in a
    row may be without an answer; how many messages are remembered as sent to one neighbour of one topic."""

    open_max: int = 64
    answer_s: float = 5.0
    later_s: float = 1.0
    asks_max: int = 3
    unanswered_max: int = 64
    given_max: int = 20_000


@dataclass(slots=True, eq=False)
class Fetch:
    """What is fetched from one router after one comparison: `needed` messages in all; `came`, `known`: the router had
    them after all, `missing`: nobody sent them. `is_open`: more may be added."""

    group: PublicKey
    router: PublicKey
    needed: int = 0
    came: int = 0
    known: int = 0
    missing: int = 0
    is_open: bool = True
    waiting: deque[tuple[MessageId, int]] = field(default_factory=deque)
    asked: dict[MessageId, tuple[int, float]] = field(default_factory=dict)  # how often, and until when
    not_before_s: float = -inf
    unanswered: int = 0

    @property
    def is_over(self) -> bool:
        return not (self.is_open or self.waiting or self.asked)

    def add(self, ids: Iterable[bytes]) -> None:
        """Fetch these ids as well."""
        found = [(MessageId(one), 0) for one in ids]
        self.needed += len(found)
        self.waiting += found

    def give_up(self) -> None:
        """Ask for nothing more; what has not come is missing."""
        self.missing += len(self.waiting) + len(self.asked)
        self.waiting.clear()
        self.asked.clear()


class Fetching:
    """All that is being fetched and given. Seconds are monotonic."""

    def __init__(self, limits: FetchLimits | None = None) -> None:
        self._limits = limits or FetchLimits()
        self._fetches: deque[Fetch] = deque()
        self._to_give: deque[tuple[PublicKey, PublicKey, MessageId]] = deque()
        self._giving: dict[MessageId, PublicKey] = {}
        self._given: dict[tuple[PublicKey, PublicKey], IdSet] = {}

    def __repr__(self) -> str:
        return f"<{len(self._fetches)} fetches, {self._asked} questions open, {len(self._giving)} being given>"

    @property
    def _asked(self) -> int:
        return sum(len(one.asked) for one in self._fetches)

    @property
    def due_s(self) -> float:
        """Return the second at which `tick` has something to do; infinity: never."""
        ends = [until_s for one in self._fetches for _, until_s in one.asked.values()]
        paused = [one.not_before_s for one in self._fetches if one.waiting and one.not_before_s > -inf]
        return min((*ends, *paused), default=inf)

    def begin(self, group: PublicKey, router: PublicKey) -> Fetch:
        """Return a new fetch, which is told what to fetch by its `add`."""
        self._fetches.append(found := Fetch(group, router))
        return found

    # -- fetching ------------------------------------------------------------------------------------------------

    def go_on(self, now: c.Now) -> list[c.Deed]:
        """Ask for what waits, as far as questions may be open; fetches take turns."""
        deeds: list[c.Deed] = []
        room = self._limits.open_max - self._asked
        idle = 0
        while room > 0 and idle < len(self._fetches):
            fetch = self._fetches[0]
            self._fetches.rotate(-1)
            if not fetch.waiting or fetch.not_before_s > now.mono_s:
                idle += 1
                continue
            idle, room, fetch.not_before_s = 0, room - 1, -inf
            id, asks = fetch.waiting.popleft()
            fetch.asked[id] = asks + 1, now.mono_s + self._limits.answer_s
            deeds.append(c.PullFrom(fetch.router, fetch.group, id))
        return deeds

    def arrived(self, id: MessageId) -> bool:
        """Note that a message has come; return whether it was fetched."""
        for fetch in self._fetches:
            if fetch.asked.pop(id, None) is not None:
                fetch.came += 1
                fetch.unanswered = 0
                return True
        return False

    def pulled_from(self, heard: c.PulledFrom, now: c.Now) -> None:
        """Take in what became of a question: nothing to do if the other router was asked."""
        fetch = next((one for one in self._fetches if one.router == heard.router and heard.id in one.asked), None)
        if fetch is None or heard.state == "asked":
            return
        if heard.state == "away":
            fetch.give_up()
            return
        asks, _ = fetch.asked.pop(heard.id)
        if heard.state == "known":
            fetch.known += 1
        else:
            fetch.waiting.appendleft((heard.id, asks - 1))
            fetch.not_before_s = now.mono_s + self._limits.later_s

    def tick(self, now: c.Now) -> None:
        """Ask again for what did not come in time, at the end; give up what was asked for often enough."""
        limits = self._limits
        for fetch in self._fetches:
            for id, (asks, until_s) in list(fetch.asked.items()):
                if until_s > now.mono_s:
                    continue
                del fetch.asked[id]
                fetch.unanswered += 1
                if asks < limits.asks_max:
                    fetch.waiting.append((id, asks))
                else:
                    fetch.missing += 1
            if fetch.unanswered >= limits.unanswered_max:
                fetch.give_up()

    def take_over(self) -> list[Fetch]:
        """Return the fetches that are over, each once."""
        over = [one for one in self._fetches if one.is_over]
        self._fetches = deque(one for one in self._fetches if not one.is_over)
        return over

    # -- giving --------------------------------------------------------------------------------------------------

    def give(self, group: PublicKey, router: PublicKey, keys: Iterable[bytes], now: c.Now) -> None:
        """Send on what the other lacks, each message once: it may hold less of the past than this node does."""
        given = self._given.setdefault((router, group), IdSet())
        given.drop_before(key_of(minute_at(now.wall_s), b""))
        for key in keys:
            if len(given) >= self._limits.given_max:
                break
            if given.add([key]):
                self._to_give.append((group, router, MessageId(key[MINUTE_BYTES:])))

    def give_more(self) -> list[c.Deed]:
        """Read the next messages from the own router, as far as there may be more at once."""
        deeds: list[c.Deed] = []
        while self._to_give and len(self._giving) < self._limits.open_max:
            group, router, id = self._to_give.popleft()
            if id not in self._giving:
                self._giving[id] = router
                deeds.append(c.Pull(group, id))
        return deeds

    def pulled(self, heard: c.Pulled) -> list[c.Deed]:
        """Send on what the own router has given us."""
        router = self._giving.get(heard.id)
        if router is None:
            return []
        if heard.wire is None:
            del self._giving[heard.id]
            return []
        return [c.Forward(heard.wire, router, TAG)]

    def sent(self, heard: c.Sent) -> None:
        """Note that a message is in the own router's custody."""
        if heard.tag == TAG:
            self._giving.pop(heard.id, None)

    def left(self, group: PublicKey) -> None:
        """Fetch and give nothing more of a topic."""
        for fetch in self._fetches:
            if fetch.group == group:
                fetch.is_open = False
                fetch.give_up()
        self._to_give = deque(one for one in self._to_give if one[0] != group)
        self._given = {place: ids for place, ids in self._given.items() if place[1] != group}
