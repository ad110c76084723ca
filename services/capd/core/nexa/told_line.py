"""The line that a neighbour was told: what it sends far below that line costs it points, after a minute of grace.

A line moves, and messages are under way: so the lowest line of the last 60 s counts, a message is judged by what its
priority was 60 s ago, and only what was below half of the line is charged.
"""

from __future__ import annotations

from collections import deque

from services.capd.core.priority import RELAY_PRIORITY

GRACE_S = 60
SHARE = 2


class ToldLine:
    """The relay lines that one neighbour was told, the last minute's."""

    def __init__(self) -> None:
        self._lines: deque[tuple[float, float]] = deque()  # when a later one was told, and the line
        self._last = RELAY_PRIORITY

    def __repr__(self) -> str:
        return f"<ToldLine: {self._last:.4g}>"

    def tell(self, line: float, now_s: float) -> None:
        """Hear that the neighbour is told this line."""
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
