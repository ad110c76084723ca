"""Make the summary, `router audit --json`, of the small tables that an engine found and the evidence.

Findings are lists of rows, by name (whole numbers; keys in hex; a window is its first minute since 1970):

    span            min_minute max_minute
    totals          router accepted copies owed STATES deliveries duplicates forwards redelivered deferred
                    contradictions strays
    distinct        messages accepted_again
    windows         router window owed STATES
    latency         event window bucket count max_ns
    hops            router recipient event bucket count max_ns          recipient: of acked
    queues          router recipient window added ended open depth_max  open: at the window's end
    due             router recipient due_ns                             the earliest due time of a pending unit
    reasons         router event reason at_door count                   at_door: turned away, not accepted
    routes          router window event count
    flaps           router subject changes
    abuse           router hour peer prefix signer reason event count      peer or prefix: who brought it
    custody         router recipient acked followed broken unknown lower_ns upper_ns
    broken          router recipient id seq             seq: where the router accepted it
    unaccounted     router parcel recipient signer count id
    spans           router hole_first unknown
    events          router event lines count
    future          router lines latest_t
    ends            router seq t
    configs         router fields
    alarms          router alarm peer seq fields    what the router finds wrong with itself, and has not said to be over
    quality         check router count
    unsent          router peer kind count carriers first{seq i id}
    again           router count arrival first_seq seq      arrival, first_seq, seq: of the least
    early           router count sure seq arrival recipient expired_t due_ns    from seq on: of the first
    claims          claim router peer count first{seq accepted_seq id}
    unjudged        router cause peer seq               where it is not known who was left out, and why
    barred          router peer count lost withheld seq    peer: of which router says that it passes nothing on
    went_on         router recipient event count        messages that expired or were refused, and that the recipient
                                                        accepted from there
    services        router service messages owed done ended pending unknown unaccounted doubled
    service_ends    router service state recipient reason count number    number: of the least message
    overdue         router count recipients is_doubted recipient seq parcel due_ns    from recipient on: first due

A missing table reads as empty. The summary does not depend on the order of the rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from spark_analytics.judgement.comparison import compared
from spark_analytics.judgement.conflicts import claims, placed, pruned_open, unsent
from spark_analytics.judgement.evidence import Evidence
from spark_analytics.judgement.latency import percentile
from spark_analytics.judgement.schema import STATES
from spark_analytics.judgement.unnamed_reasons import is_everywhere, named_by

from .finding import utc
from .reasons import SENTENCES
from .sentences import sentences, verdict_of
from .unjudged import unjudged

WINDOWS_MAX = 120
FORECAST_WINDOWS = 4
GROWTH_MINUTES = 5
"""Minutes over which a queue's growth is measured at least, as the node does: a burst is no growth."""
FORECAST_TIMES = 12
"""Growth that was measured over some time tells of so many times that time ahead: of five minutes, an hour."""
PROBLEMS_MAX = 200
LOG_PROBLEMS_MAX = 20
MINUTE_NS = 60 * 10**9

Row = Mapping[str, Any]
Findings = Mapping[str, Sequence[Row]]

SUMS = ("owed", *STATES, "duplicates", "redelivered", "contradictions", "strays", "accepted", "copies", "deliveries",
        "forwards", "deferred")  # fmt: skip
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720)
_DAY = 1440
_PASSED_ON = {  # Unchanged, ordered by these columns; a minus sign: greatest first.
    "windows": ("router", "window"),
    "routes": ("router", "window", "event"),
    "flaps": ("-changes", "router", "subject"),
    "abuse": ("-count", "router", "hour", "peer", "prefix", "signer", "reason", "event"),
    "custody": ("router", "recipient"),
    "spans": ("router", "hole_first"),
    "went_on": ("router", "recipient", "event"),
    "events": ("router", "event"),
    "future": ("router",),
    "quality": ("check", "router"),
    "services": ("router", "service"),
    "service_ends": ("router", "service", "state", "recipient", "reason"),
}


