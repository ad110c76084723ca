"""Ordered sets of (expiry minute, message id) in which the sum of any run of ids is cheap, as negentropy needs it.

The ids lie in leaves of at most `LEAF_MAX`, each one byte string of rows (key, rank), in memory or on disk
(`leaves.py`); the first key of each leaf, and the sum of its ids, are in memory. The sums of all leaves before each
leaf are added up once after a change, when a sum is first asked for: one addition for each leaf. The sum of a run is
then the difference of two such sums, and of parts of the two leaves at its ends. A rank says in which order the
messages arrived; it is no part of the key.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import accumulate, count

from services.pubsub.core.comparison.leaves import LeafRoom, Place, size_of

ID_BYTES = 32
MINUTE_BYTES = 4
KEY_BYTES = MINUTE_BYTES + ID_BYTES
RANK_BYTES = 4
RANK_MAX = (1 << 8 * RANK_BYTES) - 1
ROW_BYTES = KEY_BYTES + RANK_BYTES
LEAF_MAX = 102
LEAF_BYTES_MAX = LEAF_MAX * ROW_BYTES
SUM_MASK = (1 << 8 * ID_BYTES) - 1
FINGERPRINT_BYTES = 16
END = b"\xff" * (KEY_BYTES + 1)
"""A bound after every key."""


def key_of(minute: int, identity: bytes) -> bytes:
    """Return the key of an id that expires in that minute; keys sort by minute, then by id."""
    return minute.to_bytes(MINUTE_BYTES, "big") + identity


def minute_of(key: bytes) -> int:
    """Return the minute of a key, or of a bound other than `END`."""
    return int.from_bytes(key[:MINUTE_BYTES], "big")


class IdSet:
    """A set of keys (expiry minute, id) in ascending order; positions count from 0. `room`: where its leaves are; by
    default in memory, without a bound."""

    def __init__(self, keys: Iterable[bytes] = (), room: LeafRoom | None = None) -> None:
        self._room = room or LeafRoom()
        self._leaves: list[Place] = []
        self._firsts: list[bytes] = []  # the first key of each leaf
        self._sums: list[int] = []  # of the ids of each leaf
        self._starts = array("Q")  # the position at which each leaf begins
        self._before: list[int] = []  # the sum of all ids before each leaf
        self._count = 0
        self._is_added_up = False
        self.add(keys)

    def __repr__(self) -> str:
        return f"<{self._count} ids in {len(self._leaves)} leaves>"

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: bytes) -> bool:
        at = bisect_right(self._firsts, key) - 1
        if at < 0:
            return False
        leaf = self._leaf(at)
        return _is_at(leaf, _position(leaf, key), key)

    def _leaf(self, at: int) -> bytes:
        return self._room.get(self._leaves[at])

    # -- changes ---------------------------------------------------------------------------------------------

    def add(self, keys: Iterable[bytes], rank: int = 0) -> int:
        """Add keys, the first of which has that rank, the next one more, and so on; return how many of them were new.

        An existing key keeps its rank."""
        before = self._count
        for key, place in sorted(zip(keys, count(rank))):  # those of one leaf together
            self._add(key, min(place, RANK_MAX))
        return self._count - before

    def _add(self, key: bytes, rank: int) -> None:
        leaves, at = self._leaves, max(0, bisect_right(self._firsts, key) - 1)
        if not leaves:
            leaves.append(self._room.put(b""))
            self._firsts.append(key)
            self._sums.append(0)
        leaf = self._leaf(at)
        place = _position(leaf, key)
        if _is_at(leaf, place, key):
            return
        cut = place * ROW_BYTES
        leaf = leaf[:cut] + key + rank.to_bytes(RANK_BYTES, "big") + leaf[cut:]
        self._firsts[at] = leaf[:KEY_BYTES]
        self._count += 1
        self._is_added_up = False
        if len(leaf) > LEAF_BYTES_MAX:
            self._split(at, leaf)
        else:
            leaves[at] = self._room.put(leaf, leaves[at])
            self._sums[at] += _number(key)

    def _split(self, at: int, leaf: bytes) -> None:
        """Split a leaf: in the middle, or before its last key if ids come in ascending order."""
        cut = LEAF_BYTES_MAX if at + 1 == len(self._leaves) else LEAF_BYTES_MAX // 2
        self._leaves[at : at + 1] = self._room.put(leaf[:cut], self._leaves[at]), self._room.put(leaf[cut:])
        self._firsts.insert(at + 1, leaf[cut : cut + KEY_BYTES])
        self._sums[at : at + 1] = _sum(leaf[:cut]), _sum(leaf[cut:])

    def remove(self, keys: Iterable[bytes]) -> None:
        """Remove the keys that are present."""
        for key in keys:
            at = bisect_right(self._firsts, key) - 1
            leaf = self._leaf(at) if at >= 0 else b""
            place = _position(leaf, key)
            if _is_at(leaf, place, key):
                self._put_leaf(at, leaf[: place * ROW_BYTES] + leaf[(place + 1) * ROW_BYTES :])
                self._count -= 1

    def drop_before(self, bound: bytes) -> int:
        """Remove all keys before a bound, such as expired ones; return how many."""
        whole = max(0, bisect_left(self._firsts, bound) - 1)
        leaf = self._leaf(whole) if self._leaves and self._firsts[whole] < bound else b""  # first: it may fail
        gone = sum(map(size_of, self._leaves[:whole])) // ROW_BYTES
        self._room.drop(self._leaves[:whole])
        del self._leaves[:whole], self._firsts[:whole], self._sums[:whole]
        self._is_added_up &= not whole
        if place := _position(leaf, bound):
            self._put_leaf(0, leaf[place * ROW_BYTES :])
            gone += place
        self._count -= gone
        return gone

    def clear(self) -> int:
        """Remove all keys; return how many."""
        return self.drop_before(END)

    def _put_leaf(self, at: int, leaf: bytes) -> None:
        self._is_added_up = False
        if leaf:
            self._leaves[at] = self._room.put(leaf, self._leaves[at])
            self._firsts[at], self._sums[at] = leaf[:KEY_BYTES], _sum(leaf)
        else:
            self._room.drop(self._leaves[at : at + 1])
            del self._leaves[at], self._firsts[at], self._sums[at]

    # -- runs ------------------------------------------------------------------------------------------------

    def position(self, bound: bytes) -> int:
        """Return how many keys are before the bound: a key, the beginning of one, or `END`."""
        self._add_up()
        at = bisect_left(self._firsts, bound) - 1
        return 0 if at < 0 else self._starts[at] + _position(self._leaf(at), bound)

    def key_at(self, position: int) -> bytes:
        """Return the key at a position."""
        self._add_up()
        at = bisect_right(self._starts, position) - 1
        place = position - self._starts[at]
        return _key_at(self._leaf(at), place)

    def keys(self, start: int, stop: int) -> Iterator[bytes]:
        """Yield the keys at positions start..stop-1; the set must not change meanwhile."""
        return (row[:KEY_BYTES] for row in self._rows(start, stop))

    def ranks(self, start: int, stop: int) -> list[int]:
        """Return the ranks of the keys at positions start..stop-1."""
        return [int.from_bytes(row[KEY_BYTES:], "big") for row in self._rows(start, stop)]

    def rank(self, key: bytes) -> int:
        """Return the rank of a key; for an absent one the highest possible rank."""
        at = self.position(key)
        return self.ranks(at, at + 1)[0] if key in self else RANK_MAX

    def _rows(self, start: int, stop: int) -> Iterator[bytes]:
        self._add_up()
        at = bisect_right(self._starts, start) - 1
        while start < stop:
            leaf, first = self._leaf(at), self._starts[at]
            for place in range(start - first, min(stop - first, len(leaf) // ROW_BYTES)):
                yield leaf[place * ROW_BYTES : (place + 1) * ROW_BYTES]
            at, start = at + 1, first + len(leaf) // ROW_BYTES

    def sum_before(self, position: int) -> int:
        """Return the sum of the ids at all lower positions, each read as a little-endian number."""
        self._add_up()
        at = bisect_right(self._starts, position) - 1
        if at < 0:
            return 0
        place = position - self._starts[at]
        return self._before[at] + (_sum(self._leaf(at)[: place * ROW_BYTES]) if place else 0)

    def _add_up(self) -> None:
        if not self._is_added_up:
            counts = (size_of(leaf) // ROW_BYTES for leaf in self._leaves)
            self._starts = array("Q", accumulate(counts, initial=0))[:-1]
            self._before = list(accumulate(self._sums, initial=0))[:-1]
            self._is_added_up = True


def fingerprint(sum_: int, count: bytes) -> bytes:
    """Return the fingerprint of ids with that sum; `count`: their number, encoded as in the protocol."""
    return sha256((sum_ & SUM_MASK).to_bytes(ID_BYTES, "little") + count).digest()[:FINGERPRINT_BYTES]


def _number(key: bytes) -> int:
    return int.from_bytes(key[MINUTE_BYTES:], "little")


def _sum(leaf: bytes) -> int:
    return sum(int.from_bytes(leaf[at : at + ID_BYTES], "little") for at in range(MINUTE_BYTES, len(leaf), ROW_BYTES))


def _position(leaf: bytes, bound: bytes) -> int:
    """Return how many keys of a leaf are before the bound."""
    low, high = 0, len(leaf) // ROW_BYTES
    while low < high:
        middle = (low + high) // 2
        if _key_at(leaf, middle) < bound:
            low = middle + 1
        else:
            high = middle
    return low


def _is_at(leaf: bytes, place: int, key: bytes) -> bool:
    return _key_at(leaf, place) == key


def _key_at(leaf: bytes, place: int) -> bytes:
    return leaf[place * ROW_BYTES : place * ROW_BYTES + KEY_BYTES]
