"""The history of audits in one place: a row for each run, so that one audit can be compared with the one before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from spark_analytics.judgement.schema import STATES

UNFINISHED = "unfinished"
"""The verdict in `audit_run` while a job writes the tables beside it."""
RUNS_MAX = 10_000
"""The newest runs of which the history keeps a row: a nightly audit's of 27 years."""
_SUMS = ("messages", "accepted", "copies", "owed", *STATES, "duplicates", "redelivered", "contradictions", "strays")
COLUMNS = {
    "written_ns": "BIGINT",
    "as_of_ns": "BIGINT",
    "engine": "STRING",
    "verdict": "STRING",
    **dict.fromkeys(("bad", "warnings", "logs", "whole_logs", "holes", "doubted_files", "events"), "BIGINT"),
    **dict.fromkeys(_SUMS, "BIGINT"),
    **dict.fromkeys(("broken", "claims", "full_queues", "delivered_p99_ns", "acked_p99_ns"), "BIGINT"),
}
"""The columns of `audit_history`, with their types in SQL. `written_ns`: when the run wrote its tables; `bad`,
`warnings`: findings of that level; `whole_logs`: logs without a hole; `doubted_files`: files that do not count;
`events`: lines that count; `broken`: messages that the log of their taker lacks; `full_queues`: queues, of the longest
50, that are at their limit; `..._p99_ns`: percentiles of the time from acceptance to the end of the hop."""


def history_row(summary: Mapping[str, Any], as_of_ns: int, written_ns: int) -> tuple[Any, ...]:
    """Return the values of `COLUMNS` for an audit."""
    levels = Counter(one["level"] for one in summary["findings"])
    row = {
        "written_ns": written_ns,
        "as_of_ns": as_of_ns,
        "engine": summary["engine"],
        "verdict": summary["verdict"],
        "bad": levels["bad"],
        "warnings": levels["warning"],
        "logs": len(summary["logs"]),
        "whole_logs": sum(1 for log in summary["logs"] if log["whole"]),
        "holes": len(summary["holes"]),
        "doubted_files": sum(1 for one in summary["files"] if one["status"] in ("bad", "fork", "former", "foreign")),
        "events": sum(one["lines"] for one in summary["events"]),
        **{name: summary[name] for name in _SUMS},
        "broken": sum(one["broken"] for one in summary["custody"]),
        "claims": len(summary["claims"]),
        "full_queues": sum(1 for one in summary["queues"] if one["full_in_s"] == 0),
        "delivered_p99_ns": _ns(summary["latency_ms"]["p99"]),
        "acked_p99_ns": _ns(summary["custody_ms"]["p99"]),
    }
    return tuple(row[name] for name in COLUMNS)


def _ns(ms: float | None) -> int | None:
    return None if ms is None else round(ms * 10**6)
