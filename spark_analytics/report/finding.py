"""A finding, which every sentence of an audit is: a level, a text, and a remedy."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

LEVELS = ("bad", "warning", "info", "good")
"""The levels: `bad` must not be (a loss, a broken promise, evidence that cannot be believed), `warning` needs a look
(unknown, duplicates, drops), `info` is worth knowing, `good` means that all is well."""

Row = Mapping[str, Any]
Finding = dict[str, str]


def say(level: str, text: str, remedy: str = "") -> Finding:
    """Return a finding of that level."""
    return {"level": level, "text": text, "remedy": remedy}


def many(count: int, noun: str) -> str:
    """Return a count with its noun: `1 delivery`, `2,000 deliveries`."""
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{count:,} {noun if count == 1 else plural}"


def utc(ns: int) -> str:
    """Return an instant as text: `2026-03-12T17:48:20+00:00`."""
    return datetime.fromtimestamp(ns // 10**9, UTC).isoformat()


def ranked(counts: Mapping[str, int]) -> str:
    """Return counts by name, greatest first: `ttl-expired 7,000, left 2`."""
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items(), key=lambda one: (-one[1], one[0])))
