"""The messages of each topic that this node holds, in the order in which they are compared (R-C35).

The router is asked for them in pages, and later only for those that have arrived since: it alone knows which bytes are
still there, and a topic that is never compared costs nothing. If it has deleted messages before their time, all are
asked for again.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from itertools import islice
from math import inf

from msgspec import Struct, field

from router.core.wire.crypto import PublicKey
from router.core.wire.lifetime import EPOCH_S
from router.service import contract as c
from router.service.roles import overlay as o
from services.pubsub.core.id_set import KEY_BYTES, RANK_MAX, IdSet, key_of, minute_of
from services.pubsub.core.negentropy import IdRange

MINUTES_MAX = 1 << 32


def minute_at(wall_s: float) -> int:
    """Return the present expiry minute at a Unix second."""
    return max(0, int(wall_s - EPOCH_S) // 60)


class _Index(Struct):
    """The held messages of one topic. `upto`: the arrival number up to which the router was asked; `floor`: ids that
    expire before this minute are left out; `is_whole`: all pages are there, as of `at_s`; `is_anew`: all are asked for
    again; `again_s`: when the router is asked again that did not answer. `count`: how many have been listed, each with
    the next rank; `came_s` and `came_rank`: messages from this rank on came at that Unix second or later."""

    ids: IdSet = field(default_factory=IdSet)
    count: int = 0
    came_s: array[int] = field(default_factory=lambda: array("Q"))
    came_rank: array[int] = field(default_factory=lambda: array("Q"))
    upto: int = 0
    gone: int = 0
    floor: int = 0
    at_s: float = -inf
    again_s: float = inf
    is_asked: bool = False
    is_anew: bool = True

    def take(self, page: o.HeldPage) -> None:
        """Add the messages of a page, in the order in which they arrived."""
        rank = self.count
        for at_s, count in page.times:
            if not self.came_s or at_s > self.came_s[-1]:
                self.came_s.append(at_s)
                self.came_rank.append(rank)
            rank += count
        self.ids.add((page.keys[at : at + KEY_BYTES] for at in range(0, len(page.keys), KEY_BYTES)), self.count)
        self.count += len(page.keys) // KEY_BYTES
        self.upto = page.upto


class Held:
    """The ids that this node holds, at most `ids_max` of all topics, those that expire last. Seconds are monotonic.

    `retry_s`: until the router is asked again when it did not answer. `open_max`: topics that are looked up at a time
    before they are compared."""

    def __init__(self, ids_max: int = 1_000_000, fresh_s: float = 2.0, retry_s: float = 1.0, open_max: int = 8) -> None:
        self._ids_max = ids_max
        self._fresh_s = fresh_s
        self._retry_s = retry_s
        self._open_max = open_max
        self._indexes: dict[PublicKey, _Index] = {}

    def __repr__(self) -> str:
        return f"<{self.count} ids held of {len(self._indexes)} topics>"

    @property
    def count(self) -> int:
        return sum(len(one.ids) for one in self._indexes.values())

    def is_fresh(self, group: PublicKey, now: c.Now) -> bool:
        """Whether everything that the router held a moment ago is known."""
        index = self._indexes.get(group)
        return index is not None and not index.is_asked and now.mono_s - index.at_s <= self._fresh_s

    def view(self, group: PublicKey, lo: int, hi: int) -> IdRange:
        """Return the held ids that expire in minute `lo` or later, before minute `hi`."""
        index = self._indexes[group]
        return IdRange(index.ids, max(lo, index.floor), hi)

    def came_before(self, group: PublicKey, wall_s: float) -> int:
        """Return the rank below which messages came before that Unix second, and the rank from which on they came
        later."""
        index = self._indexes[group]
        at = bisect_left(index.came_s, int(wall_s))
        if not index.came_s:
            return 0
        return min(RANK_MAX, index.came_rank[at] if at < len(index.came_s) else index.count)

    def begin(self, groups: Iterable[PublicKey]) -> list[c.Deed]:
        """Ask the router for messages of topics that were never looked up, before they are needed."""
        room = self._open_max - sum(one.is_asked for one in self._indexes.values())
        new = (one for one in groups if one not in self._indexes)
        return [deed for group in islice(new, max(0, room)) for deed in self.refresh(group)]

    def refresh(self, group: PublicKey) -> list[c.Deed]:
        """Ask the router for the messages that have arrived since, unless a question is open."""
        index = self._indexes.setdefault(group, _Index())
        if index.is_asked:
            return []
        index.is_asked, index.again_s = True, inf
        return [o.ListHeld(group, index.upto)]

    @property
    def due_s(self) -> float:
        """Return the second at which `tick` has something to do; infinity: never."""
        return min((one.again_s for one in self._indexes.values()), default=inf)

    def tick(self, now: c.Now) -> list[c.Deed]:
        """Ask the router again where it did not answer."""
        due = [group for group, index in self._indexes.items() if index.again_s <= now.mono_s]
        return [deed for group in due for deed in self.refresh(group)]

    def heard(self, page: o.HeldPage, now: c.Now) -> list[c.Deed]:
        """Handle a page; ask for the next one, or for all again."""
        index = self._indexes.get(page.group)
        if index is None or not index.is_asked or page.after != index.upto:
            return []  # the last: an answer to a question before the topic was left
        if page.error:
            index.is_asked, index.again_s = False, now.mono_s + self._retry_s
            return []
        if index.gone != page.gone and not index.is_anew:
            self._indexes[page.group] = _Index(gone=page.gone, is_asked=True)
            return [o.ListHeld(page.group, 0)]
        if not index.upto:
            index.gone = page.gone
        index.take(page)
        index.ids.drop_before(key_of(minute_at(now.wall_s), b""))
        self._trim(index)
        if page.more:
            return [o.ListHeld(page.group, page.upto)]
        index.is_asked = index.is_anew = False
        index.at_s = now.mono_s
        return []

    def _trim(self, index: _Index) -> None:
        """Leave out the ids that expire first, if there are too many."""
        over = self.count - self._ids_max
        if over > 0 and len(index.ids):
            last = minute_of(index.ids.key_at(min(over, len(index.ids)) - 1))
            index.floor = max(index.floor, last + 1)
            index.ids.drop_before(key_of(index.floor, b""))

    def left(self, group: PublicKey) -> None:
        """Forget a topic."""
        self._indexes.pop(group, None)
