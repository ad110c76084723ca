"""The choice of candidates to meet, and the back-off of those that were not there (R-C32)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import NamedTuple

from msgspec import Struct

from router.core.wire.crypto import PublicKey
from router.service.contract import Chance
from services.pubsub.core.known import Neighbour
from services.pubsub.core.rings.topic_ring import TopicRing
from services.pubsub.core.rings.view import Seat


class CandidateLimits(Struct, frozen=True):
    """At most `meetings_max` candidates are met in a period, each for `meeting_s`.

    One that was not there rests for `rest_s`, each time twice as long up to `rest_max_s`. A lost neighbour is met again
    after its rest, `times_max` times in all. `resting_max`: candidates whose rest is remembered; `bringers_max`:
    routers whose absent candidates are counted; beyond these the oldest are forgotten.
    """

    meetings_max: int = 2
    meeting_s: float = 10.0
    rest_s: float = 15.0
    rest_max_s: float = 600.0
    times_max: int = 16
    resting_max: int = 1_024
    bringers_max: int = 256


class Rest(NamedTuple):
    """Back-off of one candidate: the time before which it is not met again, the number of its failures, and whether it
    has been a neighbour."""

    until_s: float
    times: int
    neighbour: Neighbour
    is_lost: bool


class Meeting(NamedTuple):
    """A meeting: the time until which the candidate is waited for, and the router that named it."""

    until_s: float
    neighbour: Neighbour
    by: bytes | None


class Candidates:
    """Chooses the candidates to meet: the nearest first; those named by routers whose candidates are often absent
    last. Those in `barred` are met only for a topic without neighbours."""

    __slots__ = ("_absent", "_barred", "_limits", "_meetings", "_rests", "_suggested")

    def __init__(self, limits: CandidateLimits, barred: AbstractSet[PublicKey] = frozenset()) -> None:
        self._limits = limits
        self._barred = barred
        self._meetings: dict[PublicKey, Meeting] = {}
        self._rests: dict[PublicKey, Rest] = {}
        self._absent: dict[bytes, int] = {}
        self._suggested: tuple[Neighbour, ...] = ()

    def __repr__(self) -> str:
        return f"<{len(self._meetings)} candidates are met, {len(self._rests)} rest>"

    def choose(
        self, rings: Sequence[TopicRing], chance: Chance, now_s: float, *, is_any_alone: bool
    ) -> Iterator[Neighbour]:
        """Yield the candidates to meet now: the nearest of all topics, then random ones, then lost neighbours.

        `rings`: those with candidates; `is_any_alone`: whether a topic has no neighbours."""
        left = self._limits.meetings_max
        for one in self._in_turn(rings, chance, now_s, is_any_alone=is_any_alone):
            if not left:
                return
            if one.neighbour.router not in self._meetings:
                left -= 1
                self._meetings[one.neighbour.router] = one._replace(until_s=now_s + self._limits.meeting_s)
                yield one.neighbour

    def suggest(self, found: Sequence[Neighbour]) -> None:
        """Add routers that may want the same groups: they are met after those near on a ring, or first if a topic has
        no neighbours."""
        self._suggested = tuple(found)

    def met(self, router: PublicKey, now_s: float, *, in_vain: bool) -> None:
        """Record a meeting; `in_vain`: a topic for which it was a candidate is not shared, so it rests."""
        meeting = self._meetings.pop(router, None)
        if not in_vain:
            self._rests.pop(router, None)
        elif meeting is not None:
            self._failed(meeting, now_s)

    def absent(self, router: PublicKey, now_s: float) -> None:
        """Record that a router could not be reached; a candidate rests."""
        meeting = self._meetings.pop(router, None)
        if meeting is not None:
            self._failed(meeting, now_s)

    def overdue(self, now_s: float) -> list[PublicKey]:
        """Return the candidates that did not answer in time."""
        return [router for router, one in self._meetings.items() if one.until_s <= now_s]

    def lost(self, neighbour: Neighbour, now_s: float) -> None:
        """Let a neighbour that did not answer rest, unless it rests already."""
        before = self._rests.get(neighbour.router)
        if before is None or not before.is_lost or before.until_s <= now_s:
            self._rest(neighbour, now_s, is_lost=True)

    def back(self, router: PublicKey) -> None:
        """Record that a lost neighbour is one again, so that it is not met for having been lost."""
        if (rest := self._rests.get(router)) is not None:
            self._rests[router] = rest._replace(is_lost=False)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _in_turn(
        self, rings: Sequence[TopicRing], chance: Chance, now_s: float, *, is_any_alone: bool
    ) -> Iterator[Meeting]:
        resting = {router for router, one in self._rests.items() if one.until_s > now_s}
        but = resting | self._meetings.keys()
        suggested = iter([Meeting(0, one, None) for one in self._suggested if one.router not in but])
        if is_any_alone:
            yield from islice(suggested, 1)
        found = [
            (self._absent.get(seat.by or b"", 0) // 4, rank, ring.since, at, seat)
            for at, ring in enumerate(rings)
            for rank, seat in ring.wishes(self._limits.meetings_max, self._kept_from(ring, but))
        ]
        yield from (_meeting(one[-1]) for one in sorted(found, key=lambda one: one[:4]))
        yield from suggested
        for ring in sorted(rings, key=lambda one: one.since):
            seat = ring.random_wish(self._kept_from(ring, but), chance)
            if seat is not None:
                yield _meeting(seat)
        for rest in list(self._rests.values()):
            if rest.is_lost and rest.until_s <= now_s:
                yield Meeting(0, rest.neighbour, None)

    def _kept_from(self, ring: TopicRing, but: AbstractSet[PublicKey]) -> AbstractSet[PublicKey]:
        return but | self._barred if self._barred and ring.neighbours else but

    def _failed(self, meeting: Meeting, now_s: float) -> None:
        if meeting.by is not None:
            _count(self._absent, meeting.by, self._limits.bringers_max)
        self._rest(meeting.neighbour, now_s, is_lost=False)

    def _rest(self, neighbour: Neighbour, now_s: float, *, is_lost: bool) -> None:
        limits, router = self._limits, neighbour.router
        before = self._rests.pop(router, None)
        times = before.times + 1 if before is not None else 1
        is_lost = is_lost or (before is not None and before.is_lost)
        while len(self._rests) >= limits.resting_max:
            del self._rests[next(iter(self._rests))]
        pause_s = min(limits.rest_max_s, limits.rest_s * 2 ** min(times - 1, 32))
        self._rests[router] = Rest(now_s + pause_s, times, neighbour, is_lost and times < limits.times_max)


def _meeting(seat: Seat) -> Meeting:
    return Meeting(0, seat.neighbour, seat.by)


def _count(counts: dict[bytes, int], key: bytes, most: int) -> None:
    count = counts.pop(key, 0)
    while len(counts) >= most:
        del counts[next(iter(counts))]
    counts[key] = count + 1
