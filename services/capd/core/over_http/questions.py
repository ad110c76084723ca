"""The questions to the pool that wait for its answer: each belongs to a request, which is refused if none comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from router.core.wire.crypto import PublicKey
from router.core.wire.reasons import Reason
from router.core.wire.text import counted
from router.service import contract as c
from router.service.http import HttpDeed, refused
from services.capd import reasons

from .. import messages as m
from .limits import OverHttpLimits

NOBODY = 0
"""The number of no request: nobody waits for the answer."""
NUMBERS = 1 << 32
ASK = "ask/"
"""How the tags of questions begin."""

Then = Callable[[Any, c.Now], Iterator[HttpDeed]]
"""Decides what follows from the pool's answer."""


class _Question(Struct):
    """`too_fast`: called, in place of a refusal, if the pool refuses it for now; of searches alone."""

    number: int
    then: Then
    by_s: float
    too_fast: Callable[[], None] | None = None


class PoolQuestions:
    """The open questions, by the number that the answer repeats. `first`: the first such number, a random one, so that
    answers to an earlier life are none; `on_lost` hears the number of a request that was refused for want of an
    answer."""

    def __init__(self, pool: PublicKey, limits: OverHttpLimits, first: int, on_lost: Callable[[int], None]) -> None:
        self._pool = pool
        self._limits = limits
        self._next = first
        self._on_lost = on_lost
        self._open: dict[int, _Question] = {}

    def __repr__(self) -> str:
        return f"<{counted(len(self._open), 'question')} to the pool>"

    @property
    def searches(self) -> int:
        """Return the number of open searches."""
        return sum(one.too_fast is not None for one in self._open.values())

    def ask(
        self,
        kind: Callable[..., m.Request],
        *arguments: Any,
        number: int,
        then: Then,
        now: c.Now,
        too_fast: Callable[[], None] | None = None,
    ) -> Iterator[HttpDeed]:
        """Ask the pool on behalf of the request with this number. `too_fast`: of a search, called if the pool refuses
        it for now."""
        if len(self._open) >= self._limits.open_max:
            said = f"{self._limits.open_max} questions wait for the pool already; ask again later"
            yield from self.give_up(number, 503, "questions-full", said)
            return
        n = self._next = (self._next + 1) % NUMBERS
        try:
            body = m.encode_message(kind(n, *arguments))
        except ValueError as error:
            yield from self.give_up(number, 422, "too-large", f"the pool takes no such request: {error}")
            return
        self._open[n] = _Question(number, then, now.mono_s + self._limits.patience_s, too_fast)
        yield c.Send(self._pool, body, max(1, int(self._limits.patience_s)), tag=f"{ASK}{n}", kept=False)

    def answered(self, said: m.Answer, now: c.Now) -> Iterator[HttpDeed]:
        """Go on with what waited for this answer."""
        question = self._open.pop(said.n, None)
        if question is not None:
            yield from question.then(said, now)

    def not_heard(self, tag: str, reason: Reason, text: str) -> Iterator[HttpDeed]:
        """Refuse the request whose question the router or the pool has refused."""
        question = self._open.pop(int(tag.removeprefix(ASK)), None)
        if question is not None and question.too_fast is not None and reason == reasons.TOO_FAST:
            question.too_fast()
        elif question is not None:
            said = text or reason.sentence
            yield from self.give_up(question.number, 503, reason.word, f"the pool could not be asked: {said}")

    def tick(self, now: c.Now) -> Iterator[HttpDeed]:
        """Refuse the requests that have waited long."""
        said = f"the pool has not answered within {self._limits.patience_s:g} s; `router status` may say why"
        for n, question in [(n, one) for n, one in self._open.items() if one.by_s <= now.mono_s]:
            del self._open[n]
            yield from self.give_up(question.number, 503, "pool-slow", said)

    def drop(self, number: int) -> None:
        """Forget what a request waits for."""
        self._open = {n: one for n, one in self._open.items() if one.number != number}

    def give_up(self, number: int, status: int, reason: str, text: str) -> Iterator[HttpDeed]:
        """Refuse a request that waits for the pool."""
        if number != NOBODY:
            self._on_lost(number)
            again = (("Retry-After", "5"),) if status in (429, 503) else ()
            yield refused(number, status, reason, text, *again)
