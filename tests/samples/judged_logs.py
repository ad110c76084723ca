"""Logs of many cases, judged by one audit: a case is a router of its own, and the summary is read by it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from router.core.wire.crypto import SigningKey
from router.disk.limits import LogLimits
from router.disk.log.eventlog import Segments
from samples.audit_logs import LATE, Log, audited, message_id, name
from spark_analytics.judgement.schema import STATES

DAY_S = 86_400
Write = Callable[[Log, Path], object]
"""Writes the log of a case into a directory."""


def log_of(case: str) -> Log:
    """Return the empty log of a router that no other case has."""
    return Log(SigningKey(message_id(case).encode()[:32]))


def ids(log: Log, count: int, what: str = "") -> list[str]:
    """Return names of messages that no other case has."""
    return [f"{name(log.key)} {what}{number}" for number in range(count)]


class Judged(NamedTuple):
    """The audit of all cases' logs, and each case's log."""

    found: dict[str, Any]
    logs: Mapping[str, Log]

    def rows(self, part: str, case: str) -> list[dict[str, Any]]:
        """Return what a part of the summary says of a case's router."""
        return [row for row in self.found[part] if row["router"] == name(self.logs[case].key)]

    def told(self, case: str, level: str) -> str:
        """Return the findings about a case's router at that level as one text."""
        about = [row for row in self.found["findings"] if name(self.logs[case].key) in row["text"]]
        return "\n".join(f"{row['text']} {row['remedy']}" for row in about if row["level"] == level)

    def is_accused(self, case: str) -> bool:
        """Whether a bad finding or a warning is about that router."""
        return bool(self.told(case, "bad") or self.told(case, "warning"))

    def totals(self, case: str) -> dict[str, Any]:
        """Return the sums of that router."""
        [row] = self.rows("by_router", case)
        return row

    def states(self, case: str) -> dict[str, int]:
        """Return the states that have any units of that router, and how many are owed."""
        row = self.totals(case)
        return {state: row[state] for state in ("owed", *STATES) if row[state]}


def judged(
    cases: Mapping[str, Write], directory: Path, at: float = LATE, folders: Iterable[str] | None = None
) -> Judged:
    """Audit the logs of all cases, each in a folder below `directory`."""
    logs = {case: log_of(case) for case in cases}
    for (case, write), folder in zip(cases.items(), folders or map(str, range(len(cases))), strict=True):
        write(logs[case], directory / folder)
    found = audited(directory, at=at)
    assert found["residual"] == 0
    return Judged(found, logs)


def pruned(log: Log, directory: Path, cuts: list[int], keep: int) -> Path:
    """Return the log in segments, of which the last `keep` are left, beside the footers of the others."""
    log.write(directory, cuts)
    sizes = [path.stat().st_size for path in sorted(directory.glob("events-*"))]
    left = sum(sizes[len(sizes) - keep :]) if keep else 0
    assert Segments(directory, log.key, LogLimits()).prune(0.0, 0.0, left) == len(sizes) - keep
    return directory
