"""The store: messages, queues, subscriptions, routes and the duplicate index in one LMDB environment.

One owner, one writer. Puts run where the caller runs and only the commit, one long system call, goes to a thread:
anything that takes the interpreter lock per message in a thread starves beside a busy loop. That thread begins the next
transaction as well, because LMDB's lock of writers belongs to the thread that took it (disk/store/commit_thread.py).
The home's lock keeps other writers out. A snapshot reads in a process of its own, in a transaction of LMDB: the pages
that it reads are not used again until it ends.

Layout, all integers of keys and rows big endian, first = arrival number of a parcel's first message (8 bytes):

    parcels  first                          -> CBOR of everything but the frames (cddl/store.cddl)
    frames   first                          -> the frames as received
    queues   recipient(32) first            -> QueueRow: what the recipient is still owed of that parcel
    pending  first                          -> how many recipients it is still owed to, if there was more than one
    kept     unix second(4) first           -> a parcel owed to no recipient any more, kept for a while
    history, carried, ends                  -> parcels that are kept until they expire (disk/store/history.py)
    ids      expiry minute(4) id(32)        -> arrival number(8) [holder(8)]: the duplicate index
    late     first                          -> expiry minute(4) id(32) of each message [holder(8)], until it is in `ids`
    shares   holder(8)                      -> how many ids count for it(8)
    due      unix second(4) first           -> when to check this parcel for messages past their deadline
    groups   group(32) subscriber(32)       -> flags
    routes   destination(32)                -> CBOR [neighbour, until]
    locals   key(32)                        -> empty
    away     key(32)                        -> unix second(4) since which a subscriber has been away
    clears   recipient(32) [group(32)]      -> arrival number(8) before which queued messages are to be dropped
    missed   recipient(32) reason(1) [group(32)] -> the link item that will report what it has missed
    book     kind(1) [service(32) [key(32)]] -> what a service has taught this node: see core/neighbours/book.py
    log      sequence number(8)             -> the events of one commit
    meta     name                           -> CBOR
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import cbor2
import lmdb

from router.core.log.account import QueuedRow
from router.core.log.events import span
from router.core.log.life import Life, Restored, begun
from router.core.routing.effects import Changes
from router.core.routing.owed import Damaged, Due, Owed
from router.core.routing.parcel import Parcel
from router.core.routing.recovered import Belief, Recovered
from router.core.wire.message import MULTICAST
from router.disk.limits import StoreLimits
from router.disk.room import DATA
from router.disk.store import tables
from router.disk.store.commit_thread import CallersThread, Commits, WriteTurns
from router.disk.store.damage import Damage
from router.disk.store.deadlines import Deadlines
from router.disk.store.file import (
    UNREADABLE,
    allocated_bytes,
    check_format,
    epoch_of,
    in_words,
    open_file,
    unusable,
    used_bytes,
)
from router.disk.store.history import History
from router.disk.store.id_index import IdIndex
from router.disk.store.parcels import Parcels
from router.disk.store.records import Records
from router.disk.store.rest import Rest
from router.disk.store.retained import Retained, finish
from router.disk.store.rows import NUMBER, VERSION, WORD, QueueRow, backlog, move_rows, queued_after, rows_from
from router.disk.store.terms import Applied, Beginning, MapFull, StoreSpace
from router.disk.store.unsealed import Unsealed

LEFT_BYTES_MAX = 256 << 20  # the most of the map that is left for settling and events
SMALL_CHANGES, SMALL_BYTES = 64, 64 << 10
"""Most parcels and ends, and bytes of these parcels, in a transaction that may be committed in the loop."""
_NAMES = (
    "parcels", "frames", "queues", "pending", "kept", "history", "carried", "ends",
    "ids", "late", "shares", "due", *tables.NAMES, "log", "meta",
)  # fmt: skip


class Store:
    """One LMDB environment and a small cache of parcels. Not for use by two tasks at once. `commits` runs commits.

    A read leaves damaged messages out of its answer, and keeps them for `take_damaged`.
    """

    def __init__(self, path: Path, limits: StoreLimits, boot: bytes, commits: Commits | None = None) -> None:
        self._limits, self.path, self.commits = limits, path, commits or CallersThread()
        check_format(path)
        self._env, self._db = open_file(path, limits, _NAMES)
        self._rest = Rest(path / DATA)
        self._damage, self._parcels = Damage(), Parcels(self._db["parcels"], self._db["frames"], limits.cache_bytes_max)
        self._deadlines = Deadlines(self._db, self._parcels, self._damage, limits.sweep_rows_max)
        self._history = History(self._db, self._parcels, limits.history_s, limits.history_bytes_max)
        self._kept = Retained(self._db["kept"], self._parcels, self._history, limits.keep_s, limits.keep_bytes_max)
        self._unsealed = Unsealed(self._db["log"], boot)
        self.life = Life()
        self.clock: Belief | None = None  # transactions write it down for the next start
        self._state = [1, 1]  # next arrival number, next sequence number
        self.turns = WriteTurns(self._env, self.commits)
        self._ids = IdIndex(self._db["ids"], self._db["late"], self._db["shares"])
        self.records = Records(path, self._env, self._db, self._ids, self._parcels, self._history)

    def close(self) -> None:
        self.turns.abort()
        self._env.close()
        self._rest.close()

    def keep_history_for(self, service: bytes | None) -> None:
        """Keep messages owed to that service, the pub/sub service, as history from now on; None: keep nothing."""
        self._history.service = service

    # -- starting --------------------------------------------------------------------------------------------

    def recover(self, router_key: bytes, beginning: Beginning | None = None) -> Recovered:
        """Return the state from which the router's decisions resume. Reads every queue row once."""
        try:
            return self._recover(router_key, beginning)
        except (lmdb.Error, ValueError, *UNREADABLE) as error:
            raise unusable(self.path, "cannot be read", error) from None

    def _recover(self, router_key: bytes, beginning: Beginning | None) -> Recovered:
        epoch, *numbers = beginning or Beginning()
        self._state = numbers
        with self._env.begin() as txn:
            meta = txn.get(b"store", db=self._db["meta"])
            if meta is not None:
                epoch = epoch_of(self.path, cbor2.loads(meta), router_key)
                self._state = list(cbor2.loads(txn.get(b"state", db=self._db["meta"]) or b"")[:2])
            entries, shares = self._ids.load(txn, self._state[0])
            backlogs, held = backlog(txn, self._db["queues"], self._db["pending"])
            recovered = Recovered(
                epoch,
                self._state[0],
                index_entries=entries,
                index_shares=shares,
                held=held,
                backlog=backlogs,
                **tables.read(txn, self._db)._asdict(),
            )
            self.life = recovered.life
            self._kept.load(txn)
        if meta != (ours := cbor2.dumps([VERSION, router_key, epoch])):
            with self._rest.disturbed(), self.turns.begin_here() as txn:
                txn.put(b"store", ours, db=self._db["meta"])
                txn.put(b"state", cbor2.dumps(self._state), db=self._db["meta"])
        return recovered

    @in_words
    def renumber(self, repeated_seq: int, beginning: Beginning) -> int:
        """Move the events from `repeated_seq` on, and all later ones, behind those of the log beside this store, and
        later messages behind those that it names; return the next arrival number. For an older copy of the store."""
        by = beginning.seq - repeated_seq
        with self._rest.disturbed(), self.turns.begin_here() as txn:
            self._unsealed.renumber(txn, repeated_seq, by)
            self._state = [max(self._state[0], beginning.arrival), self._state[1] + by]
            txn.put(b"state", cbor2.dumps(self._state), db=self._db["meta"])
        return self._state[0]

    @in_words
    def begin_life(self, restored: Restored) -> None:
        """Let the numbers leap into a new life (core/log/life.py), and note that each message in a queue may have been
        handed over already; call `recover` again. It is done once, in one transaction."""
        next_arrival, next_seq = self._state
        with self._rest.disturbed(), self.turns.begin_here() as txn:
            tables.begin_life(txn, self._db, *begun(restored, self.life, next_arrival, next_seq))

    # -- one transaction -------------------------------------------------------------------------------------

    @in_words
    def apply(self, changes: Changes, wall_s: int) -> Applied:
        """Write one batch of decisions; `commit` makes it durable. May be called again after `MapFull`."""
        before = list(self._state), self._kept.sizes, self._unsealed.sealed_seq
        txn = self.turns.begin(may_be_here=_is_small(changes) and self._rest.is_free)
        try:
            for parcel in changes.parcels:
                self._put_parcel(txn, parcel)
            self._ids.put(txn, changes.parcels)
            move_rows(txn, self._db["queues"], changes.moved)
            released = finish(txn, self._db, self._kept, changes.finished, wall_s)
            tables.put(txn, self._db, changes, self.clock)
            self._deadlines.put_off(txn, changes.defer)
            rows = self._limits.sweep_rows_max
            forgotten = self._ids.sweep(txn, wall_s, rows - self._kept.sweep(txn, wall_s, rows))
            value = self._unsealed.put(txn, changes, self._state[1])
            self._state[1] += sum(map(span, changes.events))
            txn.put(b"state", cbor2.dumps(self._state), db=self._db["meta"])
        except lmdb.MapFullError:
            self.turns.abort()
            self._restore(before)
            raise MapFull from None
        self._before = before
        return Applied(released, forgotten, value)

    @in_words
    def commit(self) -> None:
        """Make the transaction durable, where it was begun; meanwhile nothing else of the store may run."""
        self.turns.run(self._commit)

    def _commit(self) -> None:
        try:
            with self._rest.disturbed():
                self.turns.commit()
            self._ids.committed()
        except lmdb.MapFullError:
            self._restore(self._before)
            raise MapFull from None
        self.turns.begin_ahead()

    def _restore(self, before: tuple[list[int], tuple[int, int], int]) -> None:
        self._ids.abort()
        self._state, sizes, sealed_seq = before
        self._kept.restore(sizes)
        self._unsealed.restore(sealed_seq)
        self._grow()

    def _grow(self) -> None:
        now = self._env.info()["map_size"]
        larger = now * 2 if now < 1 << 30 else now + (1 << 30)
        most = self._limits.map_bytes_max
        if most:  # beyond it only as far as settling and events need
            larger = max(min(larger, most), now + (1 << 20))
        self._env.set_mapsize(larger)

    @in_words
    def has_room_for(self, size: int) -> bool:
        """Whether messages of `size` bytes may be accepted: a quarter of `map_bytes_max` is reserved for settling and
        events, which may even exceed it. Free pages count as room."""
        most = self._limits.map_bytes_max
        return not most or self._used_bytes() + 2 * size <= most - min(most // 4, LEFT_BYTES_MAX)

    @in_words
    def space(self) -> StoreSpace:
        """Return the room that the store takes, and how much it may take."""
        return StoreSpace(self._used_bytes(), allocated_bytes(self._env, self.path), self._limits.map_bytes_max)

    def _used_bytes(self) -> int:
        with self._env.begin() as txn:
            return used_bytes(txn, self._db.values())

    def _put_parcel(self, txn: Any, parcel: Parcel) -> None:
        self._state[0] = parcel.first + parcel.count
        if not parcel.stored:
            return
        self._parcels.put(txn, parcel)
        self._history.note(txn, parcel)
        first, size = NUMBER.pack(parcel.first), len(parcel.blob)
        row = QueueRow(parcel.count, size, size, parcel.signer[:8], parcel.neighbour[:8]).encode()
        queues = self._db["queues"]
        for recipient in parcel.recipients:
            txn.put(recipient + first, row, db=queues)
        if len(parcel.recipients) > 1:
            txn.put(first, WORD.pack(len(parcel.recipients)), db=self._db["pending"], append=True)
        self._deadlines.put(txn, parcel)

    @in_words
    def has_dead_rows(self, wall_s: int) -> bool:
        """Whether an empty transaction now would delete sealed events, or parcels and ids whose time is over."""
        with self._env.begin() as txn:
            return self._unsealed.sealed_seq > 0 or self._kept.has_dead(txn, wall_s) or self._ids.has_dead(txn, wall_s)

    # -- reading ---------------------------------------------------------------------------------------------

    @in_words
    def known(self, ids: Iterable[tuple[int, bytes]]) -> set[bytes]:
        """Return the ids of these (expiry minute, id) pairs that the duplicate index holds."""
        with self._env.begin() as txn:
            return self._ids.known(txn, ids)

    @in_words
    def fetch(
        self,
        recipient: bytes,
        position: int,
        messages: int,
        size: int,
        group: bytes | None = None,
        before: int | None = None,
    ) -> tuple[list[Owed], bool]:
        """Return the messages owed to `recipient` from arrival `position` on, and whether there are more; the last
        parcel may exceed `messages` or `size`. `before`: only messages that arrived before that number, and only
        multicasts of `group` if that is given, without frames, because they are to be dropped.
        """
        owed: list[Owed] = []
        with self._env.begin() as txn:
            cursor = txn.cursor(self._db["queues"])
            for first, row in rows_from(cursor, recipient, position):
                if before is not None and first >= before:
                    break
                if self._damage.is_full:
                    return owed, True
                if group is not None and row.signer_tag != group[:8]:
                    continue
                runs = row.owed(max(0, position - first))
                if not runs:
                    continue
                if owed and group is None and (messages <= 0 or size <= 0):
                    return owed, True
                parcel = self._row(txn, recipient, first, row)
                if parcel is None or (group is not None and (parcel.kind != MULTICAST or parcel.signer != group)):
                    continue
                if owed and (messages <= 0 or size <= 0):
                    return owed, True
                if before is None:
                    runs = self._damage.spare(recipient, row, runs, parcel, self._parcels.complete(txn, parcel))
                for start, stop in runs:
                    owed.append(Owed(parcel, start, stop))
                    messages -= stop - start
                    size -= parcel.size(start, stop)
        return owed, False

    @in_words
    def due(self, wall_s: int) -> list[Due]:
        """Return at most `sweep_rows_max` parcels with messages that have reached their deadline."""
        with self._env.begin() as txn:
            return self._deadlines.find(txn, wall_s)

    @in_words
    def message(self, identity: bytes) -> tuple[Parcel, int] | None:
        """Return the parcel and index of the message with that id, None if its bytes are gone or damaged; a skip scan
        over the expiry minutes in the index."""
        with self._env.begin() as txn:
            for _, arrival in self._ids.arrivals(txn, identity):
                if found := self._parcels.at(txn, arrival):
                    return found
        return None

    @in_words
    def owes(self, recipient: bytes, first: int, index: int) -> bool:
        """Whether that message of the parcel at arrival `first` is in the recipient's queue."""
        with self._env.begin() as txn:
            raw = txn.get(recipient + NUMBER.pack(first), db=self._db["queues"])
        return raw is not None and any(start <= index < stop for start, stop in QueueRow.decode(raw).owed())

    @in_words
    def queued(self, after: bytes, most: int) -> list[QueuedRow]:
        """Return at most `most` rows of the queues behind the key `after`, in the order of their keys: all that is
        owed, parcel by parcel. Rows are read without the parcels, some 1 µs each."""
        with self._env.begin() as txn:
            return queued_after(txn.cursor(self._db["queues"]), after, most)

    @in_words
    def oldest_s(self, recipient: bytes, wall_s: int) -> int:
        """Return the seconds that the oldest message in the recipient's queue has waited."""
        with self._env.begin() as txn:
            for first, row in rows_from(txn.cursor(self._db["queues"]), recipient, 0):
                if parcel := self._row(txn, recipient, first, row):
                    return max(0, wall_s - parcel.at_s)
        return 0

    @in_words
    def log_values(self, after_seq: int, most: int, *, within: bool = False) -> list[tuple[int, bytes]]:
        """Return at most `most` event values after `after_seq`, oldest first: (first sequence number, value). `within`:
        also one that begins earlier, whose events may reach beyond `after_seq`."""
        with self._env.begin() as txn:
            return self._unsealed.values(txn, after_seq, most, within=within)

    @in_words
    def newest_ns(self) -> int:
        """Return the wall time of the newest event that is not yet sealed, 0 if there is none."""
        with self._env.begin() as txn:
            return self._unsealed.newest_ns(txn)

    def log_is_sealed(self, seq: int) -> None:
        """Let the next transaction delete the events up to `seq`, which segments hold."""
        self._unsealed.seal(seq)

    @property
    def next_seq(self) -> int:
        return self._state[1]

    def take_damaged(self) -> list[Damaged]:
        """Return the damage that reads have found since the last call; the messages are still in the queues."""
        return self._damage.take()

    def _row(self, txn: Any, recipient: bytes, first: int, row: QueueRow) -> Parcel | None:
        parcel = self._parcels.row(txn, first)
        if parcel is None:
            self._damage.note_row(recipient, first, row)
        return parcel


def _is_small(changes: Changes) -> bool:
    """Whether a commit of these changes is as quick as commits get."""
    parcels = changes.parcels
    if len(parcels) + len(changes.finished) > SMALL_CHANGES:
        return False
    return sum([len(one.blob) for one in parcels]) <= SMALL_BYTES