class Windows(NamedTuple):
    """The windows of `step` minutes that a summary shows; changes before the first count in it, later ones in the last.
    `first`, `last`: minutes since 1970."""

    step: int
    first: int
    last: int


def windows_of(min_minute: int | None, max_minute: int | None, as_of_ns: int) -> Windows:
    """Return windows from one before the first acceptance to 120 after the last; without any, the last days."""
    if min_minute is None or max_minute is None:
        last = as_of_ns // MINUTE_NS // _DAY * _DAY
        return Windows(_DAY, last - WINDOWS_MAX * _DAY, last)
    step = step_of(min_minute, max_minute)
    return Windows(step, min_minute // step * step - step, (max_minute // step + WINDOWS_MAX) * step)


def step_of(min_minute: int, max_minute: int) -> int:
    """Return the minutes of one window, so that there are at most 120: one of a few round numbers, or whole days."""
    for step in _STEPS:
        if max_minute // step - min_minute // step < WINDOWS_MAX:
            return step
    days = 1
    while max_minute // (days * _DAY) - min_minute // (days * _DAY) >= WINDOWS_MAX:
        days += 1
    return days * _DAY


def build(findings: Findings, evidence: Evidence, as_of_ns: int, engine: str, run: Mapping[str, Any]) -> dict[str, Any]:
    """Build the summary. Both engines give the same except for `engine` and `run`, which is free data about this run.

    Times are ISO 8601 in UTC, to the second; latencies in ms; `hour` of abuse and windows count from 1970.
    """
    found = {name: list(rows) for name, rows in findings.items()}
    span = next((row for row in found.get("span", ()) if row["min_minute"] is not None), None)
    first, last = (span["min_minute"], span["max_minute"]) if span else (None, None)
    step = windows_of(first, last, as_of_ns).step
    by_router = _ordered(found.get("totals", ()), ("router",))
    sums = {name: sum(row[name] for row in by_router) for name in SUMS}
    distinct = next(iter(found.get("distinct", ())), {"messages": 0, "accepted_again": 0})
    said: dict[str, Any] = {
        "messages": distinct["messages"],
        "accepted_again": distinct["accepted_again"],
        **sums,
        "residual": sums["owed"] - sum(sums[state] for state in STATES),
        "as_of": utc(as_of_ns),
        "watermark": _watermark(found.get("ends", ()), evidence, as_of_ns),
        "span": _from_until(span),
        "step_minutes": step,
        "latency_ms": _percentiles(row for row in found.get("latency", ()) if row["event"] == "delivered"),
        "custody_ms": _percentiles(row for row in found.get("latency", ()) if row["event"] == "acked"),
        **_of_evidence(evidence),
        "limits": [*evidence.limits, *unjudged(found.get("unjudged", ()))],
        "by_router": by_router,
        "latency": _latencies(found.get("latency", ()), ("window", "event")),
        "hops": _latencies(found.get("hops", ()), ("router", "recipient", "event")),
        "queues": _queues(found, (first, last), step, as_of_ns),
        **{name: _ordered(found.get(name, ()), order) for name, order in _PASSED_ON.items()},
        "reasons": _ordered(_reasons(found.get("reasons", ()), evidence), ("router", "event", "reason", "at_door")),
        **_conflicts(found, evidence),
        "alarms": _alarms(found.get("alarms", ())),
        "lost": _ordered(found.get("unaccounted", ()), ("router", "parcel", "recipient")),
        "clocks": _clocks(found.get("custody", ())),
    }
    told = sentences(said)
    return {"verdict": verdict_of(told), "findings": told, **said, "engine": engine, "run": dict(run)}


def _from_until(span: Row | None) -> dict[str, str | None]:
    """Return the time from the first minute of the lines to the end of the last one; None for both without lines."""
    if span is None:
        return {"from": None, "until": None}
    return {"from": utc(span["min_minute"] * MINUTE_NS), "until": utc((span["max_minute"] + 1) * MINUTE_NS)}


def _ordered(rows: Iterable[Row], columns: Iterable[str]) -> list[dict[str, Any]]:
    """Return the rows in order of these columns, nulls first; each row's columns stay as they are."""
    found = [dict(row) for row in rows]
    for column in reversed(list(columns)):
        name = column.removeprefix("-")
        found.sort(key=lambda row: (row[name] is not None, row[name]), reverse=name != column)
    return found


def _of_evidence(evidence: Evidence) -> dict[str, Any]:
    return {
        "logs": [_log(log._asdict()) for log in evidence.logs],
        "heads": _heads(evidence),
        "compared": [one._asdict() for one in compared(evidence.elsewhere, evidence.seals)],
        "holes": [hole._asdict() for hole in evidence.holes],
        "files": [file._asdict() for file in evidence.files if file.status != "good"],
        "problems": [str(problem) for problem in evidence.problems[:PROBLEMS_MAX]],
        "problems_more": max(0, len(evidence.problems) - PROBLEMS_MAX),
    }


def _heads(evidence: Evidence) -> list[dict[str, Any]]:
    """Return the last event of each log that a footer covers, with that footer's digest."""
    last = {seal.router: seal for seal in sorted(evidence.seals, key=lambda seal: (seal.last_seq, seal.sha256))}
    return [{"router": router, "event": seal.last_seq, "digest": seal.sha256} for router, seal in sorted(last.items())]


def _log(log: dict[str, Any]) -> dict[str, Any]:
    texts = list(log["problems"])
    more = [f"and {len(texts) - LOG_PROBLEMS_MAX} more"] if len(texts) > LOG_PROBLEMS_MAX else []
    return log | {"problems": texts[:LOG_PROBLEMS_MAX] + more}


def _watermark(ends: Iterable[Row], evidence: Evidence, as_of_ns: int) -> str | None:
    """Return the time up to which the logs that are whole have every event; None if none is whole."""
    whole = {log.router for log in evidence.logs if log.whole}
    reached = [min(row["t"], as_of_ns) for row in ends if row["router"] in whole]
    return utc(min(reached)) if reached else None


def _conflicts(found: Findings, evidence: Evidence) -> dict[str, Any]:
    """Return what the logs contradict, in themselves or each other, with the files in which it stands."""
    return {
        "unsent": placed(unsent(found.get("unsent", ())), evidence, ("router", "peer")),
        "claims": claims(found.get("claims", ()), evidence),
        "broken": placed(found.get("broken", ()), evidence, ("router", "recipient", "id")),
        "barred": placed(found.get("barred", ()), evidence, ("peer", "router")),
        "again": placed(found.get("again", ()), evidence, ("router",)),
        "early": placed(found.get("early", ()), evidence, ("router",)),
        "overdue": placed(found.get("overdue", ()), evidence, ("router",)),
        "pruned_open": _pruned_open(found, evidence),
    }


def _reasons(rows: Iterable[Row], evidence: Evidence) -> Iterator[Row]:
    """Yield the rows, each with `known`: whether all routers have the reason, or a segment of this one names it."""
    named = named_by(evidence)
    for row in rows:
        is_known = is_everywhere(row["reason"], SENTENCES) or row["reason"] in named.get(row["router"], ())
        yield {**row, "known": is_known}


def _alarms(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return what routers find wrong with themselves, each with its numbers as such; None where they are none."""
    found = [
        {name: row[name] for name in ("router", "alarm", "peer", "seq")}
        | {name: _natural(row["fields"], name) for name in ("number", "since_s")}
        for row in rows
    ]
    return _ordered(found, ("router", "alarm", "peer"))


def _pruned_open(found: Mapping[str, Sequence[Row]], evidence: Evidence) -> list[dict[str, Any]]:
    strays = {row["router"]: row["strays"] for row in found.get("totals", ())}
    ends = {row["router"]: row["t"] for row in found.get("ends", ())}
    ttls_s = {row["router"]: _natural(row["fields"], "ttl_s_max") for row in found.get("configs", ())}
    return pruned_open(evidence, strays, ends, ttls_s)


def _clocks(custody: Iterable[Row]) -> list[dict[str, Any]]:
    """Return how far each recipient's clock is ahead of the router's: at least, at most."""
    names = ("router", "recipient", "lower_ns", "upper_ns")
    clocks = ({name: row[name] for name in names} for row in custody)
    bounded = (row for row in clocks if row["lower_ns"] is not None or row["upper_ns"] is not None)
    return _ordered(bounded, ("router", "recipient"))


# -- latency ----------------------------------------------------------------------------------------------


def _latencies(rows: Iterable[Row], columns: tuple[str, ...]) -> list[dict[str, Any]]:
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(row[name] for name in columns)].append(row)
    return _ordered(
        (
            {**dict(zip(columns, key, strict=True)), **_percentiles(found), "count": sum(row["count"] for row in found)}
            for key, found in groups.items()
        ),
        columns,
    )


def _percentiles(rows: Iterable[Row]) -> dict[str, float | None]:
    """Return p50, p95, p99 and max in ms."""
    counts: dict[int, int] = defaultdict(int)
    greatest = 0
    for row in rows:
        counts[row["bucket"]] += row["count"]
        greatest = max(greatest, row["max_ns"])
    found = {f"p{percent}": percentile(counts, percent, greatest) for percent in (50, 95, 99)}
    found["max"] = greatest if counts else None
    return {name: None if ns is None else ns / 10**6 for name, ns in found.items()}


# -- queues -----------------------------------------------------------------------------------------------


def _queues(
    found: Mapping[str, Sequence[Row]], minutes: tuple[int | None, int | None], step: int, as_of_ns: int
) -> list[dict[str, Any]]:
    """Return each queue with its windows, and when it will be full at the mean rate of the last windows.

    `minutes`: the first and the last of the span with an acceptance; queues may show others.
    """
    known = [minute // step * step for minute in minutes if minute is not None]
    told = [*known, *(row["window"] for row in found.get("queues", ()))]
    first_window, last_window = min(told, default=0), max(told, default=0)
    limits = {row["router"]: _natural(row["fields"], "queue_messages_max") for row in found.get("configs", ())}
    due = {(row["router"], row["recipient"]): row["due_ns"] for row in found.get("due", ())}
    windows: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in _ordered(found.get("queues", ()), ("router", "recipient", "window")):
        key = row.pop("router"), row.pop("recipient")
        windows[key].append(row)
    said = []
    for key, rows in windows.items():
        limit, due_ns = limits.get(key[0]), due.get(key)
        said.append(
            {
                "router": key[0],
                "recipient": key[1],
                "open": rows[-1]["open"],
                "limit": limit,
                "full_in_s": None if limit is None else _full_in_s(rows, limit, (first_window, last_window), step),
                "oldest_due_s": None if due_ns is None else max(0, due_ns - as_of_ns) // 10**9,
                "windows": rows,
            }
        )
    return sorted(said, key=lambda one: (-max(row["open"] for row in one["windows"]), one["router"], one["recipient"]))


def _natural(fields: Mapping[str, Any] | None, name: str) -> int | None:
    """Return a number from the fields of a `config` event, which reach an engine as text; None if it is none."""
    said = str((fields or {}).get(name, ""))
    return int(said) if said.isascii() and said.isdecimal() and len(said) < 20 else None


def _full_in_s(rows: Sequence[Row], limit: int, windows: tuple[int, int], step: int) -> int | None:
    """Return seconds until `limit` messages wait, at the mean growth of the last 4 windows, or of `GROWTH_MINUTES` if
    that is longer; None if never, or if the logs are too short to tell. `windows`: the first and the last of all."""
    now = rows[-1]["open"]
    if now >= limit:
        return 0
    first, last = windows
    start = max(last - max(FORECAST_WINDOWS * step, GROWTH_MINUTES), first - step)
    before = next((row["open"] for row in reversed(rows) if row["window"] <= start), 0)
    if now <= before or last - start < GROWTH_MINUTES:
        return None
    full_s = int((limit - now) * (last - start) * 60 // (now - before))
    return full_s if full_s <= FORECAST_TIMES * (last - start) * 60 else None
