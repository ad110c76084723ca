"""A set of the numbers of live messages, of one bit each: numbers only grow, and the oldest ones go."""

from __future__ import annotations


class NumberSet:
    """Numbers from a first one on; whatever is below that counts as contained."""

    def __init__(self, first: int) -> None:
        self._first = first
        self._bits = bytearray()

    def __repr__(self) -> str:
        return f"<NumberSet from {self._first} on, {len(self._bits)} bytes>"

    def __contains__(self, number: int) -> bool:
        at = number - self._first
        return at < 0 or (at >> 3 < len(self._bits) and self._bits[at >> 3] >> (at & 7) & 1 > 0)

    def add(self, number: int) -> None:
        at = number - self._first
        if at < 0:
            return
        if (lacking := (at >> 3) + 1 - len(self._bits)) > 0:
            self._bits += bytes(lacking)
        self._bits[at >> 3] |= 1 << (at & 7)

    def forget_below(self, number: int) -> None:
        """Keep nothing of smaller numbers, as far as whole bytes go."""
        if (spare := (number - self._first) >> 3) > 0:
            del self._bits[:spare]
            self._first += spare << 3
