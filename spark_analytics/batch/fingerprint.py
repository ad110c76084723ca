"""Marks of numbers, whose XOR shows whether ranges of numbers lie side by side, even if their writer is hostile.

Each range first .. stop - 1 adds the mark of its first number and that of its stop, by exclusive or. Where one ends and
the next begins, both cancel out. So if the ranges from the least to the greatest number have no gap and do not overlap,
the marks of both ends are left, and the ranges hold as many numbers as lie between these. Conversely, if both hold, the
ranges lie side by side, unless marks cancel out by chance, once in 2^64. The marks of a process are drawn when it
starts, so nobody can choose numbers to fool them.
"""

from __future__ import annotations

import secrets

from pyspark.sql import Column
from pyspark.sql import functions as F

_KEY = secrets.randbits(62)
_ODD = 0x5851F42D4C957F2D, 0x2545F4914F6CDD1D
_WORD = (1 << 64) - 1


def mark(number: int) -> int:
    """Return a number's mark, a signed 64-bit integer as in Spark."""
    found = (number + _KEY) * _ODD[0] & _WORD
    found = (found ^ found >> 32) * _ODD[1] & _WORD
    found ^= found >> 29
    return found - (1 << 64) if found >> 63 else found


def side_by_side(first: str, stop: str) -> Column:
    """Return the XOR of the marks of a group's ranges."""
    return F.bit_xor(F.expr(f"{_mark(first)} ^ {_mark(stop)}"))


def _mark(column: str) -> str:
    once = f"(({column}) + {_KEY}L) * {_ODD[0]}L"
    twice = f"(({once}) ^ shiftrightunsigned({once}, 32)) * {_ODD[1]}L"
    return f"(({twice}) ^ shiftrightunsigned({twice}, 29))"
