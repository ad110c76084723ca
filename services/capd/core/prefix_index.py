"""The places of messages in the order of their data's first 16 bytes, so that a prefix is found by bisection.

Rows that came since the index was made are left to the caller, who looks at them one by one while they are few.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .pattern import KEY_BYTES

UNMERGED_MIN, UNMERGED_SHARE = 4_096, 256
"""So many rows, or this part of all, are looked at one by one before they are merged in."""
_WORD = np.uint64(32)
_KEY = np.dtype(f"S{KEY_BYTES}")  # compared byte by byte; zeros at its end count as zeros


class PrefixIndex:
    """The index of the rows at places below `upto`."""

    def __init__(self) -> None:
        self._keys: NDArray[np.bytes_] = np.empty(0, _KEY)
        self._places: NDArray[np.uint32] = np.empty(0, np.uint32)
        self.upto = 0

    def __repr__(self) -> str:
        return f"<PrefixIndex of {len(self._places)} places>"

    def lacks_many(self, used: int) -> bool:
        """Whether of `used` rows so many are not in it that they should be merged in."""
        return used - self.upto > max(UNMERGED_MIN, used // UNMERGED_SHARE)

    def merge(self, words: Sequence[NDArray[np.uint32]]) -> None:
        """Take in the rows from `upto` on; `words`: all keys in columns, as big-endian numbers."""
        new = [column[self.upto :].astype(np.uint64) for column in words]
        first, second = new[0] << _WORD | new[1], new[2] << _WORD | new[3]
        order = np.lexsort((second, first))
        halves = np.stack((first[order], second[order]), axis=1).astype(">u8")
        keys = halves.view(_KEY).reshape(-1)
        places = (order + self.upto).astype(np.uint32)
        if self.upto:
            at = np.searchsorted(self._keys, keys, side="right")
            self._keys, self._places = np.insert(self._keys, at, keys), np.insert(self._places, at, places)
        else:
            self._keys, self._places = keys, places
        self.upto = len(words[0])

    def find(self, prefix: bytes) -> NDArray[np.uint32]:
        """Return the places of rows whose key begins so, in no order."""
        after = _after(prefix)
        bounds = np.searchsorted(self._keys, np.array((prefix, after or b""), _KEY)).tolist()
        return self._places[bounds[0] : None if after is None else bounds[1]]

    def packed(self, stays: NDArray[np.bool_]) -> None:
        """Hear that of all rows only these stay, each at a place that is lower by those before it that do not."""
        now_at = (np.cumsum(stays, dtype=np.uint32) - 1).astype(np.uint32)
        kept = stays[self._places]
        self._keys, self._places = self._keys[kept], now_at[self._places[kept]]
        self.upto = int(np.count_nonzero(stays[: self.upto]))


def _after(prefix: bytes) -> bytes | None:
    """Return the least key that is above all that begin so; None if nothing is."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes((kept[-1] + 1,)) if kept else None
