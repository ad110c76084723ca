"""How many messages a second come, go and end, and how long they take: the difference of two answers."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence

from msgspec import Struct

from router.core.wire.text import counted

from .facts import Counted, Metrics

RATE_S = 10.0
"""Seconds over which messages are counted for a rate."""
WAIT_S = 60.0
"""Seconds over which times are counted: there are fewer of them."""
EVENTS = (
    ("accepted", ("accepted",)),
    ("delivered", ("delivered", "unconfirmed")),
    ("passed_on", ("acked",)),
    ("refused", ("refused",)),
    ("expired", ("expired",)),
    ("dropped", ("dropped", "evicted")),
)
"""The name of each rate, and the events that it counts."""


class Rates(Struct, frozen=True):
    """What happened lately. `per_s`: messages a second by the names of `EVENTS`; `p50_s`, `p99_s`: the bound in seconds
    below which that share of values lay, None where nothing was measured, for `delivery`, `commit` and `loop_lag`."""

    per_s: dict[str, float]
    p50_s: dict[str, float | None]
    p99_s: dict[str, float | None]


class RateCounter:
    """The answers of the last minute."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, Metrics]] = deque()

    def __repr__(self) -> str:
        return f"<rates of {counted(len(self._seen), 'answer')}>"

    def add(self, metrics: Metrics, mono_s: float) -> None:
        """Remember an answer; one whose counts have become smaller comes from a node that started again."""
        if self._seen and _total(metrics) < _total(self._seen[-1][1]):
            self._seen.clear()
        self._seen.append((mono_s, metrics))
        while len(self._seen) > 2 and self._seen[1][0] <= mono_s - WAIT_S:
            self._seen.popleft()

    def rates(self) -> Rates:
        """Return the rates up to the last answer; 0 where there is only one."""
        if len(self._seen) < 2:
            nothing: dict[str, float | None] = dict.fromkeys(("delivery", "commit", "loop_lag"))
            return Rates({name: 0.0 for name, _ in EVENTS}, nothing, nothing)
        now_s, last = self._seen[-1]
        then_s, then = next(one for one in self._seen if one[0] >= now_s - RATE_S or one is self._seen[-2])
        before, after = _by_event(then), _by_event(last)
        per_s = {
            name: sum(after[event] - before[event] for event in events) / max(now_s - then_s, 1e-3)
            for name, events in EVENTS
        }
        first = self._seen[0][1].seconds
        waits = {name: (getattr(first, name), getattr(last.seconds, name)) for name in last.seconds.__struct_fields__}
        p50, p99 = ({name: quantile(*pair, share) for name, pair in waits.items()} for share in (0.5, 0.99))
        return Rates(per_s, p50, p99)


def quantile(before: Counted, after: Counted, share: float) -> float | None:
    """Return the bound, in seconds, at or below which that share of the values lies that came between the two answers:
    infinity above all bounds, None if none came."""
    count = after.count - before.count
    if count <= 0:
        return None
    earlier: Sequence[int] = before.within if before.bounds == after.bounds else (0,) * len(after.bounds)
    for bound, within, was in zip(after.bounds, after.within, earlier, strict=True):
        if within - was >= share * count:
            return bound
    return float("inf")


def _by_event(metrics: Metrics) -> Counter[str]:
    found = Counter[str]()
    for event, _, count in metrics.messages:
        found[event] += count
    return found


def _total(metrics: Metrics) -> int:
    return sum(count for _, _, count in metrics.messages)
