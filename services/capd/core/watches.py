"""Standing queries: the askers to which a new message is sent, and until when. All are compared with it at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from router.core.wire.crypto import PublicKey

from .lives import Asking, Expire, Take, Withdraw, after
from .pattern import KEY_BYTES, Pattern

WATCHES_MAX = 10_000
WATCHES_OF_ONE_MAX = 256
FEW = 4
"""Most queries that are compared with a message one by one."""
MASKS_MAX = 32
"""If the first words of all queries have no more masks than this, a message's first word is looked up under each."""
_KEY = Struct(">4I")
_WORDS = 4
_PLACES_MIN = 64


class StandingQuery(NamedTuple):
    """A standing query of one asker."""

    asker: PublicKey
    pattern: Pattern


class Watches:
    """The standing queries of a pool; those that are over are removed by `expire`."""

    def __init__(self) -> None:
        self._places: dict[StandingQuery, int] = {}
        self._at: list[StandingQuery | None] = []
        self._until: dict[StandingQuery, int] = {}
        self._free: list[int] = []
        self.changes = 0
        """The number of queries that were added or removed so far."""
        self._of_one: Counter[PublicKey] = Counter()
        self._by_first: dict[int, dict[int, set[int]]] = {}  # places, by the mask and the value of the first word
        self._columns: NDArray[np.uint32] = np.zeros((2 * _WORDS, _PLACES_MIN), np.uint32)
        self._make_buffers(_PLACES_MIN)

    def __len__(self) -> int:
        return len(self._places)

    def __repr__(self) -> str:
        return f"<Watches: {len(self)} of {len(self._of_one)} askers>"

    def has_room(self, watch: StandingQuery) -> bool:
        """Whether a standing query may be added: it is there already, or there are neither too many of its asker nor in
        all."""
        return watch in self._places or (len(self) < WATCHES_MAX and self._of_one[watch.asker] < WATCHES_OF_ONE_MAX)

    def put(self, watch: StandingQuery, until_s: int) -> None:
        """Add a standing query that ends at a Unix second, or move the end of one that is there."""
        after(Asking.STANDS if watch in self._places else Asking.ASKED, Take)
        self._until[watch] = until_s
        if watch in self._places:
            return
        self.changes += 1
        place = self._free.pop() if self._free else self._new_place()
        self._places[watch], self._at[place] = place, watch
        self._of_one[watch.asker] += 1
        pattern = watch.pattern
        value, mask = _words(pattern.value), _words(pattern.mask)
        self._columns[:, place] = value + mask
        self._by_first.setdefault(mask[0], {}).setdefault(value[0], set()).add(place)

    def remove(self, watch: StandingQuery, event: type = Withdraw) -> bool:
        """Remove a standing query; return whether it was there."""
        place = self._places.pop(watch, None)
        if place is None:
            return False
        after(Asking.STANDS, event)
        self.changes += 1
        del self._until[watch]
        self._at[place] = None
        self._columns[:_WORDS, place], self._columns[_WORDS:, place] = 1, 0  # no key matches this
        self._free.append(place)
        self._forget_first(watch.pattern, place)
        self._of_one[watch.asker] -= 1
        if not self._of_one[watch.asker]:
            del self._of_one[watch.asker]
        return True

    def expire(self, now_s: int) -> list[StandingQuery]:
        """Remove the standing queries that are over, and return them."""
        over = [watch for watch, until_s in self._until.items() if until_s <= now_s]
        for watch in over:
            self.remove(watch, Expire)
        return over

    def patterns(self) -> Iterator[Pattern]:
        """Yield the pattern of each standing query, in the order in which they came."""
        return (watch.pattern for watch in self._places)

    def askers(self, data: bytes) -> Iterator[PublicKey]:
        """Yield each asker with a standing query that matches the data of a message, once."""
        found = (self._at[place] for place in self._places_of(data))
        yield from dict.fromkeys(one.asker for one in found if one is not None and one.pattern.matches(data))

    def _forget_first(self, pattern: Pattern, place: int) -> None:
        value, mask = _words(pattern.value)[0], _words(pattern.mask)[0]
        values = self._by_first[mask]
        values[value].remove(place)
        if not values[value]:
            del values[value]
        if not values:
            del self._by_first[mask]

    def _places_of(self, data: bytes) -> list[int]:
        """Return the places of all queries that match, and of few others. The first word is looked up if that leaves
        few; else all queries are compared word by word until few are left."""
        used = len(self._at)
        key = _words(data[:KEY_BYTES].ljust(KEY_BYTES, b"\0"))
        if len(self._by_first) <= MASKS_MAX:
            found = [values[key[0] & mask] for mask, values in self._by_first.items() if key[0] & mask in values]
            if sum(map(len, found)) <= FEW:
                return sorted(place for places in found for place in places)
        words, flags, others = self._words[:used], self._flags[0][:used], self._flags[1][:used]
        for number, word in enumerate(key):
            value, mask = self._columns[number, :used], self._columns[_WORDS + number, :used]
            np.equal(np.bitwise_and(mask, word, out=words), value, out=others if number else flags)
            if number:
                np.logical_and(flags, others, out=flags)
            if np.count_nonzero(flags) <= FEW:
                break
        return np.flatnonzero(flags).tolist()

    def _new_place(self) -> int:
        place = len(self._at)
        self._at.append(None)
        if place == len(self._words):
            self._columns = np.concatenate((self._columns, np.zeros_like(self._columns)), axis=1)
            self._make_buffers(2 * place)
        return place

    def _make_buffers(self, places: int) -> None:
        self._words = np.empty(places, np.uint32)
        self._flags = np.empty(places, np.bool_), np.empty(places, np.bool_)


def _words(key: bytes) -> list[int]:
    return list(_KEY.unpack(key))
