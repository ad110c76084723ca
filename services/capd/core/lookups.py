"""Searches of wallets for which neighbours are asked as well, and the contents of standing queries.

Neighbours search for whole first bytes only: 16, 8, 4 or 2 of them, the most that a pattern begins with. What they
answer comes into the pool by its own work, and the waiting search finds it there.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable

from router.core.link.allowance import Allowance

from .pattern import Pattern
from .watches import Watches

WAIT_S = 3.0
"""Seconds for which a search waits for neighbours."""
FRESH_S = 30.0
"""Seconds for which neighbours are not asked again for the same content."""
PER_S, BURST = 10.0, 100.0
"""Contents for which neighbours are asked, of all wallets together; beyond that a search finds what is held here."""
FRESH_MAX = 10_000
STANDING_MAX = 256
"""Most contents of standing queries that a neighbour is asked to watch for: as many as a pool of ours allows."""


class Lookups:
    """The contents that neighbours are asked for, and the neighbours that have not answered."""

    def __init__(self, watches: Watches) -> None:
        self._watches = watches
        self._allowance = Allowance(PER_S, BURST)
        self._new: list[bytes] = []
        self._open: dict[bytes, tuple[set[Hashable], float]] = {}
        self._fresh: dict[bytes, float] = {}
        self._contents: tuple[int, tuple[bytes, ...]] = (-1, ())
        self._has_neighbours = False

    def __repr__(self) -> str:
        return f"<Lookups: {len(self._open)} are under way>"

    # -- of wallets ----------------------------------------------------------------------------------------

    def look(self, pattern: Pattern, now_s: float) -> bytes | None:
        """Have neighbours asked for a pattern; return the content for which the search is to wait, None if it need
        not."""
        content = pattern.wire_prefix()
        if content in self._open:
            return content
        if not content or not self._has_neighbours or now_s - self._fresh.get(content, -FRESH_S) < FRESH_S:
            return None
        if not self._allowance.take(1, now_s):
            return None
        self._fresh.pop(content, None)
        self._fresh[content] = now_s
        if len(self._fresh) > FRESH_MAX:
            del self._fresh[next(iter(self._fresh))]
        self._new.append(content)
        self._open[content] = set(), now_s + WAIT_S
        return content

    def is_open(self, content: bytes) -> bool:
        """Whether neighbours are still to answer for a content."""
        return content in self._open

    # -- of neighbours -------------------------------------------------------------------------------------

    def standing(self) -> tuple[bytes, ...]:
        """Return the contents of the standing queries of wallets, at most `STANDING_MAX`."""
        if self._contents[0] != self._watches.changes:
            found = dict.fromkeys(pattern.wire_prefix() for pattern in self._watches.patterns())
            found.pop(b"", None)
            self._contents = self._watches.changes, tuple(found)[:STANDING_MAX]
        return self._contents[1]

    def take(self, neighbours: Collection[Hashable]) -> list[bytes]:
        """Return the contents for which these neighbours, all that can be asked, are to be asked now."""
        self._has_neighbours = bool(neighbours)
        new, self._new = [content for content in self._new if content in self._open], []  # the others waited too long
        for content in new:
            self._open[content][0].update(neighbours)
            self._close(content)
        return new

    def answered(self, content: bytes, neighbour: Hashable) -> None:
        """Record that a neighbour has answered for a content, or will not."""
        if content in self._open:
            self._open[content][0].discard(neighbour)
            self._close(content)

    def gone(self, neighbour: Hashable) -> None:
        """Record that a neighbour answers no more."""
        for content in list(self._open):
            self.answered(content, neighbour)

    def expire(self, now_s: float) -> None:
        """End the waiting for neighbours that have not answered in time."""
        for content in [one for one, (_, until_s) in self._open.items() if until_s <= now_s]:
            del self._open[content]

    def _close(self, content: bytes) -> None:
        if not self._open[content][0]:
            del self._open[content]
