"""The audit's arithmetic once more, slow and simple: every message and recipient by itself, in dictionaries.

It is given the files that count and the holes, so it knows nothing of signatures. The engines must agree with it.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from spark_analytics.judgement.latency import bucket, percentile
from spark_analytics.judgement.schema import ENDS, EPOCH_NS, GRACE_NS, STATES

Row = dict[str, Any]
TAKEN = ("acked", "delivered")
"""The ends of messages that another router took over, whichever its log says."""
OWED = (*ENDS, "forwarded", "deferred")
HOUR_NS = 3600 * 10**9


@dataclass
class Unit:
    """One message owed to one recipient by one router. `events`: the number of lines whose ranges name it, by event."""

    accepted: Row
    at: int
    events: Counter[str] = field(default_factory=Counter)
    links: list[tuple[int, int]] = field(default_factory=list)  # links it was written to: sequence number, link

    @property
    def id(self) -> str:
        ids: str = self.accepted["ids"]
        return ids[64 * self.at : 64 * self.at + 64]

    @property
    def due_ns(self) -> int:
        by_ttl: int = self.accepted["t"] + max(self.accepted["ttls"]) * 10**9
        by_expiry: int = EPOCH_NS + max(self.accepted["expiries"]) * 60 * 10**9
        return min(by_ttl, by_expiry)

    def state(self, hole_seqs: Iterable[int], run: Run) -> str:
        found = [state for state in ENDS if self.events[state]]
        if found:
            return found[0]
        if any(seq > self.accepted["seq"] for seq in hole_seqs):
            return "unknown"
        is_over = not run.is_doubted and max(self.due_ns, run.settled_ns) + GRACE_NS <= run.end_ns
        in_flight = any(link in run.open_links and seq > run.seq for seq, link in self.links)
        return "unaccounted" if is_over and not in_flight else "pending"


@dataclass
class Run:
    """A router's state at the end of its log; `seq`, `settled_ns`: see `log_end.sql`; `steps`: the events at which its
    clock jumped."""

    seq: int = 0
    steps: list[int] = field(default_factory=list)
    end_ns: int = 0
    settled_ns: int = 0
    is_doubted: bool = False
    open_links: set[int | None] = field(default_factory=set)

    def take(self, row: Row) -> None:
        """Take the router's next line."""
        self.end_ns, fields = row["t"], row.get("fields") or {}
        match row["event"]:
            case "start":
                self.seq, self.settled_ns, self.is_doubted = row["seq"], row["t"], False
                self.open_links.clear()
            case "clock_step":
                self.steps.append(row["seq"])
                self.settled_ns, self.is_doubted = row["t"], fields.get("doubted") is True
            case "link_up":
                self.open_links.add(fields.get("link"))
            case "link_down":
                self.open_links.discard(fields.get("link"))


def rows(path: Path) -> list[Row]:
    """Return the lines of a segment or tail except for header and footer."""
    found = [json.loads(line) for line in path.read_bytes().splitlines()]
    return [row for row in found if row["event"] not in ("segment", "seal")]


