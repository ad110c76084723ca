"""Findings of a summary by what they are about, to tell which are new and which are over: (finding, router, peer)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .finding import LEVELS, Row, many
from .sentences import BY_ROUTER

ALARMING = ("bad", "warning")
"""The levels of findings that somebody should look at."""
EVIDENCE_MAX = 3
"""Rows of a summary's table that are given with a finding."""
LATE = "head-late"
INCOMPLETE = "incomplete"
UNDONE = ("bad-files", "rewritten", INCOMPLETE)
"""Findings that a file which comes late may undo."""

Key = tuple[str, str, str]
"""Finding, router, peer; "" where it is about no peer."""


class Matter(NamedTuple):
    """One finding: its level, text and remedy, and the rows of the summary that show it. `mark`: of a log that is not
    whole, the first event that it lacks: where that one comes and a later one is lacking, it is another matter."""

    level: str
    text: str
    remedy: str
    evidence: tuple[Mapping[str, Any], ...] = ()
    mark: int = 0


def matters(summary: Row) -> dict[Key, Matter]:
    """Return the findings that are bad or a warning; the worst one of each router and peer, if a rule gives several."""
    found: dict[Key, Matter] = {}
    for name, rule, table, peer, kind in BY_ROUTER:
        groups: dict[Key, list[Row]] = {}
        for row in summary.get(table, ()):
            word = f"{name}:{row[kind]}" if kind else name
            groups.setdefault((word, str(row["router"] or ""), str((row[peer] if peer else "") or "")), []).append(row)
        for key, rows in groups.items():
            if name == "clocks" and (key[0], key[2], key[1]) in found:
                continue  # the finding about the other direction says it
            said = [one for one in rule({**summary, table: rows}) if one["level"] in ALARMING]
            if said:
                worst = min(said, key=lambda one: LEVELS.index(one["level"]))
                holes = [hole for hole in summary["holes"] if hole["router"] == key[1]] if name == INCOMPLETE else []
                mark = min((hole["first_seq"] for hole in holes), default=0)
                found[key] = Matter(worst["level"], worst["text"], worst["remedy"], _evidence(holes or rows), mark)
    if summary["residual"]:
        text = f"The books do not balance: {summary['residual']:,} deliveries are in no state."
        found["residual", "", ""] = Matter("bad", text, "This is a defect of the audit itself. Report it.")
    return found


def _evidence(rows: list[Row]) -> tuple[Mapping[str, Any], ...]:
    """Return the first rows, without lists."""
    return tuple(
        {name: value for name, value in row.items() if not isinstance(value, list | tuple | dict)}
        for row in rows[:EVIDENCE_MAX]
    )


def late_heads(heads: Mapping[str, tuple[int, int]], as_of_ns: int, oldest_ns: int) -> dict[Key, Matter]:
    """Return a finding for each router whose last sealed event is older than `oldest_ns`. `heads`: by router, the
    number of that event and the time of the newest event in its segment, in ns."""
    found: dict[Key, Matter] = {}
    for router, (event, t) in sorted(heads.items()):
        if as_of_ns - t > oldest_ns:
            since = many((as_of_ns - t) // 10**9, "second")
            found[LATE, router, ""] = Matter(
                "warning",
                f"Nothing new has come of the log of the router {router} for {since}: it ends with event {event}.",
                "Look whether that node runs, whether its disk is full, and whether its log is still copied here.",
                ({"router": router, "event": event, "t": t},),
            )
    return found
