"""The store as dictionaries in memory: slow, simple, and the oracle for the one on disk.

Its contents are copied whole for every batch, changed, and put in place by `commit`, so nothing of an uncommitted batch
remains. The messages owed to a recipient are a set of indexes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from router.core.log.account import QueuedRow
from router.core.log.events import Logged, encode_events, span
from router.core.log.life import Life, Restored, begun
from router.core.routing.disorder import DISORDERED
from router.core.routing.effects import Changes
from router.core.routing.groups import Subscription
from router.core.routing.owed import Damaged, Due, Owed
from router.core.routing.parcel import Parcel
from router.core.routing.purges import Purge
from router.core.routing.recovered import Backlog, Belief, Holding, Recovered
from router.core.routing.routes import Route
from router.core.routing.seen import KEEP_AFTER_EXPIRY_S
from router.core.why.id_prefix import IdPrefix
from router.core.wire.lifetime import EPOCH_S, expiry_s
from router.core.wire.link_items import Missed
from router.core.wire.message import MULTICAST
from router.disk.limits import StoreLimits
from router.disk.store.history import Page
from router.disk.store.records import Record
from router.disk.store.terms import Applied, Beginning, StoreSpace


@dataclass
class Disk:
    """The data that survives a crash: every field is a dictionary or a number, every value in them immutable."""

    parcels: dict[int, Parcel] = field(default_factory=dict)
    owed: dict[tuple[bytes, int], frozenset[int]] = field(default_factory=dict)
    kept: dict[int, int] = field(default_factory=dict)  # first -> kept since
    carried: dict[int, int] = field(default_factory=dict)  # first of a parcel that is history -> its end
    ids: dict[tuple[int, bytes], int] = field(default_factory=dict)  # (expiry, id) -> arrival
    holders: dict[tuple[int, bytes], bytes] = field(default_factory=dict)  # (expiry, id) -> whose share it counts in
    due: dict[int, int] = field(default_factory=dict)  # first -> time of the next look
    groups: dict[tuple[bytes, bytes], Subscription] = field(default_factory=dict)
    routes: dict[bytes, Route] = field(default_factory=dict)
    locals: dict[bytes, None] = field(default_factory=dict)
    away: dict[bytes, int] = field(default_factory=dict)
    purges: dict[tuple[bytes, bytes | None], int] = field(default_factory=dict)
    missed: dict[tuple[bytes, bytes | None, int], Missed] = field(default_factory=dict)
    book: dict[bytes, bytes] = field(default_factory=dict)
    log: dict[int, bytes] = field(default_factory=dict)
    next_arrival: int = 1
    next_seq: int = 1
    epoch: bytes | None = None
    clock: Belief | None = None
    life: Life = field(default_factory=Life)

    def copied(self) -> Disk:
        made = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, dict):
                setattr(made, name, value.copy())
        return made

    def is_owed(self, first: int) -> bool:
        return any(parcel == first for _, parcel in self.owed)

    def gone_before(self, wall_s: int, bytes_max: int) -> list[int]:
        """Return the parcels that leave the history: those that have ended, and the oldest ones beyond the limit."""
        ended = [first for first, end_s in self.carried.items() if end_s <= wall_s]
        rest = sorted(self.carried.keys() - set(ended))
        while sum(len(self.parcels[one].blob) for one in rest) > bytes_max:
            ended.append(rest.pop(0))
        return ended

    def kept_too_long(self, wall_s: int, limits: StoreLimits) -> int | None:
        """Return the parcel that was kept the longest if its time is over or all that are kept are too large."""
        if not self.kept:
            return None
        first = min(self.kept, key=lambda one: (self.kept[one], one))
        size = sum(len(self.parcels[one].blob) for one in self.kept)
        return None if size <= limits.keep_bytes_max and self.kept[first] + limits.keep_s > wall_s else first

    def dead_ids(self, wall_s: int) -> list[tuple[int, bytes]]:
        """Return the ids of messages that have expired for so long that they cannot be accepted again."""
        dead_before = (wall_s - KEEP_AFTER_EXPIRY_S - EPOCH_S) // 60
        return [one for one in self.ids if one[0] < dead_before]


class NoRecords:
    """Records of this store, which keeps ids but no data that the log lost."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def held(self, group: bytes, after: int, most: int, since_s: int = 0) -> Page:
        disk, keys, times, count = self._disk, list[bytes](), list[tuple[int, int]](), 0
        for first in sorted(disk.carried):
            parcel = disk.parcels[first]
            if first <= after or parcel.signer != group:
                continue
            if count >= most:
                return Page(b"".join(keys), after, True, 0, tuple(times))
            after = first
            if parcel.at_s >= since_s:
                keys += [minute.to_bytes(4, "big") + parcel.id(at) for at, minute in enumerate(parcel.expiries)]
                times.append((parcel.at_s, parcel.count))
                count += parcel.count
        return Page(b"".join(keys), after, False, 0, tuple(times))

    def knows(self, identity: bytes) -> bool:
        return any(known == identity for _, known in self._disk.ids)

    def known(self, asked: Sequence[tuple[int, bytes]]) -> set[bytes]:
        return {one for minute, one in asked if ((minute, one) in self._disk.ids if minute else self.knows(one))}

    def accepted(self, prefix: IdPrefix, router: bytes, most: int) -> list[Record]:
        return []


