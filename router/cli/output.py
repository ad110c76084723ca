"""Print JSON for programs and text for people, flushing each line at once for pipes."""

from __future__ import annotations

import json
import os
import re
import select
import sys
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, closing, suppress
from typing import Any, TextIO

import click

from router.cli.encoding import is_unicode
from router.cli.exits import lines_for_terminal, with_home
from router.core.wire.text import Kind, clean, key_text, short

DAY_S = 86_400
NAME_MAX = 19
COLOURLESS = ("dumb", "unknown")
"""The terminals, by TERM, that say that they know no colours and no bold."""
READER_GONE_S = 1.0
"""How long a command whose reader has gone goes on: one that reads no more lines than it wants leaves just before the
command ends."""
_OBEYED = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""Matches the control and invisible characters that JSON leaves as they are within its texts."""


def say(text: str = "") -> None:
    """Print a line on standard output."""
    click.echo(text)


def note(text: str) -> None:
    """Print a line for people on standard error, apart from the output proper."""
    click.echo(lines_for_terminal(for_this_home(text)), err=True)


def for_this_home(text: str) -> str:
    """Return the text with the `--home` of this invocation in the commands that it names."""
    context = click.get_current_context(silent=True)
    return with_home(text, getattr(context and context.find_root().obj, "home_option", None))


def at_terminal() -> bool:
    """Whether standard error is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


def hint(text: str) -> None:
    """Print a line on standard error if that is a terminal; scripts do not see it."""
    if at_terminal():
        note(text)


def one_line(body: bytes) -> str:
    """Return a body as one line for a terminal, without its control characters."""
    text = body.decode(errors="backslashreplace").replace("\n", " ⏎ ").replace("\t", "    ")
    return clean(text, len(text.encode()))


def say_json(value: Any) -> None:
    """Print one JSON value on one line, with keys and ids as hex. What a terminal would obey is escaped."""
    text = json.dumps(value, default=_plain, ensure_ascii=not is_unicode(sys.stdout))
    say(_OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


@asynccontextmanager
async def while_read() -> AsyncIterator[None]:
    """End the block with `BrokenPipeError` when the reader of standard output has gone, also if nothing is printed."""
    import trio

    async with trio.open_nursery() as nursery:
        nursery.start_soon(_until_reader_gone)
        yield
        nursery.cancel_scope.cancel()


async def _until_reader_gone() -> None:
    import trio

    if sys.stdout is None:  # closed by the process that started us
        return
    with closing(select.epoll()) as gone, suppress(ValueError, PermissionError):  # of a file, which has no reader
        gone.register(sys.stdout.fileno(), 0)  # the end of its reader is reported in any case
        await trio.lowlevel.wait_readable(gone.fileno())
        await trio.sleep(READER_GONE_S)
        raise BrokenPipeError


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
    """Return the beginning of a key's text for tables: enough to identify a key, but not an address to send to."""
    return short(key_text(kind, key))


def columns(heads: Sequence[str], rows: Sequence[Sequence[object]], empty: str) -> None:
    """Print a table for people, with text aligned left and numbers right; without rows, print `empty`."""
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
        say(emphasised(line) if row is heads else line)


def emphasised(text: str) -> str:
    """Return a text in bold, unless the terminal says that it knows none."""
    return text if os.environ.get("TERM") in COLOURLESS else click.style(text, bold=True)


def has_colours(stream: TextIO) -> bool:
    """Whether the stream is a terminal that shows colours, and whose user wants them (https://no-color.org)."""
    return stream.isatty() and os.environ.get("TERM") not in COLOURLESS and not os.environ.get("NO_COLOR")


def clipped(text: str, most: int) -> str:
    """Return a text for a table cell, cut to `most` characters with an ellipsis."""
    return text if len(text) <= most else text[: most - 1] + "…"


def named_address(name: str, hex_key: str) -> tuple[str, str]:
    """Return two cells: a name and its short address, or no name and the whole address."""
    return name, short_text("addr", bytes.fromhex(hex_key)) if name else address_text(hex_key)


def problems(found: Iterable[tuple[str, str | None]]) -> None:
    """Print each problem with its name below a table, whose rows would become too wide."""
    for name, problem in found:
        if problem:
            say(f"\n{name}: {clean(problem, 1000)}")


def facts(rows: Sequence[tuple[str, object]]) -> None:
    """Print names and values, one pair a line; commands in them are those for this home."""
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        say(f"{name.ljust(width)}  {for_this_home(_cell(value))}".rstrip())


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.1f}"
    return clean(str(value), 1000)


def time_text(unix_s: float) -> str:
    """Return a time for people: `2026-11-25 22:46:45 UTC`."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(unix_s))


def clock_text(unix_s: float, now_s: float) -> str:
    """Return a time near `now_s` for a column headed UTC: `22:46:45`, with its date if it is a day away or more; "-"
    for 0, which stands for none."""
    if not unix_s:
        return "-"
    return time.strftime("%H:%M:%S" if abs(now_s - unix_s) < DAY_S else "%Y-%m-%d %H:%M:%S", time.gmtime(unix_s))


def offset_text(ms: float | None) -> str:
    """Return how far another clock is ahead of ours, for a table: `-0.3 ms`, `47 s`, `2.0 d`."""
    if ms is None or abs(ms) < 10_000:
        return "-" if ms is None else f"{ms:.1f} ms" if abs(ms) < 100 else f"{ms:.0f} ms"
    seconds = ms / 1000
    return f"{seconds:.0f} s" if abs(seconds) < 86_400 else f"{seconds / 86_400:.1f} d"


def size_text(count: int) -> str:
    """Return a size for people: `812 B`, `4.0 KiB`, `1.2 GiB`."""
    size, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{count} B" if units[0] == "B" else f"{size:.1f} {units[0]}"
