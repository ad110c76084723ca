"""The messages of each topic that this node holds, in the order in which they are compared (R-C35).

The router is asked for them in pages, and later only for those that have arrived since: it alone knows which bytes are
still there, and a topic that is never compared costs nothing. If it has deleted messages before their time, all are
asked for again.
"""

from __future__ import annotations

from itertools import islice
from math import inf

from msgspec import Struct, field

from router.core.wire.crypto import PublicKey
from router.core.wire.lifetime import EPOCH_S
from router.service import contract as c
from router.service.roles import overlay as o
from services.pubsub.core.comparison.arrival_times import ArrivalTimes
from services.pubsub.core.comparison.id_set import KEY_BYTES, RANK_MAX, IdSet, key_of, minute_of
from services.pubsub.core.comparison.leaves import LeafRoom
from services.pubsub.core.comparison.negentropy import IdRange, fingerprint_of

MINUTES_MAX = 1 << 32
KNOWN_S = 86_400.0
"""Seconds for which an answer of the router counts for sums, if no message comes; messages let go in the meantime count
as held."""


def minute_at(wall_s: float) -> int:
    """Return the present expiry minute at a Unix second."""
    return max(0, int(wall_s - EPOCH_S) // 60)


class _Index(Struct):
    """The held messages of one topic. `upto`: the arrival number up to which the router was asked; `floor`: ids that
    expire before this minute are left out; `is_whole`: all pages are there, as of `at_s`; `is_anew`: all are asked for
    again. `count`: how many have been listed, each with
    the next rank; `came`: when they came. `is_stale`: a message has come since the router was asked."""

    ids: IdSet
    count: int = 0
    came: ArrivalTimes = field(default_factory=ArrivalTimes)
    upto: int = 0
    gone: int = 0
    floor: int = 0
    at_s: float = -inf
    is_asked: bool = False
    is_anew: bool = True
    is_stale: bool = False

    def take(self, page: o.HeldPage) -> None:
        """Add the messages of a page, in the order in which they arrived."""
        self.came.take(page.times, self.count)
        self.ids.add((page.keys[at : at + KEY_BYTES] for at in range(0, len(page.keys), KEY_BYTES)), self.count)
        self.count += len(page.keys) // KEY_BYTES
        self.upto = page.upto


class Held:
    """The ids that this node holds, at most `ids_max` of all topics, those that expire last. Seconds are monotonic.

    `retry_s`: until the router is asked again when it did not answer. `open_max`: topics that are looked up at a time
    before they are compared. `scratch`: where most of the ids are; None: in memory. An id takes some 5 bytes of memory
    besides."""

    def __init__(
        self, ids_max: int = 1_000_000, retry_s: float = 1.0, open_max: int = 8, scratch: c.Scratch | None = None
    ) -> None:
        self._room = LeafRoom(scratch)
        self._ids_max = ids_max
        self._retry_s = retry_s
        self._open_max = open_max
        self._indexes: dict[PublicKey, _Index] = {}
        self._new: dict[PublicKey, None] = {}  # topics to be looked up, in the order in which they began
        self._asked: set[PublicKey] = set()
        self._again_s: dict[PublicKey, float] = {}  # when the router is asked again that did not answer
        self.count = 0
        """The number of ids of all topics."""

    def __repr__(self) -> str:
        return f"<{self.count} ids held of {len(self._indexes)} topics>"

    def is_fresh(self, group: PublicKey, now: c.Now) -> bool:
        """Whether everything is known that the router held when it was asked last, which has answered just now.

        An older answer may lack what was published before the one who compares was in the group, but after the answer:
        nobody has sent that on there."""
        index = self._indexes.get(group)
        return index is not None and not index.is_asked and index.at_s >= now.mono_s

    def is_known(self, group: PublicKey, now: c.Now) -> bool:
        """Whether everything is known that is held, as far as this service has heard of messages that came."""
        index = self._indexes.get(group)
        if index is None or index.is_asked or index.is_anew or index.is_stale:
            return False
        return now.mono_s - index.at_s < KNOWN_S

    def arrived(self, group: PublicKey) -> None:
        """Record that a message of a topic came, or was published here."""
        if (index := self._indexes.get(group)) is not None:
            index.is_stale = True

    def sum_of(self, group: PublicKey, lo: int) -> bytes | None:
        """Return the fingerprint of the held ids that expire in minute `lo` or later; None if some are left out."""
        view = self.view(group, lo, MINUTES_MAX)
        return None if view.lo > lo else fingerprint_of(view)

    def view(self, group: PublicKey, lo: int, hi: int) -> IdRange:
        """Return the held ids that expire in minute `lo` or later, before minute `hi`."""
        index = self._indexes[group]
        return IdRange(index.ids, max(lo, index.floor), hi)

    def came_before(self, group: PublicKey, wall_s: float) -> int:
        """Return the rank below which messages came before that Unix second."""
        index = self._indexes[group]
        if not len(index.came):
            return 0
        rank = index.came.rank_before(wall_s)
        return min(RANK_MAX, index.count if rank is None else rank)

    def wanted(self, group: PublicKey) -> None:
        """Record a topic that has yet to be looked up, or again."""
        if group not in self._again_s:
            self._new[group] = None

    def begin(self) -> list[c.Deed]:
        """Ask the router for messages of topics before they are needed, a few topics at a time."""
        room = max(0, self._open_max - len(self._asked))
        return [deed for group in list(islice(self._new, room)) for deed in self.refresh(group)]

    def refresh(self, group: PublicKey) -> list[c.Deed]:
        """Ask the router for the messages that have arrived since, unless a question is open."""
        self._new.pop(group, None)
        index = self._index(group)
        if index.is_asked:
            return []
        index.is_asked, index.is_stale = True, False
        self._asked.add(group)
        self._again_s.pop(group, None)
        return [o.ListHeld(group, index.upto)]

    def _index(self, group: PublicKey) -> _Index:
        if (index := self._indexes.get(group)) is None:
            index = self._indexes[group] = _Index(IdSet(room=self._room))
        return index

    @property
    def due_s(self) -> float:
        """Return the second at which `tick` has something to do; infinity: never."""
        return min(self._again_s.values(), default=inf)

    def tick(self, now: c.Now) -> list[c.Deed]:
        """Ask the router again where it did not answer."""
        due = [group for group, at_s in self._again_s.items() if at_s <= now.mono_s]
        return [deed for group in due for deed in self.refresh(group)]

    def heard(self, page: o.HeldPage, now: c.Now) -> list[c.Deed]:
        """Handle a page; ask for the next one, or for all again."""
        index = self._indexes.get(page.group)
        if index is None or not index.is_asked or page.after != index.upto:
            return []  # the last: an answer to a question before the topic was left
        if page.error:
            index.is_asked = False
            self._asked.discard(page.group)
            self._again_s[page.group] = now.mono_s + self._retry_s
            return []
        before = len(index.ids)
        if index.gone != page.gone and not index.is_anew:
            self.count -= index.ids.clear()
            self._indexes[page.group] = _Index(IdSet(room=self._room), gone=page.gone, is_asked=True)
            return [o.ListHeld(page.group, 0)]
        if not index.upto:
            index.gone = page.gone
        index.take(page)
        index.ids.drop_before(key_of(minute_at(now.wall_s), b""))
        self.count += len(index.ids) - before
        self._trim(index)
        if page.more:
            return [o.ListHeld(page.group, page.upto)]
        index.is_asked = index.is_anew = False
        self._asked.discard(page.group)
        index.at_s = now.mono_s
        return []

    def _trim(self, index: _Index) -> None:
        """Leave out the ids that expire first, if there are too many."""
        over = self.count - self._ids_max
        if over > 0 and len(index.ids):
            last = minute_of(index.ids.key_at(min(over, len(index.ids)) - 1))
            index.floor = max(index.floor, last + 1)
            self.count -= index.ids.drop_before(key_of(index.floor, b""))

    def left(self, group: PublicKey) -> None:
        """Forget a topic."""
        index = self._indexes.pop(group, None)
        self.count -= 0 if index is None else index.ids.clear()
        self._new.pop(group, None)
        self._asked.discard(group)
        self._again_s.pop(group, None)
