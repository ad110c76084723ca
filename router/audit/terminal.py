"""An audit for people, on one screen: the verdict, the sum that must come out, times, logs, and what was found."""

from __future__ import annotations

from typing import Any

from router.cli.output import address_text, columns, facts, say, size_text, span_text
from spark_analytics.schema import STATES

FINDINGS_MAX = 8
_VERDICTS = {
    "good": "Good: nothing was lost.",
    "attention": "Attention: nothing is known to be lost, but look at what follows.",
    "bad": "Bad: something is wrong.",
}

Summary = dict[str, Any]


def show(summary: Summary) -> None:
    """Print the summary."""
    say(_VERDICTS[summary["verdict"]])
    say()
    facts([
        ("messages", f"{summary['messages']:,}"),
        ("owed", f"{summary['owed']:,} = {arithmetic(summary)}"),
        ("residual", f"{summary['residual']:,}"),
        ("beside", ", ".join(f"{summary[name]:,} {name}" for name in ("duplicates", "redelivered", "strays"))),
        ("latency", _latency(summary["latency_ms"])),
        ("custody", _latency(summary["custody_ms"])),
        ("accepted", _span(summary)),
        ("watermark", summary["watermark"] or "none: no log is whole"),
        ("read", _read(summary["run"])),
    ])  # fmt: skip
    say()
    columns(
        ("ROUTER", "SEGMENTS", "FIRST", "LAST", "WHOLE", "OWED", "UNKNOWN", "PENDING", "UNACCOUNTED"),
        _logs(summary),
        "no log of any router",
    )
    for finding in summary["findings"][:FINDINGS_MAX]:
        say()
        say(f"{finding['level']}: {finding['text']}")
        if finding["remedy"]:
            say(f"  {finding['remedy']}")
    if (more := len(summary["findings"]) - FINDINGS_MAX) > 0:
        say(f"\nand {more} more findings: `--json` or `--out DIR` has all")


def arithmetic(summary: Summary) -> str:
    """`9 delivered + 1 expired + 0 unaccounted`: every state that has any, and the one that must have none."""
    shown = [state for state in STATES if summary[state] or state == "unaccounted"]
    return " + ".join(f"{summary[state]:,} {state}" for state in shown)


def _latency(found: dict[str, float | None]) -> str:
    said = [f"{name} {value:,.3f} ms" for name, value in found.items() if value is not None]
    return ", ".join(said) or "-"


def _span(summary: Summary) -> str:
    span = summary["span"]
    return f"{span['from']} to {span['until']}" if span["from"] else "nothing in this time"


def _read(run: dict[str, Any]) -> str:
    took = span_text(run["seconds"]) if run["seconds"] >= 60 else f"{run['seconds']:.1f} s"
    return f"{run['files']} files, {size_text(run['bytes'])}, in {took}"


def _logs(summary: Summary) -> list[tuple[object, ...]]:
    totals = {row["router"]: row for row in summary["by_router"]}
    zero = dict.fromkeys(("owed", "unknown", "pending", "unaccounted"), 0)
    rows: list[tuple[object, ...]] = []
    for log in summary["logs"]:
        own = totals.get(log["router"], zero)
        rows.append((
            address_text(log["router"]), log["segments"], log["first"], log["last"], "yes" if log["whole"] else "no",
            *(own[name] for name in zero),
        ))  # fmt: skip
    return rows
