"""The lines of a process's log: one for each record, whatever bytes those brought whose words it repeats."""

from __future__ import annotations

import logging
from typing import Any

from router.core.wire.text import printable


class OneLine(logging.Formatter):
    """Writes each message as one line, and each line of a traceback, without what a terminal would obey."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = printable(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:
        return "\n".join(map(printable, super().formatException(ei).splitlines()))
