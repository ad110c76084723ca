"""Asks Nexa neighbours for what they hold: what wallets search and watch for, and, if it is wished, for everything.

A node tells nobody what it held before, so it is asked by first bytes, page by page. What it answers is judged like any
message before it is kept; it must begin with what was asked for. It answers with the newest first, so the pages of an
answer are held until all have come, and the oldest is taken first. Everything is asked for by all prefixes of two
bytes, one after the other; data of fewer bytes cannot be found so. Pools of ours are not asked: they list what they
hold.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from math import inf

from msgspec import Struct, field

from router.core.link.allowance import Allowance
from services.capd.core.holdings import Holdings
from services.capd.core.lookups import Lookups
from services.capd.core.message import CapdMessage

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
HOLD_S = 2.0
"""Seconds for which pages are held for the rest of an answer, less than a search waits; later pages are not held."""
HELD_BYTES_MAX = 16 << 20
"""Most bytes that are held of all answers together; beyond it, what has come of an answer is taken before the rest."""
PREFIXES = 1 << 16
GUESTS_MAX = 2
"""Neighbours that have dialled us themselves and that are asked for everything at the same time."""
COOKIE = 1 << 16
"""The cookie of packets with questions; what a node sends for a standing query has none."""


class Question(Struct):
    """A question to a neighbour: for which content, and how far its answer has come. `held`: the messages that have
    come and are not judged yet, the newest first."""

    content: bytes
    asked_s: float
    is_of_all: bool = False
    start: int = 0
    pages: int = 0
    hold_until_s: float = inf
    held: list[CapdMessage] = field(default_factory=list)


Came = tuple[Neighbour, bytes, tuple[CapdMessage, ...]]
"""Messages with which a neighbour has answered the question for a content."""


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
        self._held_bytes = 0
        self._came: list[Came] = []

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
        for question in () if found is None else (*found.open.values(), *found.more):
            self._let_go(neighbour, question)
        if found is not None and neighbour.target and found.left is not None:
            self._upto[neighbour.target] = found.at if found.left else 0

    def content_of(self, neighbour: Neighbour, cookie: int) -> bytes | None:
        """Return the content of a question or a standing query with this cookie; None if there is none."""
        found = self._of.get(neighbour)
        if found is None:
            return None
        if cookie in found.open:
            return found.open[cookie].content
        return next(self._standing(found, cookie), None)

    def answered(self, neighbour: Neighbour, reply: MessagesReply, now_s: float) -> None:
        """Take in a page of an answer, ask for the next one, if there is one, and what else may be asked now."""
        found = self._of[neighbour]
        question = found.open.pop(reply.cookie, None)
        if question is None:
            self._came += [
                (neighbour, content, reply.messages[::-1]) for content in self._standing(found, reply.cookie)
            ]
        else:
            self._hold(neighbour, question, reply.messages, now_s)
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

    # -- what has come -------------------------------------------------------------------------------------

    def take(self) -> list[Came]:
        """Return the messages that are to be judged now, the oldest of each answer first, and forget them."""
        came, self._came = self._came, []
        return came

    def _hold(self, neighbour: Neighbour, question: Question, messages: tuple[CapdMessage, ...], now_s: float) -> None:
        """Hold a page for the rest of the answer, while there is time and room."""
        question.hold_until_s = min(question.hold_until_s, now_s + HOLD_S)
        question.held += messages
        self._held_bytes += sum(one.counted_bytes for one in messages)
        if now_s >= question.hold_until_s or self._held_bytes > HELD_BYTES_MAX:
            self._let_go(neighbour, question)

    def _let_go(self, neighbour: Neighbour, question: Question) -> None:
        if question.held:
            self._held_bytes -= sum(one.counted_bytes for one in question.held)
            self._came.append((neighbour, question.content, tuple(question.held[::-1])))
            question.held = []

    # -- questions -----------------------------------------------------------------------------------------

    def _may_fetch(self, neighbour: Neighbour) -> bool:
        guests = [one for one, found in self._of.items() if not one.target and found.left]
        return bool(neighbour.target) or len(guests) < GUESTS_MAX

    @staticmethod
    def _standing(found: Questions, cookie: int) -> Iterator[bytes]:
        return (content for content, one in found.standing.items() if one == cookie)

    def _give_up(self, neighbour: Neighbour, found: Questions, now_s: float) -> None:
        for one in (*found.open.values(), *found.more):
            if now_s >= one.hold_until_s:
                self._let_go(neighbour, one)
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
        self._let_go(neighbour, question)
        self._lookups.answered(question.content, neighbour)