class Ledger:
    """The lines of all files that count, one message at a time. `holes`: by router, a sequence number of each;
    `pruned`: the routers whose oldest segments were pruned."""

    def __init__(
        self, files: Iterable[Path], holes: Mapping[str, Iterable[int]], as_of_ns: int, pruned: Collection[str] = ()
    ) -> None:
        self.pruned = pruned
        self.as_of_ns = as_of_ns
        self.holes = {router: list(firsts) for router, firsts in holes.items()}
        self.lines: dict[tuple[str, int], Row] = {}
        for row in chain.from_iterable(map(rows, files)):
            self.lines.setdefault((row["router"], row["seq"]), row)
        self.units: dict[tuple[str, int, str], Unit] = {}
        self.parcels: dict[tuple[str, int], Row] = {}
        self.starts: dict[str, Row] = {}
        self.ends: dict[str, Row] = {}
        self.runs: defaultdict[str, Run] = defaultdict(Run)
        self.acked_t: dict[tuple[str, int, str], int] = {}
        self.strays: Counter[tuple[str, str]] = Counter()
        self.waits: dict[str, Counter[int]] = {"delivered": Counter(), "acked": Counter()}
        ordered = [self.lines[key] for key in sorted(self.lines)]
        for row in ordered:
            self.starts.setdefault(row["router"], row)
            self.ends[row["router"]] = row
            self.runs[row["router"]].take(row)
            if row["event"] == "accepted":
                self._accept(row)
        for row in ordered:
            if row.get("recipient") and row["event"] in OWED:
                self._outward(row)

    def _accept(self, row: Row) -> None:
        """Add an acceptance; a line that repeats an arrival number counts as an event only."""
        router = row["router"]
        if self.parcels.setdefault((router, row["first"]), row) is not row:
            return
        for at in range(row["n"]):
            for recipient in row["recipients"]:
                self.units[router, row["first"] + at, recipient] = Unit(row, at)

    def _outward(self, row: Row) -> None:
        router, event = row["router"], row["event"]
        parcel = self.parcels.get((router, row["parcel"]))
        if event in TAKEN:
            key = router, row["parcel"], row["recipient"]
            self.acked_t[key] = max(row["t"], self.acked_t.get(key, 0))
        for first, count in row["ranges"]:
            for arrival in range(first, first + count):
                unit = self.units.get((router, arrival, row["recipient"]))
                if parcel is None or unit is None or unit.accepted is not parcel:
                    self.strays[router, event] += event in ENDS
                else:
                    unit.events[event] += 1
                    if event == "forwarded":
                        unit.links.append((row["seq"], row["link"]))
        if parcel is not None and event in self.waits and row["recipient"] in parcel["recipients"]:
            same = row["boot"] == parcel["boot"]
            wait_ns = row["mono"] - parcel["mono"] if same else row["t"] - parcel["t"]
            steps = self.runs[router].steps
            is_told = same or not steps or parcel["seq"] > steps[-1] or row["seq"] < steps[0]
            if wait_ns >= 0 and is_told and row["seq"] > parcel["seq"]:
                self.waits[event][wait_ns] += sum(count for _, count in row["ranges"])

    # -- what it says ----------------------------------------------------------------------------------------

    def said(self) -> dict[str, Any]:
        """Return the keys of truth.json that follow from lines."""
        by_router = {router: self._router(router) for router in sorted(self.ends)}
        names = ("owed", *STATES, "duplicates", "redelivered", "deferred", "contradictions", "strays")
        sums = {name: sum(one[name] for one in by_router.values()) for name in names}
        ids = {unit_id for row in self.parcels.values() if row["kind"] != "copy" for unit_id in _ids(row)}
        return {
            "messages": len(ids), **sums, "residual": sums["owed"] - sum(sums[state] for state in STATES),
            "latency_ms": _said(self.waits["delivered"]), "custody_ms": _said(self.waits["acked"]),
            "by_router": list(by_router.values()), "minutes": self._minutes(), "reasons": self._reasons(),
            "events": self._events(), "abuse": self._abuse(), "custody": self._custody(),
        }  # fmt: skip

    def _state(self, key: tuple[str, int, str]) -> str:
        router = key[0]
        return self.units[key].state(self.holes.get(router, ()), self.runs[router])

    def _router(self, router: str) -> Row:
        keys = [key for key in self.units if key[0] == router]
        units = [self.units[key] for key in keys]
        states = Counter(map(self._state, keys))
        delivered: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
        for key in keys:
            if self.units[key].events["delivered"]:
                delivered[self.units[key].id, key[2]].add(key[1])
        again = sum(len(arrivals) - 1 for arrivals in delivered.values())
        return {
            "router": router,
            "accepted": sum(row["n"] for (whose, _), row in self.parcels.items() if whose == router),
            "owed": len(units), **{state: states[state] for state in STATES},
            "deliveries": sum(unit.events["delivered"] for unit in units),
            "duplicates": again + sum(max(0, unit.events["delivered"] - 1) for unit in units),
            "forwards": sum(unit.events["forwarded"] for unit in units),
            "redelivered": sum(max(0, unit.events["forwarded"] - 1) for unit in units),
            "deferred": sum(unit.events["deferred"] for unit in units),
            "contradictions": sum(sum(unit.events[end] > 0 for end in ENDS) > 1 for unit in units),
            "strays": sum(count for (whose, _), count in self.strays.items() if whose == router),
            "end_t": self.ends[router]["t"],
        }  # fmt: skip

    def _minutes(self) -> list[Row]:
        found: defaultdict[int, Counter[str]] = defaultdict(Counter)
        for key, unit in self.units.items():
            minute = min(unit.accepted["t"], self.as_of_ns) // (60 * 10**9)
            found[minute].update(("owed", self._state(key)))
        return [{"minute": minute, **found[minute]} for minute in sorted(found)]

    def _reasons(self) -> list[Row]:
        counts: Counter[tuple[Any, ...]] = Counter()
        for row in self.lines.values():
            if row.get("reason"):
                at_door = row["event"] in ("refused", "duplicate") and not row.get("recipient")
                counts[row["router"], row["event"], row["reason"], at_door] += row["count"]
        return table(("router", "event", "reason", "at_door", "count"), counts)

    def _events(self) -> list[Row]:
        lines: Counter[tuple[str, str]] = Counter()
        counts: Counter[tuple[str, str]] = Counter()
        for row in self.lines.values():
            lines[row["router"], row["event"]] += 1
            counts[row["router"], row["event"]] += row.get("count") or 0
        return [
            {"router": router, "event": event, "lines": lines[router, event], "count": counts[router, event]}
            for router, event in sorted(lines)
        ]

    def _abuse(self) -> list[Row]:
        counts: Counter[tuple[Any, ...]] = Counter()
        for row in self.lines.values():
            if row["event"] in ("refused", "duplicate") and not row.get("recipient"):
                hour = min(row["t"], self.as_of_ns) // HOUR_NS
                counts[row["router"], hour, row.get("peer"), None, row.get("signer"), row["reason"], row["event"]] += (
                    row["count"]
                )
        return table(("router", "hour", "peer", "prefix", "signer", "reason", "event", "count"), counts)

    def _custody(self) -> list[Row]:
        """Return, for messages that routers whose logs are given took over, whether these accepted the same id.

        A control message for that router itself has arrived, and is accepted nowhere.
        """
        accepted: defaultdict[str, set[str]] = defaultdict(set)
        accepted_t: dict[tuple[str, str], int] = {}
        for (router, _), row in self.parcels.items():
            accepted[router].update(_ids(row))
            for one in _ids(row):
                accepted_t[router, one] = min(row["t"], accepted_t.get((router, one), row["t"]))
        found: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        handed: defaultdict[tuple[str, str], list[tuple[tuple[str, int, str], Unit]]] = defaultdict(list)
        for key, unit in self.units.items():
            router, _, whom = key
            is_given = whom in self.ends or self.holes.get(whom) or whom in self.pruned
            if is_given and whom != router and unit.accepted.get("destination") != whom:
                if not any(unit.events[event] for event in TAKEN):
                    continue
                handed[router, whom].append((key, unit))
        for (router, whom), units in handed.items():
            apart = self._apart(whom, [(key, unit) for key, unit in units if unit.id in accepted[whom]], accepted_t)
            for key, unit in units:
                what = "followed" if unit.id in accepted[whom] else "unknown"
                if what == "unknown" and self._knows(unit, key, apart):
                    what = "broken"
                found[router, whom].update(("acked", what))
        return [
            {"router": router, "recipient": whom, **{name: found[router, whom][name] for name in
             ("acked", "followed", "broken", "unknown")}} for router, whom in sorted(found)
        ]  # fmt: skip

    def _apart(
        self, whom: str, units: list[tuple[tuple[str, int, str], Unit]], accepted_t: dict[tuple[str, str], int]
    ) -> tuple[int, int]:
        """Return how far the next router's clock is ahead of this one's: at least, at most."""
        if not units:
            return 0, 0
        there = [accepted_t[whom, unit.id] for _, unit in units]
        acked = [self.acked_t[key[0], unit.accepted["first"], whom] for key, unit in units]
        lower = max(one - other for one, other in zip(there, acked, strict=True))
        upper = min(one - unit.accepted["t"] for one, (_, unit) in zip(there, units, strict=True))
        return min(lower, upper), max(lower, upper)

    def _knows(self, unit: Unit, key: tuple[str, int, str], apart: tuple[int, int]) -> bool:
        """Whether the next router's log is whole, from before the acceptance here to after the acknowledgement."""
        router, _, whom = key
        if self.holes.get(whom) or whom not in self.ends:
            return False
        begins = whom not in self.pruned or self.starts[whom]["t"] <= unit.accepted["t"] + apart[0]
        ends = self.ends[whom]["t"] >= self.acked_t[router, unit.accepted["first"], whom] + apart[1]
        return bool(begins and ends)