class PlainStore:
    """The interface of `router.disk.store.store.Store` over a `Disk`, which outlives it."""

    def __init__(self, disk: Disk, limits: StoreLimits, boot: bytes) -> None:
        self.disk = disk
        self._limits = limits
        self._boot = boot
        self._next: Disk | None = None
        self._sealed_seq = 0
        self._swept_at_s = 0
        self._service: bytes | None = None
        self.clock: Belief | None = None
        self.records = NoRecords(disk)
        self.path = Path("in memory")

    def __repr__(self) -> str:
        disk = self.disk
        return f"<plain store: {len(disk.parcels)} parcels, {len(disk.owed)} queue rows, {len(disk.ids)} ids>"

    def close(self) -> None:
        self._next = None

    def keep_history_for(self, service: bytes | None) -> None:
        self._service = service

    @property
    def life(self) -> Life:
        return self.disk.life

    def begin_life(self, restored: Restored) -> None:
        disk = self.disk
        disk.life, disk.next_arrival = begun(restored, disk.life, disk.next_arrival, disk.next_seq)
        disk.next_seq = disk.life.first_seq
        disk.book |= {DISORDERED + recipient: b"" for recipient, _ in disk.owed}

    # -- one transaction -------------------------------------------------------------------------------------

    def apply(self, changes: Changes, wall_s: int) -> Applied:
        disk = self._next = self.disk.copied()
        for parcel in changes.parcels:
            self._put(disk, parcel)
        for recipient, to in changes.moved:
            moved = {first: left for (whom, first), left in disk.owed.items() if whom == recipient}
            disk.owed = {one: left for one, left in disk.owed.items() if one[0] != recipient}
            disk.owed |= {(to, first): left for first, left in moved.items()}
        gone = self._finish(disk, changes, wall_s)
        self._put_small(disk, changes)
        disk.clock = self.clock or disk.clock
        forgotten = self._sweep(disk, wall_s)
        value = self._put_log(disk, changes)
        released = [Holding(parcel.neighbour[:8], parcel.count, len(parcel.blob)) for parcel in gone]
        return Applied(released, forgotten, value)

    def commit(self) -> None:
        assert self._next is not None
        self.disk.__dict__.update(self._next.__dict__)
        self._next = None

    def _put(self, disk: Disk, parcel: Parcel) -> None:
        disk.next_arrival = parcel.first + parcel.count
        for at in range(parcel.count) if parcel.indexed else ():
            disk.ids[parcel.expiries[at], parcel.id(at)] = parcel.first + at
            disk.holders[parcel.expiries[at], parcel.id(at)] = parcel.holder
        if parcel.stored:
            disk.parcels[parcel.first] = parcel
            disk.due[parcel.first] = min(parcel.deadlines)
            is_carried = parcel.recorded or self._service in parcel.recipients
            if parcel.kind == MULTICAST and is_carried and self._limits.history_s:
                end_s = min(expiry_s(max(parcel.expiries)), parcel.at_s + self._limits.history_s)
                disk.carried[parcel.first] = end_s
            for recipient in parcel.recipients:
                disk.owed[recipient, parcel.first] = frozenset(range(parcel.count))

    def _finish(self, disk: Disk, changes: Changes, wall_s: int) -> list[Parcel]:
        touched: dict[int, None] = {}
        for recipient, first, start, stop, _ in changes.finished:
            left = disk.owed.get((recipient, first))
            if left is None:
                continue
            left -= frozenset(range(start, stop))
            if left:
                disk.owed[recipient, first] = left
            else:
                del disk.owed[recipient, first]
                touched[first] = None
        gone = [first for first in touched if not disk.is_owed(first)]
        released = [disk.parcels[first] for first in gone]
        for first in gone:
            if first in disk.carried:
                continue
            if self._limits.keep_s and self._limits.keep_bytes_max:
                disk.kept[first] = wall_s
            else:
                del disk.parcels[first]
        return released

    def _put_small(self, disk: Disk, changes: Changes) -> None:
        for member, subscription in changes.members.items():
            if subscription is None:
                disk.groups.pop(member, None)
            else:
                disk.groups[member] = subscription
        for destination, route in changes.routes.items():
            disk.routes.pop(destination, None)
            if route is not None:
                disk.routes[destination] = route
        for key in changes.locals:
            disk.locals[key] = None
        for key in changes.locals_gone:
            disk.locals.pop(key, None)
        for key, since_s in changes.away:
            disk.away.pop(key, None)
            if since_s:
                disk.away[key] = since_s
        for ended, before in changes.purges.items():
            disk.purges.pop(ended, None)
            if before is not None:
                disk.purges[ended] = before
        for missed, item in changes.missed.items():
            disk.missed.pop(missed, None)
            if item is not None:
                disk.missed[missed] = item
        for row, value in changes.book.items():
            disk.book.pop(row, None)
            disk.book |= {row: value} if value is not None else {}
        for first, again_s in changes.defer:
            del disk.due[first]
            if again_s:
                disk.due[first] = again_s

    def has_dead_rows(self, wall_s: int) -> bool:
        disk, limits = self.disk, self._limits
        return bool(
            any(seq <= self._sealed_seq for seq in disk.log)
            or disk.gone_before(wall_s, limits.history_bytes_max)
            or disk.kept_too_long(wall_s, limits) is not None
            or disk.dead_ids(wall_s)
        )

    def _sweep(self, disk: Disk, wall_s: int) -> dict[bytes, int]:
        limits = self._limits
        for first in disk.gone_before(wall_s, limits.history_bytes_max):
            del disk.carried[first]
            if not disk.is_owed(first):
                del disk.parcels[first]
        while (oldest := disk.kept_too_long(wall_s, limits)) is not None:
            del disk.kept[oldest], disk.parcels[oldest]
        if wall_s <= self._swept_at_s:
            return {}
        self._swept_at_s = wall_s
        dead = disk.dead_ids(wall_s)
        for one in dead:
            del disk.ids[one]
        return dict(Counter(disk.holders.pop(one) for one in dead))

    def _put_log(self, disk: Disk, changes: Changes) -> Logged | None:
        for seq in [one for one in disk.log if one <= self._sealed_seq]:
            del disk.log[seq]
        if not changes.events:
            return None
        logged = Logged(disk.next_seq, self._boot, changes.events)
        disk.log[disk.next_seq] = encode_events(changes.events, disk.next_seq, self._boot)
        disk.next_seq += sum(map(span, changes.events))
        return logged

    # -- reading ---------------------------------------------------------------------------------------------

    def recover(self, router_key: bytes, beginning: Beginning | None = None) -> Recovered:
        disk = self.disk
        if disk.epoch is None:
            disk.epoch, disk.next_arrival, disk.next_seq = beginning or Beginning()
        held: dict[bytes, tuple[int, int]] = {}
        for parcel in (parcel for first, parcel in disk.parcels.items() if disk.is_owed(first)):
            messages, size = held.get(parcel.neighbour[:8], (0, 0))
            held[parcel.neighbour[:8]] = messages + parcel.count, size + len(parcel.blob)
        return Recovered(
            epoch=disk.epoch, next_arrival=disk.next_arrival, index_entries=len(disk.ids),
            index_shares={holder: ids for holder, ids in Counter(disk.holders.values()).items() if holder},
            held=[Holding(tag, *sums) for tag, sums in held.items()], subscriptions=list(disk.groups.values()),
            routes=list(disk.routes.values()), locals=list(disk.locals), backlog=self._backlog(), away=dict(disk.away),
            purges=[Purge(*ended, before) for ended, before in disk.purges.items()],
            missed=[(recipient, item) for (recipient, _, _), item in disk.missed.items()], clock=disk.clock,
            book=list(disk.book.items()), life=disk.life,
        )  # fmt: skip

    def _backlog(self) -> list[Backlog]:
        totals: dict[tuple[bytes, bytes, bytes], tuple[int, int]] = {}
        for (recipient, first), left in self.disk.owed.items():
            parcel = self.disk.parcels[first]
            who = recipient, parcel.signer[:8], parcel.neighbour[:8]
            messages, size = totals.get(who, (0, 0))
            totals[who] = messages + len(left), size + sum(parcel.size(at, at + 1) for at in left)
        return [Backlog(*who, *total) for who, total in totals.items()]

    def known(self, ids: Iterable[tuple[int, bytes]]) -> set[bytes]:
        return {identity for expiry, identity in ids if (expiry, identity) in self.disk.ids}

    def fetch(
        self,
        recipient: bytes,
        position: int,
        messages: int,
        size: int,
        group: bytes | None = None,
        before: int | None = None,
    ) -> tuple[list[Owed], bool]:
        owed: list[Owed] = []
        for first in sorted(one for whom, one in self.disk.owed if whom == recipient):
            parcel = self.disk.parcels[first]
            if before is not None and first >= before:
                break
            if group is not None and (parcel.kind != MULTICAST or parcel.signer != group):
                continue
            left = [at for at in sorted(self.disk.owed[recipient, first]) if first + at >= position]
            if not left:
                continue
            if owed and (messages <= 0 or size <= 0):
                return owed, True
            for start, stop in runs(left):
                owed.append(Owed(parcel, start, stop))
                messages -= stop - start
                size -= parcel.size(start, stop)
        return owed, False

    def queued(self, after: bytes, most: int) -> list[QueuedRow]:
        rows = sorted((bytes(whom), first, left) for (whom, first), left in self.disk.owed.items())
        behind = [one for one in rows if one[0] + one[1].to_bytes(8, "big") > after]
        return [QueuedRow(whom, first, tuple(runs(sorted(left)))) for whom, first, left in behind[:most]]

    def due(self, wall_s: int) -> list[Due]:
        found = []
        for first, _ in sorted(self.disk.due.items(), key=lambda one: (one[1], one[0])):
            if self.disk.due[first] > wall_s:
                break
            parcel = self.disk.parcels.get(first)
            recipients = parcel.recipients if parcel is not None else ()
            left = {one: self.disk.owed.get((one, first)) for one in recipients}
            owed = tuple((one, tuple(runs(sorted(those)))) for one, those in left.items() if those)
            found.append(Due(parcel, first, owed))
        return found[: self._limits.sweep_rows_max]

    def message(self, prefix: bytes) -> tuple[Parcel, int] | None:
        for (_, identity), arrival in sorted(self.disk.ids.items()):
            if identity.startswith(prefix):
                for first, parcel in self.disk.parcels.items():
                    if first <= arrival < first + parcel.count:
                        return parcel, arrival - first
        return None

    def oldest_s(self, recipient: bytes, wall_s: int) -> int:
        firsts = [first for whom, first in self.disk.owed if whom == recipient]
        return max(0, wall_s - self.disk.parcels[min(firsts)].at_s) if firsts else 0

    def owes(self, recipient: bytes, first: int, index: int) -> bool:
        return index in self.disk.owed.get((recipient, first), ())

    def has_room_for(self, size: int) -> bool:
        return True

    def space(self) -> StoreSpace:
        used = sum(len(one.blob) for one in self.disk.parcels.values())
        return StoreSpace(used, used, 0)

    def take_damaged(self) -> list[Damaged]:
        return []

    def log_values(self, after_seq: int, most: int, *, within: bool = False) -> list[tuple[int, bytes]]:
        return [(seq, self.disk.log[seq]) for seq in sorted(self.disk.log) if seq > after_seq][:most]

    def log_is_sealed(self, seq: int) -> None:
        self._sealed_seq = seq

    @property
    def next_seq(self) -> int:
        return self.disk.next_seq


def runs(indexes: list[int]) -> list[tuple[int, int]]:
    """Return ascending numbers as (start, stop) of their unbroken runs."""
    breaks = [at for at, (one, other) in enumerate(pairwise(indexes), 1) if other > one + 1]
    cuts = [0, *breaks, len(indexes)]
    return [(indexes[start], indexes[stop - 1] + 1) for start, stop in pairwise(cuts) if stop > start]
