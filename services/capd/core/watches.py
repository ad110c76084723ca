"""Standing queries: who is to be told of a message that comes, and until when. All are compared with it at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from router.core.wire.crypto import PublicKey

from .lives import Asking, Expire, Take, Withdraw, after
from .pattern import KEY_BYTES, Pattern

WATCHES_MAX = 10_000
WATCHES_OF_ONE_MAX = 256
_HALF = KEY_BYTES // 2
_PLACES_MIN = 64


class Watch(NamedTuple):
    """A standing query of one asker."""

    asker: PublicKey
    pattern: Pattern


class Watches:
    """The standing queries of a pool; those that are over are removed by `expire`."""

    def __init__(self) -> None:
        self._places: dict[Watch, int] = {}
        self._at: list[Watch | None] = []
        self._until: dict[Watch, int] = {}
        self._free: list[int] = []
        self._of_one: Counter[PublicKey] = Counter()
        self._columns: NDArray[np.uint64] = np.zeros((4, _PLACES_MIN), np.uint64)
        self._needed: NDArray[np.uint8] = np.zeros(_PLACES_MIN, np.uint8)
        self._words, self._flags = np.empty(_PLACES_MIN, np.uint64), np.empty(_PLACES_MIN, np.bool_)

    def __len__(self) -> int:
        return len(self._places)

    def __repr__(self) -> str:
        return f"<Watches: {len(self)} of {len(self._of_one)} askers>"

    def has_room(self, watch: Watch) -> bool:
        """Whether it may be put: it is there already, or neither all nor its asker's are too many."""
        return watch in self._places or (len(self) < WATCHES_MAX and self._of_one[watch.asker] < WATCHES_OF_ONE_MAX)

    def put(self, watch: Watch, until_s: int) -> None:
        """Take a standing query until a Unix second, or give one that is there this end."""
        after(Asking.STANDS if watch in self._places else Asking.ASKED, Take)
        self._until[watch] = until_s
        if watch in self._places:
            return
        place = self._free.pop() if self._free else self._new_place()
        self._places[watch], self._at[place] = place, watch
        self._of_one[watch.asker] += 1
        pattern = watch.pattern
        for column, half in enumerate(_halves(pattern.value) + _halves(pattern.mask)):
            self._columns[column, place] = half
        self._needed[place] = pattern.bytes_needed

    def remove(self, watch: Watch, event: type = Withdraw) -> bool:
        """Remove a standing query; return whether it was there."""
        place = self._places.pop(watch, None)
        if place is None:
            return False
        after(Asking.STANDS, event)
        del self._until[watch]
        self._at[place] = None
        self._needed[place] = KEY_BYTES + 1  # nothing is so long
        self._free.append(place)
        self._of_one[watch.asker] -= 1
        if not self._of_one[watch.asker]:
            del self._of_one[watch.asker]
        return True

    def expire(self, now_s: int) -> list[Watch]:
        """Remove what is over, and return it."""
        over = [watch for watch, until_s in self._until.items() if until_s <= now_s]
        for watch in over:
            self.remove(watch, Expire)
        return over

    def askers(self, data: bytes) -> Iterator[PublicKey]:
        """Yield each who has a standing query that the data of a message matches, once."""
        used, columns = len(self._at), self._columns
        first, second = _halves(data[:KEY_BYTES].ljust(KEY_BYTES, b"\0"))
        words, flags = self._words[:used], self._flags[:used]
        np.equal(np.bitwise_and(columns[2, :used], first, out=words), columns[0, :used], out=flags)
        places = np.flatnonzero(flags)
        if len(places):
            places = places[columns[3, places] & second == columns[1, places]]
            places = places[self._needed[places] <= min(len(data), KEY_BYTES)]
        found = (self._at[place] for place in places)
        yield from dict.fromkeys(watch.asker for watch in found if watch is not None)

    def _new_place(self) -> int:
        place = len(self._at)
        self._at.append(None)
        if place == len(self._needed):
            self._columns = np.concatenate((self._columns, np.zeros_like(self._columns)), axis=1)
            self._needed = np.concatenate((self._needed, np.zeros_like(self._needed)))
            self._words, self._flags = np.empty(2 * place, np.uint64), np.empty(2 * place, np.bool_)
        return place


def _halves(key: bytes) -> tuple[np.uint64, np.uint64]:
    return np.uint64(int.from_bytes(key[:_HALF])), np.uint64(int.from_bytes(key[_HALF:]))
