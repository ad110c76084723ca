"""Asks Nexa neighbours for what they hold: what wallets search and watch for, and, if it is wished, for everything.

A node tells nobody what it held before, so it is asked by first bytes, page by page. What it answers is judged like any
message before it is kept; it must begin with what was asked for. Everything is asked for by all prefixes of two bytes,
one after the other; data of fewer bytes cannot be found so. Pools of ours are not asked: they list what they hold.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from msgspec import Struct, field

from router.core.link.allowance import Allowance
from services.capd.core.holdings import Holdings
from services.capd.core.lookups import Lookups

from .commands import MESSAGES, REPLY_MESSAGES_MAX, SUBSCRIBE, MessagesReply, PrefixQuery, Remove
from .neighbour import Neighbour

PER_S = 1_500.0
"""Questions to one neighbour in a second: all prefixes take 44 s."""
OPEN_MAX = 256
"""Questions to one neighbour that wait for their answers."""
PAGES_MAX = 50
"""Pages of one answer: 10,000 messages."""
ANSWER_S = 30.0
"""Seconds that a neighbour has for an answer; when one is late, the fetching of everything ends."""
PREFIXES = 1 << 16
GUESTS_MAX = 2
"""Neighbours that have dialled us themselves and that are asked for everything at the same time."""
COOKIE = 1 << 16
"""The cookie of packets with questions; what a node sends for a standing query has none."""


class Question(Struct):
    """A question to a neighbour: for which content, and how far its answer has come."""

    content: bytes
    asked_s: float
    is_of_all: bool = False
    start: int = 0
    pages: int = 0


class Questions(Struct):
    """The questions to one neighbour. `open`: those without a whole answer, by their cookies."""

    open: dict[int, Question] = field(default_factory=dict)
    more: deque[Question] = field(default_factory=deque)
    """Questions whose next page is to be asked for."""
    waiting: deque[bytes] = field(default_factory=deque)
    """Contents of searches that are to be asked for."""
    standing: dict[bytes, int] = field(default_factory=dict)
    """The cookies of the standing queries that it has, by their contents."""
    cookies: int = 0
    at: int = 0
    """The next prefix of all."""
    left: int | None = None
    """The prefixes that are left; None before the fetching of everything begins."""
    allowance: Allowance = field(default_factory=lambda: Allowance(PER_S, PER_S))


class Questioning:
    """Asks the neighbours of one pool. `is_fetching`: whether each is asked for everything when it connects."""

    def __init__(self, holdings: Holdings, lookups: Lookups, *, is_fetching: bool) -> None:
        self._holdings = holdings
        self._lookups = lookups
        self._is_fetching = is_fetching
        self._of: dict[Neighbour, Questions] = {}
        self._upto: dict[str, int] = {}
        """The prefix at which the fetching from a dialled neighbour was cut off."""

    def __repr__(self) -> str:
        return f"<Questioning of {len(self._of)} neighbours>"

    def due(self, neighbour: Neighbour, now_s: float) -> None:
        """Ask what is due, and give up what was not answered in time; called about once a second."""
        if not neighbour.has_told_line or neighbour.is_of_ours or not self._holdings.has_room:
            return
        if (found := self._of.get(neighbour)) is None:
            found = self._of[neighbour] = Questions()
        self._give_up(neighbour, found, now_s)
        if self._is_fetching and found.left is None and self._may_fetch(neighbour):
            found.left, found.at = PREFIXES, self._upto.get(neighbour.target, 0)
        self._watch(neighbour, found, now_s)
        self._go_on(neighbour, found, now_s)

    def search(self, neighbours: Collection[Neighbour], now_s: float) -> None:
        """Ask these neighbours for what wallets have just begun to search for."""
        able = [one for one in neighbours if one in self._of]
        self._lookups.expire(now_s)
        for content in self._lookups.take(able if self._holdings.has_room else ()):
            for neighbour in able:
                if len(self._of[neighbour].waiting) < OPEN_MAX:
                    self._of[neighbour].waiting.append(content)
                else:
                    self._lookups.answered(content, neighbour)
        for neighbour in able:
            self._go_on(neighbour, self._of[neighbour], now_s)

    def closed(self, neighbour: Neighbour) -> None:
        """Forget a neighbour whose connection has ended, but not how far everything was fetched from it."""
        self._lookups.gone(neighbour)
        found = self._of.pop(neighbour, None)
        if found is not None and neighbour.target and found.left is not None:
            self._upto[neighbour.target] = found.at if found.left else 0

    def content_of(self, neighbour: Neighbour, cookie: int) -> bytes | None:
        """Return the content of a question or a standing query with this cookie; None if there is none."""
        found = self._of.get(neighbour)
        if found is None:
            return None
        if cookie in found.open:
            return found.open[cookie].content
        return next((content for content, one in found.standing.items() if one == cookie), None)

    def answered(self, neighbour: Neighbour, reply: MessagesReply, now_s: float) -> None:
        """Ask for the next page of an answer, if there is one, and what else may be asked now."""
        found = self._of[neighbour]
        question = found.open.pop(reply.cookie, None)
        if question is not None:
            question.start += len(reply.messages)
            question.pages += 1
            if reply.messages and question.start < reply.total and question.pages < PAGES_MAX:
                found.more.append(question)
            else:
                self._ended(neighbour, question)
        self._go_on(neighbour, found, now_s)

    def refused(self, neighbour: Neighbour, cookie: int) -> None:
        """Give up a question that was answered in another form than asked."""
        found = self._of.get(neighbour)
        if found is not None and (question := found.open.pop(cookie, None)) is not None:
            self._ended(neighbour, question)

    def left(self, neighbour: Neighbour) -> int | None:
        """Return the prefixes that are left of the fetching of everything; None if it has not begun."""
        found = self._of.get(neighbour)
        return None if found is None else found.left

    # -- questions -----------------------------------------------------------------------------------------

    def _may_fetch(self, neighbour: Neighbour) -> bool:
        guests = [one for one, found in self._of.items() if not one.target and found.left]
        return bool(neighbour.target) or len(guests) < GUESTS_MAX

    def _give_up(self, neighbour: Neighbour, found: Questions, now_s: float) -> None:
        late = [cookie for cookie, one in found.open.items() if now_s - one.asked_s >= ANSWER_S]
        for cookie in late:
            question = found.open.pop(cookie)
            neighbour.counts["unanswered"] += 1
            self._ended(neighbour, question)
            if question.is_of_all and found.left:
                found.left = 0

    def _watch(self, neighbour: Neighbour, found: Questions, now_s: float) -> None:
        """Leave the standing queries of wallets at a neighbour, and end there those that have ended."""
        wanted = self._lookups.standing()
        for content in [one for one in found.standing if one not in wanted]:
            neighbour.say(Remove(found.standing.pop(content)))
        for content in wanted:
            if content in found.standing:
                continue
            if len(found.open) >= OPEN_MAX or not found.allowance.take(1, now_s):
                return
            found.standing[content] = self._ask(neighbour, found, Question(content, now_s), MESSAGES | SUBSCRIBE)

    def _go_on(self, neighbour: Neighbour, found: Questions, now_s: float) -> None:
        while len(found.open) < OPEN_MAX and (found.more or found.waiting or found.left):
            if not found.allowance.take(1, now_s):
                return
            if found.more:
                question = found.more.popleft()
                question.asked_s = now_s
                self._ask(neighbour, found, question)
            elif found.waiting:
                self._ask(neighbour, found, Question(found.waiting.popleft(), now_s))
            elif found.left:
                self._ask(neighbour, found, Question(found.at.to_bytes(2), now_s, is_of_all=True))
                found.at, found.left = (found.at + 1) % PREFIXES, found.left - 1

    def _ask(self, neighbour: Neighbour, found: Questions, question: Question, kind: int = MESSAGES) -> int:
        found.cookies = found.cookies % 0xFFFF_FFFF + 1
        found.open[found.cookies] = question
        query = PrefixQuery(found.cookies, kind, question.start, REPLY_MESSAGES_MAX, question.content)
        neighbour.say(query, COOKIE)
        return found.cookies

    def _ended(self, neighbour: Neighbour, question: Question) -> None:
        self._lookups.answered(question.content, neighbour)
