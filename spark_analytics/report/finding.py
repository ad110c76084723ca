"""A finding, which every sentence of an audit is: a level, a text, and a remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

LEVELS = ("bad", "warning", "info", "good")
"""The levels: `bad` must not be (a loss, a broken promise, evidence that cannot be believed), `warning` needs a look
(unknown, duplicates, drops), `info` is worth knowing, `good` means that all is well."""

Row = Mapping[str, Any]
Finding = dict[str, str]
Groups = Callable[[Sequence[Row]], Iterable[list[Row]]]
"""Divides the rows of a table of the summary: those of one group are told of together."""
ROWS = ""
"""In place of a column that counts: the number of rows."""


def each_alone(rows: Sequence[Row]) -> Iterable[list[Row]]:
    return ([row] for row in rows)


def grouped_by(*columns: str) -> Groups:
    """Return what puts rows together that are equal in these columns; without columns, all rows."""

    def groups(rows: Sequence[Row]) -> Iterable[list[Row]]:
        found: dict[tuple[Any, ...], list[Row]] = {}
        for row in rows:
            found.setdefault(tuple(row[name] for name in columns), []).append(row)
        return found.values()

    return groups


class FindingKind(NamedTuple):
    """What findings of one kind are about. `word`: names it; `rule`: yields the findings of a summary; `table`: the
    table of the summary of which they are made, "" if they are of several; `router`, `peer`, `detail`: the columns that
    name the router, the peer and a kind within the kind, "" if there are none; `counts`: the columns that count what a
    finding is about, one for each finding that the rule may yield of a row, in order; `groups`: which rows are told of
    together; `is_sum`: whether their counts are added up, else that of the first holds; `examples`: a table with more
    rows about the same router and peer; `beside`: the tables of which the rule reads nothing but rows of the same
    router; `is_alarm`: whether a stream raises it."""

    word: str
    rule: Callable[[Row], Iterator[Finding]]
    table: str = ""
    peer: str = ""
    detail: str = ""
    counts: tuple[str, ...] = ()
    groups: Groups = each_alone
    is_sum: bool = False
    examples: str = ""
    beside: tuple[str, ...] = ()
    is_alarm: bool = True
    router: str = "router"


def say(level: str, text: str, remedy: str = "") -> Finding:
    """Return a finding of that level."""
    return {"level": level, "text": text, "remedy": remedy}


def event_of(row: Row) -> str:
    """Return `event 7 (logs/events-….jsonl)`."""
    return f"event {row['seq']}" + (f" ({row['file']})" if row["file"] else "")


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
