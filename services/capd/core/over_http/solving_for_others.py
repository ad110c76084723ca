"""Messages that the node solves for those who post over HTTP, within its share of a core."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count

import msgspec
from msgspec import Struct

from router.core.wire.text import counted
from router.service import contract as c
from router.service.http import HttpDeed, refused
from services.capd.solve_job import Work, Worked

from .. import messages as m
from ..message import NEVER, NO_HASH, CapdMessage
from ..priority import RELAY_PRIORITY
from ..solving import HARDER_MAX, Draft, Unsolvable, bits_of_priority, born_at, priority_for
from .forms import UnsolvedMessage
from .limits import OverHttpLimits
from .questions import PoolQuestions
from .solver_share import Job, SolverShare, TooMuchWork

SOLVE, FUNCTION = "solve/", "services.capd.solve_job:solve"
"""How the tags of work begin, and what does it."""
CLOSED = (
    "this node does no work for others; do it yourself, as capd.js does in a page, or let its operator set "
    "solve_cpu_percent of the pool"
)

HandIn = Callable[[CapdMessage, c.Now], Iterator[HttpDeed]]
"""Hands a solved message in."""


class _UnderWay(Struct):
    number: int
    draft: Draft
    job: Job
    hand_in: HandIn


class SolvingForOthers:
    """The messages whose work is under way, by the tag of the work."""

    def __init__(self, percent: float, questions: PoolQuestions, limits: OverHttpLimits, chance: c.Chance) -> None:
        self._share = SolverShare(percent, limits)
        self._questions = questions
        self._chance = chance
        self._numbers = count(1)
        self._under_way: dict[str, _UnderWay] = {}

    def __repr__(self) -> str:
        return f"<{counted(len(self._under_way), 'message')} to solve>"

    @property
    def is_open(self) -> bool:
        """Whether the node solves messages at all."""
        return self._share.is_open

    def begin(self, number: int, caller: str, wish: UnsolvedMessage, hand_in: HandIn, now: c.Now) -> Iterator[HttpDeed]:
        """Ask for the pool's line, by which the work is measured."""
        if not self.is_open:
            yield refused(number, 403, "no-solver", CLOSED)
            return
        then = partial(self._solve, number, caller, wish, hand_in)
        yield from self._questions.ask(m.Info, number=number, then=then, now=now)

    def _solve(
        self, number: int, caller: str, wish: UnsolvedMessage, hand_in: HandIn, info: m.PoolInfo, now: c.Now
    ) -> Iterator[HttpDeed]:
        try:
            draft = self._draft(wish, max(RELAY_PRIORITY, info.relay), int(now.wall_s))
            job = self._share.begin(caller, draft.difficulty_bits, now.mono_s)
        except Unsolvable as error:
            yield refused(number, 422, "unsolvable", str(error))
            return
        except TooMuchWork as error:
            again = (("Retry-After", "10"),) if error.later else ()
            yield refused(number, 503 if error.later else 422, error.reason, str(error), *again)
            return
        tag = f"{SOLVE}{next(self._numbers)}"
        self._under_way[tag] = _UnderWay(number, draft, job, hand_in)
        work = Work(draft.solved(b"").stage1(), draft.difficulty_bits, job.attempts_max)
        yield c.Compute(FUNCTION, msgspec.msgpack.encode(work), tag)

    def _draft(self, wish: UnsolvedMessage, line: float, now_s: int) -> Draft:
        """Return the message to be solved. Raise `Unsolvable`."""
        data, harder_by = bytes.fromhex(wish.data), self._chance.randrange(HARDER_MAX)
        return Draft(
            data,
            born_at(now_s, wish.relay_for),
            bits_of_priority(priority_for(wish.relay_for, line), len(data), harder_by),
            NEVER if wish.expiration is None else wish.expiration,
            NO_HASH if wish.rescind_hash is None else bytes.fromhex(wish.rescind_hash),
        )

    def computed(self, heard: c.Computed, now: c.Now) -> Iterator[HttpDeed]:
        """Hand in the message whose work is done."""
        one = self._under_way.pop(heard.tag, None)
        if one is None:
            return
        worked = Worked(None, one.job.charged_ms)
        if not heard.error:
            worked = msgspec.msgpack.decode(heard.result, type=Worked)
        self._share.end(one.job, worked.spent_ms, now.mono_s)
        if worked.nonce is None:
            said = f"the work could not be done: {heard.error or 'no nonce was found in time'}; ask again"
            yield refused(one.number, 503, "not-solved", said, ("Retry-After", "5"))
        else:
            yield from one.hand_in(one.draft.solved(worked.nonce), now)
