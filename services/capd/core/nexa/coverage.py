"""Which messages were announced to one neighbour: all from a priority on, which the message loses as it ages.

A message is announced when it is taken, if it is at or above the line then in force. What is held back, because the
line is higher or the neighbour does not read, raises `covered`; when the line is below that, the pool's messages are
gone through once more, page by page, and those in between are announced.
"""

from __future__ import annotations

from math import inf, nextafter

from router.core.link.allowance import Allowance

PASS_S = 10.0
"""Seconds between the beginnings of two passes over the pool's messages for one neighbour."""
IDS_PER_S, IDS_BURST = 2_000.0, 20_000.0
"""Ids that passes announce to one neighbour: at another pool of ours they cost half of its allowance at most."""
PAGE_IDS = 2_000
"""Ids in one announcement of a pass."""
EVERYTHING = 1 << 64


class Coverage:
    """What was announced to one neighbour. `covered`: each message of this priority or a higher one was announced, or
    cannot be. `at`: the number of the message after which a pass goes on; None between passes."""

    def __init__(self) -> None:
        self.covered = inf
        self.at: int | None = None
        self.line = inf
        """The line of the pass that is under way."""
        self.upto = 0
        """The number of the last message that the pass announces; the first pass those that were held at the
        greeting."""
        self._held_back = -inf
        self._next_s = -inf
        self._allowance = Allowance(IDS_PER_S, IDS_BURST)

    def __repr__(self) -> str:
        return f"<Coverage: from {self.covered:.4g} on, a pass is at {self.at}>"

    def greeted(self, last: int) -> None:
        """Record the number of the last message that was held at the greeting: none of them was announced."""
        self.upto = last

    def hold_back(self, priority: float) -> None:
        """Record that a message of this priority was not announced."""
        above = nextafter(priority, inf)
        self.covered, self._held_back = max(self.covered, above), max(self._held_back, above)

    def listed(self, line: float, *, is_first: bool) -> None:
        """Record that the neighbour has a page listed of what is held from this line on, as pools of ours do, and the
        first page or a later one."""
        self.covered, self.at = line if is_first else max(self.covered, line), None

    def is_due(self, line: float, now_s: float) -> bool:
        """Whether a pass goes on, or begins now because messages at or above this line were not announced."""
        if self.at is None and line < self.covered and now_s >= self._next_s:
            if self.covered < inf:
                self._held_back, self.upto = -inf, EVERYTHING
            self.at, self.line, self._next_s = 0, line, now_s + PASS_S
        return self.at is not None

    def may_announce(self, now_s: float) -> bool:
        """Whether the pass may announce one more page now."""
        return self._allowance.take(PAGE_IDS, now_s)

    def went_on(self, at: int | None) -> None:
        """Record the number up to which the pass has gone, None at the end of the pool."""
        self.at = None if at is None or at >= self.upto else at
        if self.at is None:
            self.covered = max(self.line, self._held_back)
