"""Limit log lines on standard error that others can cause again and again: a few are printed, the rest counted."""

from __future__ import annotations

import logging

from router.core.wire.text import SUBJECT

LINES_MAX = 10
SPAN_S = 10.0


class FewOfAKind(logging.Filter):
    """Let through at most `lines_max` lines from one place in the program within `span_s` seconds.

    The first line after that span says how many were left out. There is one count for each place that logs, and there
    for each service that its lines are about.
    """

    def __init__(self, lines_max: int = LINES_MAX, span_s: float = SPAN_S) -> None:
        super().__init__()
        self._lines_max = lines_max
        self._span_s = span_s
        self._spans: dict[tuple[str, int, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        place = record.pathname, record.lineno, getattr(record, SUBJECT, "")
        began, count = self._spans.get(place, (record.created, 0))
        if record.created - began >= self._span_s:
            if (left_out := count - self._lines_max) > 0:
                record.msg = f"{record.getMessage()} (and {left_out} more lines like this since the last one)"
                record.args = None
            began, count = record.created, 0
        self._spans[place] = began, count + 1
        return count < self._lines_max
