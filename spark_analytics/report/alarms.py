"""Findings of a summary by what they are about, to tell which are new and which are over: (finding, router, peer)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .finding import LEVELS, Row, many
from .finding_table import each_finding
from .sentences import KINDS

ALARMING = ("bad", "warning")
"""The levels of findings that somebody should look at."""
LATE = "head-late"
INCOMPLETE = "incomplete"
UNDONE = ("bad-files", "rewritten", "head-disputed", INCOMPLETE)
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
    for one in each_finding(summary, (kind for kind in KINDS if kind.is_alarm)):
        level, key = one.finding["level"], (one.word, one.router, one.peer)
        known = found.get(key)
        if level in ALARMING and (known is None or LEVELS.index(level) < LEVELS.index(known.level)):
            found[key] = Matter(level, one.finding["text"], one.finding["remedy"], one.evidence, _mark(summary, key))
    if summary["residual"]:
        text = f"The books do not balance: {summary['residual']:,} deliveries are in no state."
        found["residual", "", ""] = Matter("bad", text, "This is a defect of the audit itself. Report it.")
    return found


def _mark(summary: Row, key: Key) -> int:
    """Return the first event that a log lacks which is not whole, 0 for any other finding."""
    holes = (hole["first_seq"] for hole in summary["holes"] if (INCOMPLETE, hole["router"], "") == key)
    return min(holes, default=0)


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
