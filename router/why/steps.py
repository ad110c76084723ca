"""The steps of one question about a message: events for the router's cycle, and deeds that take time."""

from __future__ import annotations

import time

from msgspec import Struct

from router.core.why.fate import Fate, Trace
from router.core.why.id_prefix import IdPrefix
from router.core.why.report import NeighbourReport
from router.disk.log.search import FoundEvents, LogSnapshot, Search
from router.disk.store.records import Record

INDEXING_S = 5.0
MISREAD = ValueError, LookupError, ArithmeticError, TypeError  # what parsing lines damaged on disk may raise


class Question(Struct, frozen=True):
    """A question that came over a link. `neighbour`: the key of the router that asks, None for a local app. `depth`:
    the number of further routers through which it may be passed on. `typed`: the text from which the prefix was parsed.
    `service`: the key of a local service that did not connect by the owner's socket, and may ask only about messages
    that it handed over itself. `mark`: the number under which it is answered."""

    link: int
    typed: str
    prefix: IdPrefix
    neighbour: bytes | None
    depth: int
    service: bytes | None = None
    mark: int | None = None

    @property
    def asker(self) -> bytes | None:
        """Return the key that may ask only about its own messages, one question at a time; None for the owner."""
        return self.neighbour or self.service


class Look(Struct, frozen=True):
    """One search of a question, the `number`-th. `gone`: the recipients, with the acceptance's sequence number, that at
    the search before were neither queued nor ended; the log was read after that, so only these are conclusive. `held`:
    the store's record of a message whose acceptance the log does not have."""

    number: int = 1
    held: Record | None = None
    gone: frozenset[tuple[int, str]] = frozenset()


class Find(Struct, frozen=True):
    """A deed: search the log in a thread by `find`, and pass the result to the cycle."""

    question: Question
    log: LogSnapshot
    look: Look

    def find(self) -> Searched:
        try:
            return Searched(self.question, self.look, search(self.log, self.question.prefix, self.look.held))
        except (OSError, *MISREAD) as error:
            return Searched(self.question, self.look, None, error)


class Searched(Struct, frozen=True):
    """The result of a search; `error`: why the log could not be searched."""

    question: Question
    look: Look
    found: FoundEvents | None
    error: Exception | None = None


class Begin(Struct, frozen=True):
    """Search for this question after `commits` more commits, when all decisions made so far are in the log."""

    question: Question
    commits: int


class Over(Struct, frozen=True):
    """The wait for other routers' answers is over."""

    round: Round


class Remind(Struct, frozen=True):
    """A deed: pass `news` to the cycle after `seconds`."""

    news: Over
    seconds: float


News = Searched | Begin | Over
Deeds = list[Find | Remind]


class Round:
    """The state of one question: what is known about it so far, and the routers that have not answered yet."""

    def __init__(self, question: Question, found: FoundEvents, trace: Trace, whole: Fate | None) -> None:
        self.question = question
        self.found = found
        self.trace = trace
        self.whole = whole
        self.missing: set[str] = set()
        self.reports: dict[str, NeighbourReport] = {}
        self.is_told = False

    def __repr__(self) -> str:
        return f"<question about {self.trace.identity.hex()[:8]}: {len(self.missing)} routers have not answered>"


def search(log: LogSnapshot, prefix: IdPrefix, held: Record | None) -> FoundEvents:
    """Search the log, in a thread; create missing indexes until `INDEXING_S` is over."""
    give_up_s = time.monotonic() + INDEXING_S
    one = Search(log, lambda: time.monotonic() < give_up_s)
    return one.find(prefix) if held is None else one.find_held(held)
