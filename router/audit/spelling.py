"""Check the bytes of a log file as they are read for its digest: whether each line matches the grammar.

Nearly all lines are about messages, and one expression matches as many of them as follow each other.
"""

from __future__ import annotations

import re
from enum import Enum

from spark_analytics.judgement.line_grammar import EXACT, LINE_BYTES_MAX, QUICK, is_line


class Care(Enum):
    """The strictness with which lines are checked. `QUICK`: the reader of their columns checks the values that
    `line_grammar.QUICK` leaves open."""

    QUICK = re.compile(rf"(?>{QUICK}\n)*+".encode())
    EXACT = re.compile(rf"(?>{EXACT}\n)*+".encode())


class Spelling:
    """Check a file, part after part, up to its last line. `is_odd`: a line was invalid, and no more are checked."""

    def __init__(self, care: Care) -> None:
        self.is_odd = False
        self._messages = care.value
        self._rest = b""

    def __repr__(self) -> str:
        return f"<Spelling: {'odd' if self.is_odd else 'as it should be'}, {len(self._rest)} bytes of a line>"

    def take(self, part: memoryview) -> None:
        if self.is_odd:
            return
        data = b"".join((self._rest, part))
        end = data.rfind(b"\n") + 1
        self._rest = data[end:]
        self.is_odd = len(self._rest) >= LINE_BYTES_MAX or not _are_lines(self._messages, data, end)


def _are_lines(messages: re.Pattern[bytes], data: bytes, end: int) -> bool:
    """Whether the bytes up to `end`, where a line ends, are valid lines."""
    at = 0
    while True:
        found = messages.match(data, at, end)
        at = found.end() if found else at
        if at >= end:
            return True
        stop = data.index(b"\n", at)
        if not is_line(data[at:stop]):
            return False
        at = stop + 1
