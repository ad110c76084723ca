"""The sums that an audit of the sample must find: counters kept while the logs are made.

Nothing here reads a log. A unit is (router, arrival, recipient named in `accepted`), as in the audit's arithmetic.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from router.core.wire.reasons import Reason
from spark_analytics.judgement.latency import bucket, percentile
from spark_analytics.judgement.schema import ENDS, STATES

MS = 1_000_000
MINUTE_NS = 60_000_000_000
HOUR_NS = 60 * MINUTE_NS
Abuse = tuple[int, str, str | None, str, str]
"""(hour, peer, signer, reason, event)."""


class Waits:
    """How long units took until their end: counts by bucket, and the longest."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()
        self.max_ns = 0

    def add(self, wait_ns: int, count: int) -> None:
        if wait_ns >= 0:  # a clock may have been set back meanwhile
            self.counts[bucket(wait_ns)] += count
            self.max_ns = max(self.max_ns, wait_ns)

    def said(self) -> dict[str, float | None]:
        found = {f"p{percent}": percentile(self.counts, percent, self.max_ns) for percent in (50, 95, 99)}
        found["max"] = self.max_ns if self.counts else None
        return {name: None if one is None else one / MS for name, one in found.items()}


class RouterTruth:
    """One router's units, lines and reasons. `windows`: minute of the accepted line -> owed and ends."""

    def __init__(self, name: str, router: str, clock_ns: int) -> None:
        self.name = name
        self.router = router
        self.clocks_ns = [clock_ns]
        self.redelivered = self.end_t = 0
        self.lines: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.reasons: Counter[tuple[str, str, bool]] = Counter()
        self.abuse: Counter[Abuse] = Counter()
        self.acked: Counter[str] = Counter()
        self.windows: defaultdict[int, Counter[str]] = defaultdict(Counter)

    def __repr__(self) -> str:
        return f"<truth of {self.name}: {sum(self.lines.values())} lines>"

    def note(self, event: str, count: int, reason: Reason | None = None, *, at_door: bool = False) -> None:
        """Count a line that represents `count` messages."""
        self.lines[event] += 1
        self.counts[event] += count
        if reason is not None:
            self.reasons[event, reason.word, at_door] += count

    def said(self) -> dict[str, Any]:
        states = sum(map(_states, self.windows.values()), Counter())
        return {
            "router": self.router, "name": self.name, "clocks_ns": self.clocks_ns, "accepted": self.counts["accepted"],
            "owed": states["owed"], **{state: states[state] for state in STATES}, "deliveries": states["delivered"],
            "duplicates": 0, "forwards": self.counts["forwarded"], "redelivered": self.redelivered,
            "deferred": self.counts["deferred"], "contradictions": 0, "strays": 0, "end_t": self.end_t,
        }  # fmt: skip


class Truth:
    """The truth about the whole fleet."""

    def __init__(self) -> None:
        self.messages = 0
        self.routers: list[RouterTruth] = []
        self.waits = {"delivered": Waits(), "acked": Waits()}

    def __repr__(self) -> str:
        return f"<truth of {len(self.routers)} routers: {self.messages} messages>"

    def said(self, as_of_ns: int) -> dict[str, Any]:
        """Return the contents of `truth.json`: the keys of `router audit --json` and, under the same names, more
        detail."""
        by_router = [one.said() for one in sorted(self.routers, key=lambda one: one.router)]
        sums = {
            name: sum(one[name] for one in by_router)
            for name in ("owed", *STATES, "duplicates", "redelivered", "deferred", "contradictions", "strays")
        }
        minutes: defaultdict[int, Counter[str]] = defaultdict(Counter)
        for one in self.routers:
            for minute, counts in one.windows.items():
                minutes[minute].update(_states(counts))
        return {
            "as_of_ns": as_of_ns, "messages": self.messages, **sums, "residual": 0,
            "watermark": _utc(min([as_of_ns, *(one["end_t"] for one in by_router)])),
            "latency_ms": self.waits["delivered"].said(), "custody_ms": self.waits["acked"].said(),
            "by_router": by_router, "minutes": [{"minute": minute, **minutes[minute]} for minute in sorted(minutes)],
            "reasons": _rows(("router", "event", "reason", "at_door", "count"), (
                (one.router, *what, count) for one in self.routers for what, count in one.reasons.items())),
            "events": _rows(("router", "event", "lines", "count"), (
                (one.router, event, lines, one.counts[event])
                for one in self.routers for event, lines in one.lines.items())),
            "abuse": _rows(("router", "hour", "peer", "signer", "reason", "event", "count"), (
                (one.router, *what, count) for one in self.routers for what, count in one.abuse.items())),
            "custody": _rows(("router", "recipient", "acked", "followed", "broken", "unknown"), (
                (one.router, whom, count, count, 0, 0) for one in self.routers for whom, count in one.acked.items())),
        }  # fmt: skip


def _states(counts: Counter[str]) -> Counter[str]:
    """Return what is owed and how it ended, with the rest as pending."""
    pending = counts["owed"] - sum(counts[end] for end in ENDS)
    return counts + Counter(pending=pending)


def _rows(names: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [dict(zip(names, row, strict=True)) for row in sorted(rows, key=repr)]


def _utc(ns: int) -> str:
    return datetime.fromtimestamp(ns // 1_000_000_000, UTC).isoformat()
