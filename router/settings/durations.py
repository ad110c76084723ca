"""Spans of time as people write them: a number with a unit, as 90m, 12h or 5d. A setting of seconds may be one."""

from __future__ import annotations

import re

UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
SECONDS_FORM = 'a number of seconds, or of another unit in quotes, like "90m", "12h" or "5d"'
_SPAN = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)([smhdw])", re.ASCII)
_OF_SECONDS = re.compile(r"(?<!per)_s(?:_|$)")


def span_s(text: str) -> float | None:
    """Return the seconds in a number with a unit; None for any other text."""
    found = _SPAN.fullmatch(text)
    return None if found is None else float(found[1]) * UNITS_S[found[2]]


def is_of_seconds(name: object) -> bool:
    """Whether a setting of that name is a number of seconds: `ttl_s`, `retry_s_max`, not `pulls_per_s`."""
    return isinstance(name, str) and _OF_SECONDS.search(name) is not None


def with_seconds(value: object, name: str = "") -> object:
    """Return a value of a configuration file in which settings of seconds that are spans are numbers. `name`: that of
    the setting whose value it is. The nesting is as deep as the file's, which is limited."""
    if isinstance(value, list):
        return [with_seconds(one) for one in value]
    if isinstance(value, dict):
        return {key: with_seconds(one, key) for key, one in value.items()}
    found = span_s(value) if isinstance(value, str) and is_of_seconds(name) else None
    if found is None:
        return value
    return int(found) if found == int(found) else found
