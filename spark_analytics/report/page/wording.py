"""Numbers, times, lengths of time and keys as people read them. Times are UTC, thousands are separated."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

from .markup import Markup, join, plain, tag

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTES_MAX = 4_000_000_000  # about the year 9575: later instants have no calendar here
NAMES: ContextVar[Mapping[str, str]] = ContextVar("names", default=MappingProxyType({}))
"""The names that the page shows in place of keys."""
_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def number(value: int | float | None) -> str:
    """Return a number as text: 1234567 -> 1,234,567; None -> a dash."""
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}".rstrip("0").rstrip(".")


def counted(value: int, noun: str, many: str = "") -> str:
    """Return a count with its noun: 2, "router" -> 2 routers."""
    return f"{number(value)} {noun if value == 1 else many or noun + 's'}"


def be(value: int) -> str:
    return "is" if value == 1 else "are"


def share(part: int, whole: int) -> str:
    """Return the share in percent; only nothing reads as 0 %, only everything as 100 %."""
    if not whole or not part:
        return "0 %" if whole else "–"
    percent = 100 * part / whole
    if part == whole:
        return "100 %"
    if percent < 0.01:
        return "< 0.01 %"
    if percent > 99.99:
        return "> 99.99 %"
    return f"{percent:.2f} %" if percent < 1 or percent > 99 else f"{percent:.1f} %"


def lasting(seconds: float | None) -> str:
    """Return a length of time in the unit that fits it: 0.0123 -> 12.3 ms, 2460 -> 41 min."""
    if seconds is None:
        return "–"
    if seconds == 0:
        return "0 s"
    if seconds < 0:
        return "−" + lasting(-seconds)
    size, unit = next((each for each in _UNITS if seconds >= each[0] * 0.9995), _UNITS[-1])
    amount = seconds / size
    most = 1 if size >= 60 else 2
    digits = 0 if amount >= 99.95 or (most == 1 and amount >= 9.95) else 1 if amount >= 9.995 else most
    return f"{amount:,.{digits}f}".rstrip("0").rstrip(".") + f" {unit}" if digits else f"{amount:,.0f} {unit}"


def milliseconds(value: float | None) -> str:
    return lasting(None if value is None else value / 1000)


def _at(minute: int) -> datetime:
    return _EPOCH + timedelta(minutes=max(0, min(minute, _MINUTES_MAX)))


def clock(minute: int) -> str:
    """Return the time of a minute: 14:05."""
    return f"{_at(minute):%H:%M}"


def day(minute: int) -> str:
    """Return the day of a minute: 3 Mar."""
    at = _at(minute)
    return f"{at.day} {at:%b}"


def moment(minute: int) -> str:
    """Return the date and time of a minute: 3 Mar 2026, 14:05."""
    at = _at(minute)
    return f"{at.day} {at:%b} {at.year}, {at:%H:%M}"


def between(first: int, last: int) -> str:
    """Return a span of time: 12 Mar 2026, 06:00 to 18:00."""
    return f"{moment(first)} to {clock(last) if day(first) == day(last) else moment(last)}"


def window_text(minute: int, step: int) -> str:
    """Return a window as text: 3 Mar, 14:00 to 14:10."""
    if step >= 1440:
        return day(minute) if step == 1440 else f"{day(minute)} to {day(minute + step - 1)}"
    return f"{day(minute)}, {clock(minute)} to {clock(minute + step)}"


def step_text(step: int) -> str:
    """Return the length of a window: 10 minutes, 2 hours, 1 day."""
    if step % 1440 == 0:
        return counted(step // 1440, "day")
    return counted(step // 60, "hour") if step % 60 == 0 else counted(step, "minute")


def key(value: object, absent: str = "–") -> Markup:
    """Return the name of a key, or its beginning as the style cuts it; copying and the title give the key."""
    if value is None or value == "":
        return tag("span", absent, class_="none")
    if name := NAMES.get().get(str(value)):
        return tag("span", name, class_="key-name", data_key=plain(value), title=plain(value))
    return tag("code", plain(value), class_="key", title=plain(value))


_TERM = re.compile(r"`([^`]{1,200})`|\b([0-9a-f]{64}|addr1[0-9a-z]{58})\b")


def prose(value: object) -> Markup:
    """Return a finding's sentence with its keys cut off by the style and its words between backticks as code."""
    said, parts, end = plain(value, 1000), list[object](), 0
    for found in _TERM.finditer(said):
        term = (
            key(found[2])
            if found[2]
            else tag("code", found[1], class_="command" if found[1].startswith("router ") else None)
        )
        parts += [said[end : found.start()], term]
        end = found.end()
    return join(*parts, said[end:])


def short(value: object) -> str:
    """Return the name of a key or its beginning, for places without markup."""
    if value is None or value == "":
        return "–"
    if name := NAMES.get().get(str(value)):
        return plain(name, 400)
    seen = plain(value, 400)
    return seen if len(seen) <= 10 else seen[:8] + "…"
