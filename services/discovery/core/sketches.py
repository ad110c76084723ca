"""Counting in little memory: how often each id was heard, and how many different ids there were.

Both sketches read the same keyed hash of an id. Its secret is the node's own, so that nobody outside can choose ids
that collide with those of another.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from hashlib import blake2b

ROWS_MAX = 14
"""The rows for which one hash of 64 bytes has columns, beside the 8 bytes for `Distinct`."""
DISTINCT_KEPT = 256


Hashed = tuple[int, ...]
"""The keyed hash of an id: a number for each row of a count-min sketch, and one of 64 bits at the end."""


class KeyedHash:
    """Hashes ids under a secret."""

    __slots__ = ("_rows", "_secret", "_size")

    def __init__(self, rows: int, secret: bytes) -> None:
        if not 1 <= rows <= ROWS_MAX or not secret:
            raise ValueError(f"a sketch has 1 to {ROWS_MAX} rows and a secret, not {rows} and {len(secret)} bytes")
        self._rows = struct.Struct(f"<{rows}IQ")
        self._size = self._rows.size
        self._secret = secret

    def __call__(self, id: bytes) -> Hashed:
        return self._rows.unpack(blake2b(id, digest_size=self._size, key=self._secret).digest())


class CountMin:
    """A count-min sketch (Cormode, Muthukrishnan 2005): an estimate is never below the true count.

    `least` is the smallest count of any cell that counted something: 0 while nothing was counted.
    """

    __slots__ = ("_cells", "_rows", "_with_least", "least", "width")

    def __init__(self, rows: int, width: int) -> None:
        self.width = width
        self._rows = rows
        self._cells = [array("Q", bytes(8 * width)) for _ in range(rows)]
        self.least = 0
        self._with_least = 0

    def __repr__(self) -> str:
        return f"<count-min sketch of {self._rows} x {self.width}>"

    def add(self, hashed: Hashed) -> int:
        """Count an id once more and return the estimate of its count."""
        width, counts = self.width, list[int]()
        for cells, number in zip(self._cells, hashed, strict=False):
            column = number % width
            count = cells[column]
            cells[column] = count + 1
            counts.append(count)
            if not count:
                self._with_least = self._with_least + 1 if self.least == 1 else 1
                self.least = 1
            elif count == self.least:
                self._with_least -= 1
        if not self._with_least:
            self._find_least()
        return min(counts) + 1

    def _find_least(self) -> None:
        counts = [count for cells in self._cells for count in cells if count]
        self.least = min(counts)
        self._with_least = counts.count(self.least)


class Distinct:
    """The number of different ids, by the smallest of their hashes (Bar-Yossef and others 2002: k minimum values).

    Exact below 256 ids; above, the standard error is about 6 %.
    """

    __slots__ = ("_smallest",)

    def __init__(self) -> None:
        self._smallest: list[int] = []

    def add(self, hashed: Hashed) -> None:
        number, smallest = hashed[-1], self._smallest
        if len(smallest) == DISTINCT_KEPT and number >= smallest[-1]:
            return
        at = bisect_left(smallest, number)
        if at == len(smallest) or smallest[at] != number:
            smallest.insert(at, number)
            del smallest[DISTINCT_KEPT:]

    def __len__(self) -> int:
        """Return the estimate."""
        if len(self._smallest) < DISTINCT_KEPT:
            return len(self._smallest)
        return (DISTINCT_KEPT - 1 << 64) // max(1, self._smallest[-1])
