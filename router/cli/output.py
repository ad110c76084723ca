"""Printing: JSON for programs, text for people, and every line at once, so that pipes see it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click

from router.cli.encoding import is_unicode
from router.core.wire.text import Kind, clean, key_text, short


def say(text: str = "") -> None:
    """One line on standard output."""
    click.echo(text)


def note(text: str) -> None:
    """One line for the person at the terminal, beside what is being printed."""
    click.echo(text, err=True)


def at_terminal() -> bool:
    """Whether a person reads standard error."""
    return sys.stderr is not None and sys.stderr.isatty()


def hint(text: str) -> None:
    """One line for a person at a terminal; scripts are not told."""
    if at_terminal():
        note(text)


def one_line(body: bytes) -> str:
    """Return a body as one line for a terminal, without control characters of somebody else's."""
    text = body.decode(errors="backslashreplace").replace("\n", " ⏎ ").replace("\t", "    ")
    return clean(text, len(text.encode()))


def say_json(value: Any) -> None:
    """One JSON value on a line of its own; keys and ids as hex."""
    say(json.dumps(value, default=_plain, ensure_ascii=not is_unicode(sys.stdout)))


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if hasattr(value, "__struct_fields__"):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    raise TypeError(f"{type(value).__name__} has no place in JSON")


def address_text(hex_key: str) -> str:
    return key_text("addr", bytes.fromhex(hex_key))


def group_text(hex_key: str) -> str:
    return key_text("group", bytes.fromhex(hex_key))


def short_text(kind: Kind, key: bytes) -> str:
    """Return the beginning of a key's text, for tables: enough to look it up by, never to send to."""
    return short(key_text(kind, key))


def columns(heads: Sequence[str], rows: Sequence[Sequence[object]], empty: str) -> None:
    """A table for people; what is text stands left, numbers right. `empty` is said where there are no rows."""
    if not rows:
        note(empty)
        return
    cells = [[_cell(one) for one in row] for row in rows]
    widths = [max(len(row[at]) for row in (heads, *cells)) for at in range(len(heads))]
    right = [all(isinstance(row[at], int | float | None) for row in rows) for at in range(len(heads))]
    for row in (heads, *cells):
        line = "  ".join(
            text.rjust(width) if to_right else text.ljust(width)
            for text, width, to_right in zip(row, widths, right, strict=True)
        )
        line = line.rstrip()
        say(click.style(line, bold=True) if row is heads else line)


def named_address(name: str, hex_key: str) -> tuple[str, str]:
    """Return two cells: a name with its short address, or no name with the whole address, by which one then goes."""
    return name, short_text("addr", bytes.fromhex(hex_key)) if name else address_text(hex_key)


def problems(found: Iterable[tuple[str, str | None]]) -> None:
    """Print what is wrong with whom below a table that it would make too wide."""
    for name, problem in found:
        if problem:
            say(f"\n{name}: {clean(problem, 1000)}")


def facts(rows: Sequence[tuple[str, object]]) -> None:
    """Names and values, one pair a line."""
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        say(f"{name.ljust(width)}  {_cell(value)}".rstrip())


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.1f}"
    return clean(str(value), 1000)


def span_text(seconds: float | None) -> str:
    """`4 s`, `3 min`, `5 h 12 min`, `2 d 4 h`."""
    if seconds is None:
        return "-"
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"


def size_text(count: int) -> str:
    """`812 B`, `4.0 KiB`, `1.2 GiB`."""
    size, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{count} B" if units[0] == "B" else f"{size:.1f} {units[0]}"
