"""The places of messages in the order of their data's first 16 bytes, so that a prefix is found by bisection.

Rows that were added since the last merge are not in it: while they are few, the caller scans them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .pattern import KEY_BYTES

UNMERGED_MIN, UNMERGED_SHARE = 4_096, 256
"""Rows are merged once more than `UNMERGED_MIN`, and more than one in `UNMERGED_SHARE` of all, are not in the index."""
_WORD = np.uint64(32)
_KEY = np.dtype(f"S{KEY_BYTES}")  # compared byte by byte; trailing zeros count as zeros


class PrefixIndex:
    """The index of the rows at places below `upto`."""

    def __init__(self) -> None:
        self._keys: NDArray[np.bytes_] = np.empty(0, _KEY)
        self._places: NDArray[np.uint32] = np.empty(0, np.uint32)
        self.upto = 0

    def __repr__(self) -> str:
        return f"<PrefixIndex of {len(self._places)} places>"

    def lacks_many(self, used: int) -> bool:
        """Whether enough of `used` rows are missing in the index that they should be merged."""
        return used - self.upto > max(UNMERGED_MIN, used // UNMERGED_SHARE)

    def merge(self, words: Sequence[NDArray[np.uint32]]) -> None:
        """Add the rows from `upto` on; `words`: all keys in columns, as big-endian numbers."""
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
        """Return the places of rows whose key begins with the prefix, unordered."""
        after = _after(prefix)
        bounds = np.searchsorted(self._keys, np.array((prefix, after or b""), _KEY)).tolist()
        return self._places[bounds[0] : None if after is None else bounds[1]]

    def packed(self, stays: NDArray[np.bool_]) -> None:
        """Remove the rows that do not stay when the columns are packed, and lower the places of the others
        accordingly."""
        now_at = (np.cumsum(stays, dtype=np.uint32) - 1).astype(np.uint32)
        kept = stays[self._places]
        self._keys, self._places = self._keys[kept], now_at[self._places[kept]]
        self.upto = int(np.count_nonzero(stays[: self.upto]))


def _after(prefix: bytes) -> bytes | None:
    """Return the least key above all keys that begin with the prefix; None if there is none."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes((kept[-1] + 1,)) if kept else None
