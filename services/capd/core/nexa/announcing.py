"""Announces messages to neighbours: what was taken just now, and, from line to line, what was not announced before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, isnan

from router.service import contract as c
from services.capd.core.columns import Row
from services.capd.core.holdings import Holdings
from services.capd.core.limits import Profile
from services.capd.core.priority import aged

from .commands import INV_IDS_MAX, Inv
from .coverage import PAGE_IDS
from .limits import NexaLimits
from .neighbour import Neighbour
from .passing_on import PassingOn

LINES_WITHIN_S = 10.0
"""Seconds that a neighbour has to tell its line; after them it is announced what is held, from the relay floor on."""


class Announcing:
    """Announces the messages of one pool."""

    def __init__(self, holdings: Holdings, passing_on: PassingOn, profile: Profile, limits: NexaLimits) -> None:
        self._holdings = holdings
        self._passing_on = passing_on
        self._is_strict = profile is Profile.STRICT
        self._limits = limits

    def __repr__(self) -> str:
        return f"<Announcing for {self._holdings!r}>"

    def line_of(self, neighbour: Neighbour, now_s: int) -> float:
        """Return the line from which messages are announced to a neighbour: its own, under `strict` also ours."""
        line = inf if isnan(neighbour.line) else neighbour.line
        return max(line, self._holdings.pool.relay_line(now_s)) if self._is_strict else line

    def taken(self, rows: Iterable[Row], neighbours: Sequence[Neighbour], now_s: int) -> None:
        """Announce messages that were taken just now, to all neighbours; hold back those below a neighbour's line, and
        all while it does not read."""
        passed_on = [row for row in rows if self._passing_on.is_passed_on(row, now_s)]
        found = [(row, aged(row.initial, row.create_time, now_s)) for row in passed_on]
        for neighbour in neighbours if found else ():
            line, reads = self.line_of(neighbour, now_s), self._reads(neighbour)
            ids: list[bytes] = []
            for row, priority in found:
                if reads and priority >= line:
                    ids.append(row.id)
                else:
                    neighbour.coverage.hold_back(priority)
            self._say(neighbour, ids)
            neighbour.counts["held_back"] += len(found) - len(ids)

    def due(self, neighbour: Neighbour, now: c.Now) -> None:
        """Announce what was not announced before, as far as the neighbour reads; called about once a second."""
        coverage, now_s = neighbour.coverage, int(now.wall_s)
        if not neighbour.has_told_line and now.mono_s - neighbour.opened_s < LINES_WITHIN_S:
            return
        if not coverage.is_due(self.line_of(neighbour, now_s), now.mono_s):
            return
        while coverage.at is not None and self._reads(neighbour) and coverage.may_announce(now.mono_s):
            rows = self._holdings.pool.between(coverage.at, coverage.line, coverage.covered, PAGE_IDS, now_s)
            held = [one for one in rows if one.number <= coverage.upto and self._passing_on.is_passed_on(one, now_s)]
            self._say(neighbour, [row.id for row in held])
            coverage.went_on(rows[-1].number if len(rows) == PAGE_IDS else None)

    def _reads(self, neighbour: Neighbour) -> bool:
        return neighbour.unread_bytes + neighbour.session.queued_bytes < self._limits.announce_bytes

    def _say(self, neighbour: Neighbour, ids: Sequence[bytes]) -> None:
        for at in range(0, len(ids), INV_IDS_MAX):
            neighbour.say(Inv(tuple(ids[at : at + INV_IDS_MAX])))
        neighbour.counts["announced"] += len(ids)
        self._holdings.outside.announced(ids, neighbour.name)
