"""An hour of traffic: counts and depths of each half minute, in bounded memory."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence

from msgspec import Struct

from router.core.wire.text import counted

from .facts import Metrics

WINDOW_S = 30
WINDOWS = 120
"""Windows that are remembered: an hour."""
GAP_S = 90.0
"""Seconds between two samples after which what was counted between them belongs to no window."""
TAKEN, HANDED, ENDED = (
    ("accepted",),
    ("delivered", "acked", "unconfirmed"),
    ("refused", "dropped", "expired", "evicted"),
)
"""Events of messages that came, of those that reached somebody, and of those that ended otherwise."""


class Window(Struct, kw_only=True):
    """Half a minute. `number`: how many windows the clock had before; `seen_s`: seconds of it that samples cover;
    `ended`: messages that ended undelivered, by event and reason."""

    number: int
    seen_s: float = 0.0
    accepted: int = 0
    delivered: int = 0
    waiting: int = 0
    ended: Counter[tuple[str, str]]


class Hour:
    """The windows of the last hour, the oldest first; those without a sample are missing."""

    def __init__(self) -> None:
        self._windows: deque[Window] = deque(maxlen=WINDOWS)
        self._last: Counter[tuple[str, str]] | None = None
        self._last_s = 0.0

    def __repr__(self) -> str:
        return f"<{counted(len(self._windows), 'window')} of traffic>"

    def add(self, metrics: Metrics, mono_s: float) -> None:
        """Add what was counted since the last sample; counts that have become smaller began again."""
        counts = Counter({(event, reason): count for event, reason, count in metrics.messages})
        last, span_s = self._last, mono_s - self._last_s
        window = self._window(int(mono_s // WINDOW_S))
        window.waiting = max(window.waiting, metrics.queue.messages)
        if last is not None and span_s <= GAP_S:
            since = Counter({key: n - last[key] if n >= last[key] else n for key, n in counts.items()})
            window.seen_s += span_s
            window.accepted += _sum(since, TAKEN)
            window.delivered += _sum(since, HANDED)
            window.ended += Counter({key: n for key, n in since.items() if key[0] in ENDED and n})
        self._last, self._last_s = counts, mono_s

    def _window(self, number: int) -> Window:
        if not self._windows or self._windows[-1].number < number:
            self._windows.append(Window(number=number, ended=Counter()))
        return self._windows[-1]

    def series(self, mono_s: float) -> Sequence[Window | None]:
        """Return the windows up to now, None where there was no sample."""
        last = int(mono_s // WINDOW_S)
        found = {one.number: one for one in self._windows}
        return [found.get(number) for number in range(last - WINDOWS + 1, last + 1)]

    def ended(self, mono_s: float, within_s: float = WINDOWS * WINDOW_S) -> Counter[tuple[str, str]]:
        """Return how many messages ended undelivered lately, by event and reason."""
        first = int((mono_s - within_s) // WINDOW_S)
        found = Counter[tuple[str, str]]()
        for one in self._windows:
            if one.number > first:
                found += one.ended
        return found

    def accepted(self, mono_s: float, within_s: float) -> int:
        """Return how many messages were accepted lately."""
        first = int((mono_s - within_s) // WINDOW_S)
        return sum(one.accepted for one in self._windows if one.number > first)


def _sum(counts: Counter[tuple[str, str]], events: Sequence[str]) -> int:
    return sum(count for (event, _), count in counts.items() if event in events)
