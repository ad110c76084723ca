"""Readers of a summary's parts: a part that is absent or of another shape reads as empty."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

Row: TypeAlias = Mapping[str, Any]
_MINUTES_MAX = 1 << 40
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rows(source: Row, name: str) -> list[Row]:
    """Return the list of maps of that name."""
    found = source.get(name)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list | tuple) else []


def words(source: Row, name: str) -> list[str]:
    found = source.get(name)
    return [str(each) for each in found] if isinstance(found, list | tuple) else []


def part(source: Row, name: str) -> Row:
    found = source.get(name)
    return found if isinstance(found, Mapping) else {}


def whole(source: Row, name: str) -> int:
    """Return a count; 0 if it is absent."""
    return whole_or_none(source, name) or 0


def whole_or_none(source: Row, name: str) -> int | None:
    found = source.get(name)
    return int(found) if isinstance(found, int | float) and abs(found) < 1 << 80 else None


def real(source: Row, name: str) -> float | None:
    found = source.get(name)
    return float(found) if isinstance(found, int | float) and abs(found) < 1 << 80 else None


def minute(value: object) -> int | None:
    """Return an instant as minutes since 1970, from such minutes or from UTC text; None if it is neither."""
    if isinstance(value, int):
        return value if abs(value) < _MINUTES_MAX else None
    if not isinstance(value, str):
        return None
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        return None
    return (at.replace(tzinfo=at.tzinfo or UTC) - _EPOCH) // (datetime.resolution * 60_000_000)


def grouped(found: Iterable[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """Return the rows grouped by their values of these names, in order of first appearance."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in found:
        groups.setdefault(tuple(_hashable(row.get(name)) for name in names), []).append(row)
    return groups


def summed(found: Iterable[Row], name: str, by: str) -> list[tuple[Any, int]]:
    """Return (value of `by`, sum of `name`), the greatest sum first, then in order of the value's text."""
    groups = grouped(found, by)
    return sorted(
        ((key[0], sum(whole(row, name) for row in each)) for key, each in groups.items()),
        key=lambda pair: (-pair[1], str(pair[0])),
    )


def windows(summary: Row) -> Iterator[int]:
    """Yield every window in the summary's tables, in minutes since 1970."""
    for name in ("windows", "latency", "queues", "routes"):
        for row in rows(summary, name):
            for each in (row, *rows(row, "windows")):
                if (at := minute(each.get("window"))) is not None:
                    yield at


def binned(found: Iterable[Row], place: Callable[[int], int], count: int, names: Sequence[str]) -> dict[str, list[int]]:
    """Return the sums of each field by the window's place on the axis; windows outside the axis are left out."""
    sums = {name: [0] * count for name in names}
    for row in found:
        at = minute(row.get("window"))
        if at is not None and 0 <= (where := place(at)) < count:
            for name in names:
                sums[name][where] += whole(row, name)
    return sums


def _hashable(value: object) -> object:
    return value if isinstance(value, str | int | float | None) else str(value)
