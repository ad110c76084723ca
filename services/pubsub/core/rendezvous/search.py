"""A search for the routers nearest to a point, and what lies there: asks the nearest known, who tell of nearer ones.

`Search` decides whom to ask; its caller asks, verifies the advertisements in answers, and says who did not answer. The
search is over when the nearest `storers` of all that did not fail have answered, or after `asks_max` questions.

Those who are asked may lie. So a router counts only once it has answered; of one public network only few are asked;
and if two routers that somebody named do not answer, the others that it alone named are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum

from msgspec import Struct

from router.core.wire.crypto import PublicKey
from services.pubsub.core.rendezvous.points import PLACE_BYTES, Contact, place_of
from services.pubsub.core.rendezvous.words import BUT_MAX, NEAR_MAX


class SearchLimits(Struct, frozen=True):
    """The numbers of a search.

    `storers`: routers at which a record is left. `at_once`: questions that are open at a time. `asks_max`: questions of
    a search. `of_prefix_max`: routers of one public network among the nearest. `in_vain_max`: routers named by one
    answerer that did not answer, after which the rest is left out. `known_max`: routers that are remembered."""

    storers: int = 6
    at_once: int = 4
    asks_max: int = 40
    of_prefix_max: int = 2
    in_vain_max: int = 2
    known_max: int = 128


class State(Enum):
    """How far a router has come in a search."""

    NEW, ASKED, ANSWERED, FAILED = range(4)


class Candidate(Struct):
    """A router that may be near; `by`: who named it first, None if it was known."""

    contact: Contact
    by: PublicKey | None
    state: State = State.NEW


class Search:
    """One search. `known`: routers from which it begins."""

    __slots__ = ("_candidates", "_in_vain", "_limits", "_own", "_place", "asks", "point")

    def __init__(
        self, point: bytes, own: PublicKey, known: Iterable[Contact], limits: SearchLimits | None = None
    ) -> None:
        self.point = point
        self.asks = 0
        self._own = own
        self._place = place_of(point)
        self._limits = limits or SearchLimits()
        self._in_vain = Counter[PublicKey]()
        self._candidates: dict[PublicKey, Candidate] = {}
        self._add(known, None)

    def __repr__(self) -> str:
        return f"<search: {self.asks} asked of {len(self._candidates)} known>"

    @property
    def is_done(self) -> bool:
        return not self._open and not self._to_ask()

    @property
    def storers(self) -> tuple[Contact, ...]:
        """Return the nearest routers that have answered, the nearest first."""
        answered = [one.contact for one in self._nearest() if one.state is State.ANSWERED]
        return tuple(answered[: self._limits.storers])

    @property
    def but(self) -> tuple[bytes, ...]:
        """Return the beginnings of the nearest known keys, of which nobody need tell again."""
        keys = [one.contact.router[:PLACE_BYTES] for one in self._sorted() if one.state is not State.FAILED]
        return tuple(keys[:BUT_MAX])

    def next_asks(self) -> list[PublicKey]:
        """Return the routers to be asked now, each once in a search."""
        room = min(self._limits.at_once - self._open, self._limits.asks_max - self.asks)
        chosen = self._to_ask()[: max(0, room)]
        for one in chosen:
            one.state = State.ASKED
        self.asks += len(chosen)
        return [one.contact.router for one in chosen]

    def answer(self, by: PublicKey, near: Iterable[Contact]) -> bool:
        """Take in an answer, whose advertisements are verified; return False if none was awaited of that router."""
        asked = self._candidates.get(by)
        if asked is None or asked.state is not State.ASKED:
            return False
        asked.state = State.ANSWERED
        self._add(list(near)[:NEAR_MAX], by)
        return True

    def fail(self, router: PublicKey) -> None:
        """Leave out a router that was asked and does not answer."""
        asked = self._candidates.get(router)
        if asked is None or asked.state is not State.ASKED:
            return
        asked.state = State.FAILED
        if asked.by is None:
            return
        self._in_vain[asked.by] += 1
        if self._in_vain[asked.by] >= self._limits.in_vain_max:
            for one in self._candidates.values():
                if one.by == asked.by and one.state is State.NEW:
                    one.state = State.FAILED

    @property
    def _open(self) -> int:
        return sum(one.state is State.ASKED for one in self._candidates.values())

    def _to_ask(self) -> list[Candidate]:
        """Return those of the nearest that were not asked yet."""
        if self.asks >= self._limits.asks_max:
            return []
        return [one for one in self._nearest()[: self._limits.storers] if one.state is State.NEW]

    def _sorted(self) -> list[Candidate]:
        return sorted(self._candidates.values(), key=lambda one: one.contact.place ^ self._place)

    def _nearest(self) -> list[Candidate]:
        """Return the candidates that did not fail, the nearest first, and few of one public network."""
        found, prefixes = list[Candidate](), Counter[bytes]()
        for one in self._sorted():
            prefix = one.contact.prefix
            if one.state is State.FAILED or (prefix is not None and prefixes[prefix] >= self._limits.of_prefix_max):
                continue
            if prefix is not None:
                prefixes[prefix] += 1
            found.append(one)
        return found

    def _add(self, contacts: Iterable[Contact], by: PublicKey | None) -> None:
        if by is not None and self._in_vain[by] >= self._limits.in_vain_max:
            return
        for one in contacts:
            if one.router != self._own and one.router not in self._candidates:
                self._candidates[one.router] = Candidate(one, by)
        while len(self._candidates) > self._limits.known_max:
            farthest = next((one for one in reversed(self._sorted()) if one.state is State.NEW), None)
            if farthest is None:
                return
            del self._candidates[farthest.contact.router]
