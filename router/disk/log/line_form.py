"""Strict reading of log lines: bytes are a line only in a router's own spelling, with its event's columns.

The grammar of a line is defined once, for the node's own searches and both engines of the audit:
`spark_analytics/judgement/line_grammar.py`.
"""

from __future__ import annotations

from router.core.log.events import ID_BYTES
from router.core.log.line import Line, decode_line
from spark_analytics.judgement.line_grammar import is_line


class NotALine(ValueError):
    """Raised for bytes in a log that are not one of its lines."""


def read_line(data: bytes) -> Line:
    """Return the line that these bytes, without a newline, encode; raise `NotALine` if they encode none."""
    if not is_line(data):
        raise NotALine("not a line of an event log: it is not spelled as a router writes it")
    try:
        row = decode_line(data)
    except ValueError as error:
        raise NotALine(str(error)) from None
    if not _columns_fit(row):
        raise NotALine(f"not a line of an event log: its columns do not hold {row.n} messages")
    return row


def _columns_fit(row: Line) -> bool:
    """Whether each column of an accepted line has as many entries as the line states."""
    if row.event != "accepted":
        return True
    lengths = {len(one or ()) for one in (row.sizes, row.ttls, row.expiries)}
    return row.n == row.count and len(row.ids or "") == 2 * ID_BYTES * row.n and lengths == {row.n}
