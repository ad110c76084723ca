"""The sums that an audit of a fleet must find, from the events that its nodes committed.

No log is read here. A unit is (router, arrival, recipient named in `accepted`), as in the audit's arithmetic.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from world import ledger
from world.node import Node

from router.core.log.events import Accepted, Event, Outward, Turned, reason_word, span, stands_for
from spark_analytics.judgement.latency import bucket, percentile
from spark_analytics.judgement.schema import STATES

MS = 1_000_000
MINUTE_NS = 60_000_000_000
HOUR_NS = 60 * MINUTE_NS
WAITS = ("delivered", "acked")
CLOCK_STEP = "clock_step"


class Taken(NamedTuple):
    """A parcel as a router accepted it: its `accepted` event, that event's boot, and its place among all events."""

    event: Accepted
    boot: bytes
    place: int

    def wait_ns(self, event: Outward, boot: bytes, place: int, steps: Sequence[int]) -> int:
        """Return the wait until `event`; -1 if it is over a start and a jump of the clock, so that nothing tells it.
        `steps`: the places of the router's `clock_step` events."""
        if boot == self.boot:
            return event.mono_ns - self.event.mono_ns
        is_over_step = bool(steps) and self.place < steps[-1] and place > steps[0]
        return -1 if is_over_step else event.at_ns - self.event.at_ns


class RouterTruth:
    """One router's units, lines and reasons."""

    def __init__(self, node: Node, clocks_ns: Sequence[int]) -> None:
        self.name = node.name
        self.router = node.address.hex()
        self.clocks_ns = list(clocks_ns)
        self.book = ledger.read(node.log)
        self.end_t = 0
        self.lines: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.reasons: Counter[tuple[str, str, bool]] = Counter()
        self.abuse: Counter[tuple[Any, ...]] = Counter()
        self.waits_ns: dict[str, Counter[int]] = {name: Counter() for name in WAITS}
        self._parcels: dict[int, Taken] = {}
        placed = [*enumerate((event, boot) for _, boot, events in node.log for event in events)]
        steps = [place for place, (event, _) in placed if not isinstance(event, Accepted) and event.event == CLOCK_STEP]
        for place, (event, boot) in placed:
            self._note(event, boot, place, steps)
        self.windows: defaultdict[int, Counter[str]] = defaultdict(Counter)
        for (at, _), ends in self.book.ends.items():
            minute = self._parcels[self.book.parcels[at]].event.at_ns // MINUTE_NS
            self.windows[minute].update(("owed", ends[0] if ends else "pending"))

    def __repr__(self) -> str:
        return f"<truth of {self.name}: {sum(self.lines.values())} lines>"

    def _note(self, event: Event, boot: bytes, place: int, steps: Sequence[int]) -> None:
        word = "accepted" if isinstance(event, Accepted) else event.event
        count = span(event) if isinstance(event, Accepted) else stands_for(event)
        self.end_t = event.at_ns
        self.lines[word] += 1
        self.counts[word] += count
        match event:
            case Accepted():
                self._parcels[event.first] = Taken(event, boot, place)
            case Outward():
                if event.reason is not None:
                    self.reasons[word, reason_word(event.reason), False] += count
                if word in WAITS:
                    wait_ns = self._parcels[event.parcel].wait_ns(event, boot, place, steps)
                    if wait_ns >= 0:  # a clock may have been set back meanwhile
                        self.waits_ns[word][wait_ns] += count
            case Turned():
                peer, signer = (one.hex() if one else None for one in (event.neighbour, event.signer))
                self.reasons[word, reason_word(event.reason), True] += count
                self.abuse[event.at_ns // HOUR_NS, peer, None, signer, reason_word(event.reason), word] += count

    def acked(self, routers: Iterable[str]) -> Counter[str]:
        """Count, by router, the messages that it took in custody, except those addressed to the router itself."""
        known = {bytes.fromhex(router) for router in routers}
        return Counter(
            whom.hex()
            for (at, whom), ends in self.book.ends.items()
            if "acked" in ends and whom in known and self.book.destinations[self.book.ids[at]] != whom
        )

    def said(self) -> dict[str, Any]:
        states = sum(self.windows.values(), Counter())
        handed = [count for count in self.book.handed.values() if count]
        return {
            "router": self.router, "name": self.name, "clocks_ns": self.clocks_ns, "accepted": self.counts["accepted"],
            "owed": states["owed"], **{state: states[state] for state in STATES}, "deliveries": states["delivered"],
            "duplicates": 0, "forwards": sum(handed), "redelivered": sum(handed) - len(handed),
            "deferred": self.counts["deferred"], "contradictions": 0, "strays": 0, "end_t": self.end_t,
        }  # fmt: skip


def truth_of(clocks_ns: Mapping[Node, Sequence[int]], as_of_ns: int) -> dict[str, Any]:
    """Return the truth about these nodes: the keys of `router audit --json` and, under the same names, more detail.

    `clocks_ns`: how far each node's clock was ahead of the world's, one number more for each time that it was set.
    """
    routers = sorted((RouterTruth(*one) for one in clocks_ns.items()), key=lambda one: one.router)
    by_router = [one.said() for one in routers]
    sums = {
        name: sum(one[name] for one in by_router)
        for name in ("owed", *STATES, "duplicates", "redelivered", "deferred", "contradictions", "strays")
    }
    minutes: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for one in routers:
        for minute, counts in one.windows.items():
            minutes[minute].update(counts)
    waits = {name: sum((one.waits_ns[name] for one in routers), Counter()) for name in WAITS}
    custody = [(one.router, whom, n) for one in routers for whom, n in one.acked(two.router for two in routers).items()]
    return {
        "as_of_ns": as_of_ns, "messages": len(set().union(*(one.book.accepted() for one in routers))), **sums,
        "residual": 0, "watermark": _utc(min([as_of_ns, *(one.end_t for one in routers)])),
        "latency_ms": _spread(waits["delivered"]), "custody_ms": _spread(waits["acked"]),
        "by_router": by_router, "minutes": [{"minute": minute, **minutes[minute]} for minute in sorted(minutes)],
        "reasons": _rows(("router", "event", "reason", "at_door", "count"), (
            (one.router, *what, count) for one in routers for what, count in one.reasons.items())),
        "events": _rows(("router", "event", "lines", "count"), (
            (one.router, event, lines, one.counts[event]) for one in routers for event, lines in one.lines.items())),
        "abuse": _rows(("router", "hour", "peer", "prefix", "signer", "reason", "event", "count"), (
            (one.router, *what, count) for one in routers for what, count in one.abuse.items())),
        "custody": _rows(("router", "recipient", "acked", "followed", "broken", "unknown"), (
            (router, whom, count, count, 0, 0) for router, whom, count in custody)),
    }  # fmt: skip


def _spread(waits_ns: Counter[int]) -> dict[str, float | None]:
    """Return percentiles and maximum in milliseconds."""
    counts: Counter[int] = Counter()
    for wait_ns, count in waits_ns.items():
        counts[bucket(wait_ns)] += count
    longest = max(waits_ns, default=0)
    found = {f"p{percent}": percentile(counts, percent, longest) for percent in (50, 95, 99)}
    found["max"] = longest if waits_ns else None
    return {name: None if one is None else one / MS for name, one in found.items()}


def _rows(names: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [dict(zip(names, row, strict=True)) for row in sorted(rows, key=repr)]


def _utc(ns: int) -> str:
    return datetime.fromtimestamp(ns // 1_000_000_000, UTC).isoformat()
