"""The relay lines sent to a neighbour: messages far below them cost it points, after a minute of grace.

A line moves, and messages take time to arrive. So the lowest line of the last 60 s counts, a message is judged by its
priority of 60 s ago, and only one below half of the line is charged.
"""

from __future__ import annotations

from collections import deque

from services.capd.core.priority import RELAY_PRIORITY

GRACE_S = 60
SHARE = 2


class SentLines:
    """The relay lines that were sent to one neighbour in the last minute."""

    def __init__(self) -> None:
        self._lines: deque[tuple[float, float]] = deque()  # when a later line was sent, and the line
        self._last = RELAY_PRIORITY

    def __repr__(self) -> str:
        return f"<SentLines: the last is {self._last:.4g}>"

    @property
    def last(self) -> float:
        """Return the line that was sent last."""
        return self._last

    def record(self, line: float, now_s: float) -> None:
        """Record a line that is sent to the neighbour."""
        if line != self._last:
            self._lines.append((now_s, self._last))
            self._last = line
        self._forget(now_s)

    def ban_line(self, now_s: float) -> float:
        """Return the priority below which a message costs points."""
        self._forget(now_s)
        return min((self._last, *(line for _, line in self._lines))) / SHARE

    def _forget(self, now_s: float) -> None:
        while self._lines and now_s - self._lines[0][0] >= GRACE_S:
            self._lines.popleft()