def table(names: tuple[str, ...], counts: Mapping[tuple[Any, ...], int]) -> list[Row]:
    return [dict(zip(names, (*key, counts[key]), strict=True)) for key in sorted(counts, key=repr)]


def _ids(row: Row) -> list[str]:
    return [row["ids"][64 * at : 64 * at + 64] for at in range(row["n"])]


def _said(waits: Counter[int]) -> dict[str, float | None]:
    greatest = max(waits, default=0)
    counts: Counter[int] = Counter()
    for wait_ns, count in waits.items():
        counts[bucket(wait_ns)] += count
    found = {f"p{percent}": percentile(counts, percent, greatest) for percent in (50, 95, 99)}
    found["max"] = greatest if waits else None
    return {name: None if one is None else one / 10**6 for name, one in found.items()}


def unlike(expected: Any, found: Any, place: str = "") -> list[str]:
    """Return where `found` differs from `expected`; in maps, compare only keys that both have."""
    if isinstance(expected, dict) and isinstance(found, dict):
        both = [name for name in expected if name in found]
        return [text for name in both for text in unlike(expected[name], found[name], f"{place}.{name}")]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = enumerate(zip(expected, found, strict=True))
        return [text for at, (one, other) in pairs for text in unlike(one, other, f"{place}[{at}]")]
    return [] if expected == found else [f"{place}: expected {expected!r:.200}, found {found!r:.200}"]
