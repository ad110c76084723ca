"""Find the statements of a TOML text, and the line of a value.

A statement is the shortest run of whole lines that is TOML by itself, so `tomllib` does the parsing: multi-line
strings, quoted keys and inline tables need no rules here.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any, NamedTuple

Path = tuple[str | int, ...]


class Statement(NamedTuple):
    """Lines `first` to `stop`, exclusive (from 0): a header (`[a]`, `[[a]]`) or a key and its value."""

    first: int
    stop: int
    header: bool
    value: dict[str, Any]


class Block(NamedTuple):
    """One `[[name]]` block, from its header's line up to the end of its last statement."""

    first: int
    stop: int
    keys: tuple[Statement, ...]


def lines(text: str) -> list[str]:
    """Return the lines with their line ends; only a line feed ends a line of TOML."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def statements(text: str) -> Iterator[Statement]:
    """Yield the statements of a valid text, in order; blank and comment lines belong to none."""
    rows = lines(text)
    first = 0
    while first < len(rows):
        stop, value = _shortest(rows, first)
        if value:
            yield Statement(first, stop, rows[first].lstrip().startswith("["), value)
        first = stop


def line_of(text: str, path: Path) -> int | None:
    """Return the line (from 1) of the value at `path`, or of the nearest value around it that stands in the text; None
    if there is none."""
    found = {place: line for line, place in _places(text)}
    for length in range(len(path), 0, -1):
        if path[:length] in found:
            return found[path[:length]]
    return None


def blocks(text: str, name: str) -> list[Block]:
    """Return the `[[name]]` blocks, in order."""
    found: list[list[Statement]] = []
    inside = False
    for one in statements(text):
        if one.header:
            inside = one.value == {name: [{}]}
            if inside:
                found.append([one])
        elif inside:
            found[-1].append(one)
    return [Block(parts[0].first, parts[-1].stop, tuple(parts[1:])) for parts in found]


def _shortest(rows: list[str], first: int) -> tuple[int, dict[str, Any]]:
    text = ""
    for stop in range(first + 1, len(rows) + 1):
        text += rows[stop - 1]
        try:
            return stop, tomllib.loads(text)
        except tomllib.TOMLDecodeError:
            continue
    raise AssertionError("statements are asked of valid TOML only")


def _places(text: str) -> Iterator[tuple[int, Path]]:
    """Yield line and path of every value; of a table written in several places the last one counts."""
    counts: dict[Path, int] = {}
    around: Path = ()
    for one in statements(text):
        if one.header:
            around = _header(one.value, counts)
            yield one.first + 1, around
        else:
            for path in _paths(one.value):
                yield one.first + 1, around + path


def _header(value: dict[str, Any], counts: dict[Path, int]) -> Path:
    """Return the path that a header opens; `[[a]]` counts up, and `[a.b]` after it lies in the newest `a`."""
    path: Path = ()
    inner: Any = value
    while inner:
        if isinstance(inner, list):
            counts[path] = counts.get(path, -1) + 1
            path, inner = (*path, counts[path]), inner[0]
        else:
            (key, inner), *_ = inner.items()
            path = (*path, key)
            if isinstance(inner, dict) and path in counts:
                path = (*path, counts[path])
    return path


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _paths(inner, (*path, key))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _paths(inner, (*path, at))
