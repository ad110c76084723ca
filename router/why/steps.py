"""What one question about a message goes through: values that the router's cycle hears, and deeds that take time."""

from __future__ import annotations

import time
from dataclasses import dataclass

from router.core.why.fate import Fate, Trace
from router.core.why.id_prefix import IdPrefix
from router.core.why.report import Report
from router.disk.log.search import Found, Log, Search
from router.disk.store.records import Record

INDEXING_S = 5.0
MISREAD = ValueError, LookupError, ArithmeticError, TypeError  # what lines that the disk has spoilt may end in


@dataclass(frozen=True, slots=True)
class Question:
    """From a link; `neighbour`: the key of the router that asks, None for a local app. `depth`: so many routers
    further it may be carried. `typed`: what the prefix was read from. `service`: the key of a local service that did
    not come by the owner's socket, and asks only about what it handed over."""

    link: int
    typed: str
    prefix: IdPrefix
    neighbour: bytes | None
    depth: int
    service: bytes | None = None

    @property
    def asker(self) -> bytes | None:
        """Who is told only about what it handed over, and has one question open at a time; None: the owner."""
        return self.neighbour or self.service


@dataclass(frozen=True, slots=True)
class Look:
    """The `number`-th search of one question. `gone`: who was neither queued nor ended at the one before, of the
    acceptance with that sequence number: the log was taken after that, so that only these are conclusive. `held`: what
    the store says of the message, of whose acceptance the log knew nothing."""

    number: int = 1
    held: Record | None = None
    gone: frozenset[tuple[int, str]] = frozenset()


@dataclass(frozen=True, slots=True)
class Find:
    """A deed: search the log in a thread, `find`, and let the cycle hear what comes of it."""

    question: Question
    log: Log
    look: Look

    def find(self) -> Searched:
        try:
            return Searched(self.question, self.look, search(self.log, self.question.prefix, self.look.held))
        except (OSError, *MISREAD) as error:
            return Searched(self.question, self.look, None, error)


@dataclass(frozen=True, slots=True)
class Searched:
    """The log has been searched; `error`: why it could not be."""

    question: Question
    look: Look
    found: Found | None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Begin:
    """Search for this one, when what was decided so far is in the log: after so many commits."""

    question: Question
    commits: int


@dataclass(frozen=True, slots=True)
class Over:
    """Nobody waits any longer for what other routers answer."""

    round: Round


@dataclass(frozen=True, slots=True)
class Remind:
    """A deed: let the cycle hear this after so many seconds."""

    news: Over
    seconds: float


News = Searched | Begin | Over
Deeds = list[Find | Remind]


class Round:
    """What one question has brought to light, and who has not answered yet."""

    def __init__(self, question: Question, found: Found, trace: Trace, whole: Fate | None) -> None:
        self.question = question
        self.found = found
        self.trace = trace
        self.whole = whole
        self.missing: set[str] = set()
        self.reports: dict[str, Report] = {}
        self.is_told = False

    def __repr__(self) -> str:
        return f"<question about {self.trace.identity.hex()[:8]}: {len(self.missing)} routers have not answered>"


def search(log: Log, prefix: IdPrefix, held: Record | None) -> Found:
    """In a thread. Missing indexes are made for so long as somebody waits with patience."""
    give_up_s = time.monotonic() + INDEXING_S
    one = Search(log, lambda: time.monotonic() < give_up_s)
    return one.find(prefix) if held is None else one.find_held(held)
