"""The records that others leave here: for points that are near, each for some time, within shares of who left them.

A storer cannot read a record. It keeps one of each router at a point, few of one public network, and, of more than a
point has room for, those of the lowest ranks under a secret: whoever leaves records without end gains no more than the
share of his keys, and displaces nothing at other points.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum
from hashlib import blake2b

from msgspec import Struct

from router.core.wire.crypto import PublicKey
from router.service.contract import Chance
from services.pubsub.core.rendezvous.points import Contact
from services.pubsub.core.rendezvous.records import AGE_MAX_S, RECORD_BYTES
from services.pubsub.core.rendezvous.words import TOLD_MAX

RANK_BYTES = 16


class StoreLimits(Struct, frozen=True):
    """The limits of a storer, in records: in all, of a point, of a router, of a public network, and of one at a point.

    `keep_s`: seconds for which a record is kept. `nearer_max`: of so many routers that are nearer to a point, they keep
    its records, and this one does not. A record takes some 400 bytes of memory."""

    records_max: int = 32_768
    of_point_max: int = 16
    of_router_max: int = 2_048
    of_prefix_max: int = 4_096
    of_prefix_at_point_max: int = 2
    keep_s: float = AGE_MAX_S
    nearer_max: int = 24


class NotKept(Enum):
    """Why a record is not kept."""

    FAR = "enough routers are nearer to the point"
    FORM = "no record has that length"
    ROUTER = "its router has as many records here as one may have"
    PREFIX = "its public network has as many records here as one may have"
    POINT = "the point has as many records as one may have, and this one's rank is not among them"
    FULL = "there are as many records here as fit"


class Kept(Struct):
    """A record, who left it, its rank, and the monotonic second at which it ends."""

    record: bytes
    by: Contact
    rank: bytes
    until_s: float


class RecordStore:
    """Records by point and by the router that left them. `secret` keys the ranks."""

    __slots__ = ("_chance", "_limits", "_of_prefix", "_of_router", "_order", "_points", "_secret")

    def __init__(self, secret: bytes, chance: Chance, limits: StoreLimits | None = None) -> None:
        self._secret = secret
        self._chance = chance
        self._limits = limits or StoreLimits()
        self._points: dict[bytes, dict[PublicKey, Kept]] = {}
        self._order: dict[tuple[bytes, PublicKey], None] = {}  # oldest first
        self._of_router = Counter[bytes]()
        self._of_prefix = Counter[bytes]()

    def __repr__(self) -> str:
        return f"<{len(self)} records of {len(self._points)} points>"

    def __len__(self) -> int:
        return len(self._order)

    def put(self, point: bytes, record: bytes, by: Contact, nearer: int, now_s: float) -> NotKept | None:
        """Keep a record of a router, in place of the one that it left there before; or return why not, and keep that
        one. `nearer`: the number of known routers that are nearer to the point than this one."""
        self._age(now_s)
        kept = Kept(record, by, self._rank(point, by.router), now_s + self._limits.keep_s)
        is_here = by.router in self._points.get(point, ())
        cause = self._why_unfit(record, nearer) or (None if is_here else self._why_no_room(point, kept))
        if cause is not None:
            return cause
        if is_here:
            self._remove(point, by.router)
        self._points.setdefault(point, {})[by.router] = kept
        self._order[point, by.router] = None
        self._of_router[by.router] += 1
        if by.prefix is not None:
            self._of_prefix[by.prefix] += 1
        return None

    def told(self, point: bytes, now_s: float, but: PublicKey | None = None) -> tuple[bytes, ...]:
        """Return some of a point's records at random, not the one of router `but`."""
        self._age(now_s)
        records = [one.record for router, one in self._points.get(point, {}).items() if router != but]
        return tuple(self._chance.sample(records, min(TOLD_MAX, len(records))))

    def _why_unfit(self, record: bytes, nearer: int) -> NotKept | None:
        if len(record) != RECORD_BYTES:
            return NotKept.FORM
        return NotKept.FAR if nearer >= self._limits.nearer_max else None

    def _why_no_room(self, point: bytes, new: Kept) -> NotKept | None:
        """Return why there is no room for a record of a router that has none at the point; make room by rank."""
        limits, by = self._limits, new.by
        here = self._points.get(point, {})
        if self._of_router[by.router] >= limits.of_router_max:
            return NotKept.ROUTER
        if by.prefix is not None and (
            self._of_prefix[by.prefix] >= limits.of_prefix_max
            or sum(one.by.prefix == by.prefix for one in here.values()) >= limits.of_prefix_at_point_max
        ):
            return NotKept.PREFIX
        if len(here) >= limits.of_point_max:
            last = max(here, key=lambda router: here[router].rank)
            if new.rank >= here[last].rank:
                return NotKept.POINT
            self._remove(point, last)
        return NotKept.FULL if len(self) >= limits.records_max else None

    def _age(self, now_s: float) -> None:
        """Remove what has ended. Every record is kept for as long, so the oldest ends first."""
        while self._order:
            point, router = next(iter(self._order))
            if self._points[point][router].until_s > now_s:
                return
            self._remove(point, router)

    def _remove(self, point: bytes, router: PublicKey) -> None:
        here = self._points[point]
        gone = here.pop(router)
        if not here:
            del self._points[point]
        del self._order[point, router]
        _uncount(self._of_router, router)
        if gone.by.prefix is not None:
            _uncount(self._of_prefix, gone.by.prefix)

    def _rank(self, point: bytes, router: PublicKey) -> bytes:
        return blake2b(point + router, digest_size=RANK_BYTES, key=self._secret).digest()


def _uncount(counts: Counter[bytes], key: bytes) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
