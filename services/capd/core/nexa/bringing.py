"""Judges the messages that neighbours bring, and those with which they answer our questions.

Brought are messages that were announced, or are pushed: they have a relay priority, or cost points. An answer may hold
whatever the neighbour holds; it begins with what was asked for, and the pool judges it like a wallet's message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from router.core.wire.reasons import Reason
from router.service import contract as c
from services.capd import reasons
from services.capd.core import notes
from services.capd.core.answers import PoolAnswers
from services.capd.core.holdings import Holdings
from services.capd.core.limits import Profile
from services.capd.core.message import CapdMessage
from services.capd.core.pool import Known, Rejected, Taken
from services.capd.core.priority import RELAY_PRIORITY, aged
from services.capd.core.turned_away import TurnedAway

from .addresses import network_of
from .fetching import Fetching
from .limits import UNIT_BYTES, UNIT_IDS
from .neighbour import Neighbour
from .sent_lines import GRACE_S
from .serving import Serving

BELOW_POINTS = NOT_ASKED_POINTS = 1
_Found = tuple[Taken, CapdMessage]


class Bringing:
    """Judges messages for one pool."""

    def __init__(
        self,
        holdings: Holdings,
        answers: PoolAnswers,
        turned_away: TurnedAway,
        fetching: Fetching,
        serving: Serving,
        profile: Profile,
    ) -> None:
        self._holdings = holdings
        self._answers = answers
        self._turned_away = turned_away
        self._fetching = fetching
        self._serving = serving
        self._is_strict = profile is Profile.STRICT

    def __repr__(self) -> str:
        return f"<Bringing to {self._holdings!r}>"

    # -- messages that neighbours bring --------------------------------------------------------------------

    def brought(self, neighbour: Neighbour, messages: Iterable[CapdMessage], now: c.Now) -> Iterator[c.Deed]:
        """Judge messages one by one, and take those that are not rejected, in one transaction."""
        taken: list[_Found] = []
        for message in messages:
            units = 1 + len(message.data) // UNIT_BYTES
            if not neighbour.pay(units, now.mono_s):
                break
            own_id = message.own_id()
            was_asked = self._fetching.came(neighbour, own_id)
            verdict: Taken | Known | Rejected | None = self._below(neighbour, message, now)
            if verdict is None:
                verdict, deeds = self._holdings.add(message, own_id, int(now.wall_s))
                yield from deeds
            match verdict:
                case Rejected():
                    yield from self._rejected(neighbour, own_id, verdict, now)
                case Known(row):
                    self._known(neighbour, own_id)
                    if not self._is_strict and self._holdings.pool.standing(row, int(now.wall_s)).is_served:
                        self._serving.tell(row, again=True)
                case Taken():
                    taken.append((verdict, message))
            if isinstance(verdict, Taken) or (was_asked and not isinstance(verdict, Rejected)):
                neighbour.refund(units, now.mono_s)
        yield from self._taken(neighbour, taken, now)

    def _below(self, neighbour: Neighbour, message: CapdMessage, now: c.Now) -> Rejected | None:
        """Reject a message below the priority that neighbours may bring; one below the ban line also costs a point.

        Under `compat` the relay floor is the ban line, without grace, and a message from the future is below it."""
        now_s, initial, created = int(now.wall_s), message.initial_priority, message.create_time
        priority = aged(initial, created, now_s)
        is_future = created > now_s
        if self._is_strict:
            earlier = aged(initial, created, max(created, now_s - GRACE_S))
            is_charged = not is_future and earlier < neighbour.sent_lines.ban_line(now.mono_s)
        else:
            is_charged = priority < RELAY_PRIORITY
        if is_charged:
            neighbour.charge(BELOW_POINTS, f"a message of priority {priority:.4g}", now.mono_s)
        if is_future or not (is_charged or priority < RELAY_PRIORITY):
            return None  # the pool judges the future and the work, with reasons of its own
        return Rejected(reasons.BELOW_LINE, f"{priority:.4g}; neighbours may bring {RELAY_PRIORITY:g}")

    def _rejected(self, neighbour: Neighbour, own_id: bytes, rejected: Rejected, now: c.Now) -> Iterator[c.Deed]:
        neighbour.counts["turned_away"] += 1
        if rejected.reason is Reason.DISK_FULL:
            self._fetching.want(neighbour, own_id, now.mono_s)
        elif rejected.reason is not reasons.FUTURE:
            self._fetching.decline(own_id, now.mono_s)
        yield from self._turned_away.rejected(neighbour.name, own_id, rejected, now, network_of(neighbour.host))

    def _known(self, neighbour: Neighbour, own_id: bytes) -> None:
        neighbour.counts["known"] += 1
        self._holdings.has_outside((own_id,), neighbour.name)

    def _taken(self, neighbour: Neighbour, taken: list[_Found], now: c.Now) -> Iterator[c.Deed]:
        neighbour.counts["taken"] += len(taken)
        yield from notes.evicted([one for one, _ in taken])
        yield from notes.accepted([one.row for one, _ in taken], neighbour.name, int(now.wall_s))
        for one, message in taken:
            yield from self._answers.tell(one.row, message, int(now.wall_s))

    # -- answers to our questions --------------------------------------------------------------------------

    def answered(
        self, neighbour: Neighbour, content: bytes, messages: tuple[CapdMessage, ...], now: c.Now
    ) -> Iterator[c.Deed]:
        """Judge the messages of an answer to the question for a content, in this order: the oldest first. What is below
        the pool's own line is left out: a Nexa node holds for ever what has faded."""
        now_s, taken = int(now.wall_s), list[_Found]()
        neighbour.pay(len(messages) // UNIT_IDS, now.mono_s)
        for message in messages:
            if not message.data.startswith(content):
                yield from self.unasked(neighbour, message.own_id(), now)
                continue
            if message.create_time <= now_s and not message.priority(now_s) >= self._holdings.pool.local_line(now_s):
                neighbour.counts["faded"] += 1
                continue
            own_id = message.own_id()
            verdict, deeds = self._holdings.add(message, own_id, now_s)
            yield from deeds
            match verdict:
                case Rejected():
                    neighbour.pay(1, now.mono_s)
                    yield from self._rejected(neighbour, own_id, verdict, now)
                case Known():
                    self._known(neighbour, own_id)
                case Taken():
                    taken.append((verdict, message))
        yield from self._taken(neighbour, taken, now)

    def unasked(
        self, neighbour: Neighbour, own_id: bytes, now: c.Now, points: int = NOT_ASKED_POINTS
    ) -> Iterator[c.Deed]:
        """Charge a neighbour for a message in an answer that it was not asked for."""
        neighbour.counts["not_asked"] += 1
        neighbour.pay(1, now.mono_s)
        neighbour.charge(points, "answers with what it was not asked for", now.mono_s)
        rejected = Rejected(reasons.NOT_ASKED)
        yield from self._turned_away.rejected(neighbour.name, own_id, rejected, now, network_of(neighbour.host))
