"""Print an answer as a table of at most 80 columns: keys by name or short, times in UTC, spans and shares as text.

Sentences and paths are too long for a column: they stand whole below their row.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from router.audit.ask.answer import SqlAnswer
from router.cli.output import clipped, short_text
from router.core.wire.text import Kind, clean

WIDTH = 80
GAP = 2
CELL_MIN = 10
ID_SHOWN = 16
CELL_BYTES_MAX = 1000
BELOW = ("text", "path")
"""The columns that stand below their row, without a head."""
INDENT = "  "
SECOND_NS, MINUTE_NS, HOUR_NS = 10**9, 60 * 10**9, 3600 * 10**9
KEYS: dict[str, Kind] = {
    "router": "addr", "recipient": "addr", "neighbour": "addr", "publisher": "addr", "sender": "addr",
    "group_key": "group",
}  # fmt: skip
"""The kind of key in a column of that name; other columns show 64 hex digits as an id."""


_HEX = re.compile(r"\b[0-9a-f]{64}\b")


def table_of(answer: SqlAnswer, names: Mapping[str, str]) -> tuple[list[str], list[list[str]], list[bool]]:
    """Return heads, cells, and which columns hold numbers, so narrow that two spaces between columns make a table of
    at most `WIDTH`; those of `BELOW` are whole. `names`: the names of keys, by key in hex."""
    heads = [_head(column) for column in answer.columns]
    spelled = _keys_of(answer, names)
    named = [zip(answer.columns, row, strict=True) for row in answer.rows]
    cells = [[_cell(column, value, spelled) for column, value in row] for row in named]
    is_number = [all(isinstance(row[at], int | float | None) for row in answer.rows) for at in range(len(heads))]
    widths = [max(len(row[at]) for row in (heads, *cells)) for at in range(len(heads))]
    beside = [at for at, column in enumerate(answer.columns) if column not in BELOW]
    while sum(widths[at] for at in beside) + GAP * (len(beside) - 1) > WIDTH:
        texts = [at for at in beside if not is_number[at] and widths[at] > CELL_MIN]
        if not texts:
            break
        widths[max(texts, key=widths.__getitem__)] -= 1
    fitted = [[clipped(text, width) for text, width in zip(row, widths, strict=True)] for row in (heads, *cells)]
    return fitted[0], fitted[1:], is_number


def _keys_of(answer: SqlAnswer, names: Mapping[str, str]) -> dict[str, str]:
    """Return how each key of the answer is spelled, in columns of keys and in texts: by name or short."""
    places = [(at, column) for at, column in enumerate(answer.columns) if column in KEYS]
    keys = ((column, row[at]) for row in answer.rows for at, column in places)
    found = {value: _short(column, value) for column, value in keys if value and _HEX.fullmatch(value)}
    return {**found, **names}


def lines_of(answer: SqlAnswer, names: Mapping[str, str]) -> list[str]:
    """Return the lines of the table, the heads first: text aligned left, numbers right, what stands below a row
    indented. Only a word or a path that is longer than a line goes beyond `WIDTH`."""
    heads, cells, is_number = table_of(answer, names)
    is_below = [column in BELOW for column in answer.columns]
    widths = [max(len(row[at]) for row in (heads, *cells)) for at in range(len(heads))]
    found = []
    for row in (heads, *cells):
        aligned = (
            text.rjust(width) if to_right else text.ljust(width)
            for text, width, to_right, below in zip(row, widths, is_number, is_below, strict=True)
            if not below
        )
        found.append((" " * GAP).join(aligned).rstrip())
        if row is not heads:
            for text in (text for text, below in zip(row, is_below, strict=True) if below):
                found += _wrapped(text)
    return found


def _wrapped(text: str) -> list[str]:
    """Return a text in indented lines of whole words."""
    return textwrap.wrap(
        text, WIDTH, initial_indent=INDENT, subsequent_indent=INDENT, break_long_words=False, break_on_hyphens=False
    )


def _head(column: str) -> str:
    """Return the head of a column: a unit that the cells print is left out."""
    for suffix in ("_ns", "_t", "_percent", "_key"):
        column = column.removesuffix(suffix)
    return "time" if column == "t" else column.replace("_", " ")


def _cell(column: str, value: Any, spelled: Mapping[str, str]) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        if _HEX.fullmatch(value):
            return clean(spelled.get(value) or _short(column, value), CELL_BYTES_MAX)
        return clean(_HEX.sub(lambda found: spelled.get(found[0], found[0]), spelled.get(value, value)), CELL_BYTES_MAX)
    if column in ("hour", "minute"):
        return _time_text(value * (HOUR_NS if column == "hour" else MINUTE_NS))
    if column == "t" or column.endswith("_t"):
        return _time_text(value)
    if column.endswith("_ns"):
        return _span_text(value)
    return f"{value:.2f}%" if column.endswith("_percent") else str(value)


def _short(column: str, value: str) -> str:
    return short_text(KEYS[column], bytes.fromhex(value)) if column in KEYS else value[:ID_SHOWN] + "…"


def _time_text(ns: int) -> str:
    """Return a time in UTC to the minute, to the second if it has any."""
    when = datetime.fromtimestamp(ns // SECOND_NS, UTC)
    return when.strftime("%Y-%m-%d %H:%M:%S" if when.second else "%Y-%m-%d %H:%M")


def _span_text(ns: int) -> str:
    """Return a span with three or four digits: `0.41 ms`, `37.2 ms`, `4.1 s`, `2.0 h`."""
    size = abs(ns)
    for unit, of_ns, most in (("ms", 10**6, 10**9), ("s", SECOND_NS, 2 * MINUTE_NS), ("min", MINUTE_NS, 2 * HOUR_NS)):
        if size < most:
            return f"{ns / of_ns:.2f} {unit}" if size < of_ns * 10 else f"{ns / of_ns:.1f} {unit}"
    return f"{ns / HOUR_NS:.1f} h"
