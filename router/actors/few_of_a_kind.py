"""Limit log lines on standard error that others can cause again and again: a few are printed, the rest counted."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from router.core.wire.text import SUBJECT

LINES_MAX = 10
SPAN_S = 10.0


@dataclass(slots=True)
class _Span:
    """How many lines one place in the program has printed since a time, and how many were left out."""

    began_s: float
    printed: int = 0
    left_out: int = 0


class FewOfAKind(logging.Filter):
    """Let through at most `lines_max` lines from one place in the program within `span_s` seconds, and no warning
    that is equal to the line printed before it; an error may be about something else in the same words.

    The first line after that span says how many were left out. There is one count for each place that logs, and there
    for each service that its lines are about.
    """

    def __init__(self, lines_max: int = LINES_MAX, span_s: float = SPAN_S) -> None:
        super().__init__()
        self._lines_max = lines_max
        self._span_s = span_s
        self._spans: dict[tuple[str, int, str], _Span] = {}
        self._last: tuple[tuple[str, int, str], str] | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        place = record.pathname, record.lineno, getattr(record, SUBJECT, "")
        text, span = _text(record), self._spans.get(place)
        if span is None or record.created - span.began_s >= self._span_s:
            if span is not None and span.left_out:
                record.msg = f"{text} (and {span.left_out} more lines like this since the last one)"
                record.args = None
            span = self._spans[place] = _Span(record.created)
        is_repeated = record.levelno < logging.ERROR and self._last == (place, text)
        if span.printed and (span.printed >= self._lines_max or is_repeated):
            span.left_out += 1
            return False
        span.printed += 1
        self._last = place, text
        return True


def _text(record: logging.LogRecord) -> str:
    """Return what a record says; without its arguments if they do not fit, which is told where it is printed."""
    try:
        return record.getMessage()
    except Exception:
        return str(record.msg)
