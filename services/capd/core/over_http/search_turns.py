"""The searches of those who ask over HTTP, one caller after the other.

The pool knows the whole web side as one asker, with one allowance. What it has refused as too much is asked again at
the next tick, before all others; so a caller with many searches delays nobody by more than one of them in a round.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any

from msgspec import Struct

from router.core.wire.text import counted
from router.service import contract as c
from router.service.http import HttpDeed

from .. import messages as m
from .limits import OverHttpLimits
from .questions import PoolQuestions, Then

FULL = "searches wait for the pool already; ask again when they are answered"


class _Search(Struct, eq=False):
    caller: str
    number: int
    query: Callable[[int], m.Request]
    then: Then
    by_s: float
    turn: int = 0


class SearchTurns:
    """The searches that wait: by caller, in the order of their turns, and those that the pool has refused for now."""

    def __init__(self, questions: PoolQuestions, limits: OverHttpLimits) -> None:
        self._questions = questions
        self._limits = limits
        self._waiting: dict[str, deque[_Search]] = {}
        self._again: list[_Search] = []
        self._turns = count(1)
        self._is_held = False

    def __repr__(self) -> str:
        return f"<{counted(len(self._all()), 'search', 'searches')} of {counted(len(self._waiting), 'caller')}>"

    def ask(
        self, query: Callable[[int], m.Request], *, caller: str, number: int, then: Then, now: c.Now
    ) -> Iterator[HttpDeed]:
        """Search on behalf of the request with this number, when its caller's turn has come. `query`: returns the
        question with its number."""
        own = self._waiting.get(caller, ())
        if len(own) >= self._limits.searches_of_one:
            yield from self._questions.give_up(number, 429, "searches-full", f"{len(own)} of your address's {FULL}")
            return
        if sum(map(len, self._waiting.values())) >= self._limits.searches_max:
            most = max(self._waiting, key=lambda one: len(self._waiting[one]))
            if len(self._waiting[most]) <= len(own) + 1:
                said = f"{self._limits.searches_max} {FULL}"
                yield from self._questions.give_up(number, 503, "searches-full", said)
                return
            late = self._waiting[most].pop()
            said = f"your address has most of the {self._limits.searches_max} searches that wait; ask again later"
            yield from self._questions.give_up(late.number, 503, "searches-full", said)
        search = _Search(caller, number, query, then, now.mono_s + self._limits.patience_s)
        self._waiting.setdefault(caller, deque()).append(search)
        yield from self._serve(now)

    def tick(self, now: c.Now) -> Iterator[HttpDeed]:
        """Refuse the searches that have waited long; ask the pool again."""
        said = "the pool is busy with searches, and yours has had no turn; ask again later"
        for one in [one for one in self._all() if one.by_s <= now.mono_s]:
            self.drop(one.number)
            yield from self._questions.give_up(one.number, 503, "searches-wait", said)
        self._is_held = False
        yield from self._serve(now)

    def drop(self, number: int) -> None:
        """Forget what a request waits for."""
        self._again = [one for one in self._again if one.number != number]
        kept = {caller: deque(one for one in own if one.number != number) for caller, own in self._waiting.items()}
        self._waiting = {caller: own for caller, own in kept.items() if own}

    def _all(self) -> list[_Search]:
        return [*self._again, *(one for own in self._waiting.values() for one in own)]

    def _serve(self, now: c.Now) -> Iterator[HttpDeed]:
        while not self._is_held and self._questions.searches < self._limits.searches_at_once:
            search = self._next()
            if search is None:
                return
            yield from self._questions.ask(
                search.query,
                number=search.number,
                then=partial(self._answered, search),
                now=now,
                too_fast=partial(self._put_back, search),
            )

    def _next(self) -> _Search | None:
        """Return the search whose turn it is."""
        if self._again:
            return self._again.pop(0)
        for caller in self._waiting:
            own = self._waiting.pop(caller)
            search = own.popleft()
            if own:
                self._waiting[caller] = own
            search.turn = next(self._turns)
            return search
        return None

    def _put_back(self, search: _Search) -> None:
        """Keep a search that the pool has refused for now, and ask for nothing more before the next tick."""
        insort(self._again, search, key=lambda one: one.turn)
        self._is_held = True

    def _answered(self, search: _Search, said: Any, now: c.Now) -> Iterator[HttpDeed]:
        yield from search.then(said, now)
        yield from self._serve(now)
