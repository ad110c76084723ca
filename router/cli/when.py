"""Parse instants on the command line."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from router.settings.durations import span_s

SECOND_NS = 10**9
NS_MAX = (1 << 63) - 1


def time_ns(text: str) -> int | None:
    """Return the nanoseconds since 1970 of a date or time as ISO 8601 writes it, in UTC unless it says otherwise; None
    for any other text."""
    try:
        when = datetime.fromisoformat(text)
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        return int((when - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()) * SECOND_NS + when.microsecond * 1000
    except (ValueError, OverflowError):
        return None


class When(click.ParamType[Any]):
    """An instant: a date or time as ISO 8601 writes it, in UTC unless it says otherwise, or how long ago (`2d`).
    `span`: what such a time means to the command, for its errors."""

    name = "WHEN"

    def __init__(self, span: str = "how long ago") -> None:
        self._span = span

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | float:
        """Return nanoseconds since 1970; for a span before now, negative seconds as a float."""
        if isinstance(value, int | float):
            return value
        if (span := span_s(value)) is not None:
            return -span
        if (ns := time_ns(value)) is None:
            self.fail(f"{value!r} is no time: write 2026-03-12, 2026-03-12T17:30 (UTC), or {self._span}, 2d or 90m")
        if not 0 <= ns <= NS_MAX:
            self.fail(f"{value!r} lies outside of the years 1970 to 2262: write a time within them")
        return ns


def instant(given: float | None, now_ns: int, default_ns: int | None = None) -> int:
    """Return the nanoseconds of an option of type `When`; without a value `default_ns`, or now."""
    if given is None:
        return now_ns if default_ns is None else default_ns
    return max(0, now_ns + int(given * SECOND_NS)) if isinstance(given, float) else given
