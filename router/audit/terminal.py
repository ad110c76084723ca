"""An audit for people, on one screen: verdict, the sum that must come out, times, logs, and findings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from router.cli.output import columns, facts, say, short_text, size_text
from router.core.wire.text import counted, printable, span_text
from spark_analytics.judgement.schema import STATES
from spark_analytics.report.headline import headline

FINDINGS_MAX = 8
PROBLEMS_MAX = 8
PLACE_MAX = 20
UNSEALED = " (unsealed events)"
PLAIN = ("info", "good")
"""Levels that need no action; their findings are listed together."""
TEXT_MAX = 300
"""Most characters printed of a text; some texts name every router."""
_LEVELS = {"good": "Good", "attention": "Attention", "bad": "Bad"}
_KEY = r"\b[0-9a-f]{64}\b"

Summary = dict[str, Any]


def show(summary: Summary) -> None:
    """Print the summary."""
    nothing = not summary["owed"] and summary["verdict"] == "good"
    _say(headline(summary) if nothing else f"{_LEVELS[summary['verdict']]}: {headline(summary)}")
    say()
    facts(
        [
            ("messages", f"{summary['messages']:,}"),
            ("owed", f"{summary['owed']:,} = {arithmetic(summary)}"),
            *([("residual", f"{summary['residual']:,}")] if summary["residual"] else []),
            ("beside", ", ".join(f"{summary[name]:,} {name}" for name in ("duplicates", "redelivered", "strays"))),
            ("latency", latency_text(summary["latency_ms"])),
            ("custody", latency_text(summary["custody_ms"])),
            ("accepted", _span(summary)),
            ("watermark", summary["watermark"] or "none: no log is whole"),
            ("read", _read(summary["run"])),
        ]
    )
    say()
    columns(
        ("ROUTER", "WHOLE", "OWED", "UNKNOWN", "PENDING", "UNACCOUNTED", "IN"),
        _logs(summary),
        "no log of any router",
    )
    keys = _keys(summary)
    was_plain = False
    for finding in summary["findings"][:FINDINGS_MAX]:
        is_plain = finding["level"] in PLAIN
        if not (is_plain and was_plain):
            say()
        was_plain = is_plain
        _say(spelled(f"{finding['level']}: {finding['text']}", keys))
        if finding["remedy"]:
            _say(spelled(f"  {finding['remedy']}", keys))
    if rest := Counter(finding["level"] for finding in summary["findings"][FINDINGS_MAX:]):
        levels = ", ".join(f"{count} {level}" for level, count in rest.items())
        say(f"\nand {counted(rest.total(), 'more finding')} ({levels}): `--json` or `--out DIR` has all")
    _list("problems", summary["problems"], PROBLEMS_MAX, summary["problems_more"])
    if summary["limits"]:
        say(f"\nwhat these logs cannot show: {counted(len(summary['limits']), 'sentence')} in `--json` and `--out DIR`")


def _say(text: str) -> None:
    """Print a text as one line: it may repeat names of files and directories, which are whatever their maker wrote."""
    say(printable(text))


def spelled(text: str, keys: Collection[str]) -> str:
    """Return the text with these keys spelled as in the tables, not in hex."""
    return re.sub(
        _KEY, lambda found: short_text("addr", bytes.fromhex(found[0])) if found[0] in keys else found[0], text
    )


def _keys(summary: Summary) -> set[str]:
    """Return the keys of routers and recipients; ids of messages look the same and stay as they are."""
    named = [row[name] for table in ("queues", "custody") for row in summary[table] for name in ("router", "recipient")]
    return {*named, *(log["router"] for log in summary["logs"])}


def _list(title: str, texts: Sequence[str], most: int, unsaid: int = 0) -> None:
    if texts:
        say(f"\n{title}:")
    for text in texts[:most]:
        _say(f"  {text if len(text) <= TEXT_MAX else f'{text[:TEXT_MAX]}… (`--json` has all)'}")
    if (more := len(texts[most:]) + unsaid) > 0:
        say(f"  and {more} more: `--json` has all")


def arithmetic(summary: Summary) -> str:
    """Return `9 delivered + 1 expired + 0 unaccounted`: each state with a count, and `unaccounted`, which must be 0."""
    shown = [state for state in STATES if summary[state] or state == "unaccounted"]
    return " + ".join(f"{summary[state]:,} {state}" for state in shown)


def latency_text(found: dict[str, float | None]) -> str:
    """Return `p50 3.2 ms, p95 2.2 s`."""
    said = [f"{name} {_duration(value)}" for name, value in found.items() if value is not None]
    return ", ".join(said) or "-"


def _duration(ms: float) -> str:
    return f"{ms:.1f} ms" if ms < 1000 else f"{ms / 1000:,.1f} s" if ms < 120_000 else span_text(ms / 1000)


def _end_of(place: str) -> str:
    """Return the end of a path, which is enough to tell logs apart; whether its newest events are unsealed is in
    `--json` only."""
    place = place.removesuffix(UNSEALED)
    return place if len(place) <= PLACE_MAX else f"…{place[1 - PLACE_MAX :]}"


def _span(summary: Summary) -> str:
    span = summary["span"]
    return f"{span['from']} to {span['until']}" if span["from"] else "nothing"


def _read(run: dict[str, Any]) -> str:
    took = span_text(run["seconds"]) if run["seconds"] >= 60 else f"{run['seconds']:.1f} s"
    return f"{run['files']:,} {'file' if run['files'] == 1 else 'files'}, {size_text(run['bytes'])}, in {took}"


def _logs(summary: Summary) -> list[tuple[object, ...]]:
    totals = {row["router"]: row for row in summary["by_router"]}
    zero = dict.fromkeys(("owed", "unknown", "pending", "unaccounted"), 0)
    rows: list[tuple[object, ...]] = []
    for log in summary["logs"]:
        own = totals.get(log["router"], zero)
        rows.append(
            (
                short_text("addr", bytes.fromhex(log["router"])),
                "yes" if log["whole"] else "no",
                *(own[name] for name in zero),
                _end_of(log["place"]),
            )
        )
    return rows
