"""Parse spans of time on the command line: seconds, or a number with a unit, as 90m, 12h or 5d."""

from __future__ import annotations

from math import isnan
from typing import Any

import click

from router.settings.durations import span_s

FORMS = "a number with its unit, as 90m, 12h or 5d"


class Seconds(click.FloatRange):
    """A number of seconds, or of another unit that is named; `nan` is none, although it is in every range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert(_number(self, value, 1, float, param, ctx), param, ctx)


class Minutes(click.FloatRange):
    """A number of minutes, or of another unit that is named."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert(_number(self, value, 60, float, param, ctx), param, ctx)


class WholeSeconds(click.IntRange):
    """A whole number of seconds, which may be named in another unit."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert(int(_number(self, value, 1, int, param, ctx)), param, ctx)


class WholeMinutes(click.IntRange):
    """A whole number of minutes, which may be named in another unit."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert(int(_number(self, value, 60, int, param, ctx)), param, ctx)


def _number(
    kind: click.ParamType[Any],
    value: Any,
    unit_s: int,
    number: type[int] | type[float],
    param: click.Parameter | None,
    ctx: click.Context | None,
) -> int | float:
    """Return a value in units of so many seconds; let the parameter fail if it is no number of them."""
    unit = "seconds" if unit_s == 1 else "minutes"
    span = span_s(value) if isinstance(value, str) else None
    try:
        found = number(value) if span is None else span / unit_s
    except ValueError:
        found = float("nan")
    if isnan(found) or (number is int and found != int(found)):
        whole = "whole number" if number is int else "number"
        kind.fail(f"{value!r} is no {whole} of {unit}, nor {FORMS}.", param, ctx)
    return number(found)
