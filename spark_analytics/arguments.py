"""The values of the command lines of the job and the stream, from their texts."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from spark_analytics.batch.span import NS_MAX
from spark_analytics.judgement.slo import Slo, parse_slo

SECONDS_MAX = 366 * 86_400
"""The longest pause and age that are taken."""
FILES_MAX = 1_000_000
"""The most files that a batch can be given."""


def instant(text: str) -> int:
    """Parse nanoseconds since 1970 (digits), or an ISO 8601 date or time, in UTC unless it says otherwise."""
    if text.isascii() and text.isdecimal():
        return min(int(text), NS_MAX)
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time: write an ISO 8601 one, as 2026-12-01 or 2026-12-01T12:30:00+01:00, or ns since 1970"
        ) from None
    since = (when if when.tzinfo else when.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000


def service_level(text: str) -> Slo:
    """Parse SHARE:TIME."""
    try:
        return parse_slo(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def pause(text: str) -> float:
    """Parse a number of seconds, from 0 to a year."""
    return _number(text, 0)


def age(text: str) -> float:
    """Parse a number of seconds, from a tenth of one to a year."""
    return _number(text, 0.1)


def _number(text: str, least: float) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1
    if not least <= found <= SECONDS_MAX:  # also what is no number
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from {least:g} to {SECONDS_MAX:,}")
    return found


def file_count(text: str) -> int:
    """Parse a number of files, 1 at least."""
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:20]) <= FILES_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of files from 1 to {FILES_MAX:,}")
    return int(text)
