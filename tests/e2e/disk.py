"""Read a node's disk at one moment: its whole event log, its queues and its index, and check that they agree.

The node must be stopped, killed or frozen. The store is copied, so that reading it changes nothing.
"""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from samples.log_facts import read_log
from world.ledger import ENDS, Ledger, check

from router.core.log.line import Line, rows
from router.core.neighbours.directory import TAG_BYTES
from router.core.routing.parcel import Parcel
from router.core.routing.recovered import Recovered
from router.core.wire.crypto import PublicKey
from router.disk.limits import StoreLimits
from router.disk.store.store import Store
from router.settings.home import Home

ALL = 1 << 40
Pair = tuple[int, bytes]


@dataclass
class Disk:
    """The contents of the disk. `pending`: (arrival number, recipient) of each queue row; `tallies`: counts by (event,
    reason)."""

    ledger: Ledger = field(default_factory=Ledger)
    pending: set[Pair] = field(default_factory=set)
    parcels: dict[int, Parcel] = field(default_factory=dict)
    last_seq: int = 0
    starts: int = 0
    tallies: Counter[tuple[str, str | None]] = field(default_factory=Counter)
    expiries: dict[bytes, int] = field(default_factory=dict)
    recovered: Recovered = field(default_factory=Recovered)

    @property
    def accepted(self) -> list[bytes]:
        """Return the ids of accepted messages in order of arrival."""
        return [self.ledger.ids[at] for at in sorted(self.ledger.ids)]

    def ended(self, state: str, recipient: PublicKey) -> set[bytes]:
        """Return the ids of the messages that ended in this state for this recipient."""
        return {identity for identity, whom in self.ledger.ended(state) if whom == bytes(recipient)}


def read_disk(home: Home, router: PublicKey, scratch: Path) -> Disk:
    """Read the disk, and check everything that must hold at any moment; raise `AssertionError` with the fault."""
    copy = scratch / "store"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(home.store_path, copy)
    disk = Disk()
    log = read_log(home.log_path, router)
    assert not log.problems, log.problems
    for line in log.lines:
        _enter(disk, line)
    store = Store(copy, StoreLimits(synced=False), bytes(16))
    try:
        _read_store(disk, store, router)
    finally:
        store.close()
    shutil.rmtree(copy)
    return disk


def read_lines(home: Home, router: PublicKey) -> list[Line]:
    """Return all lines of the log of a stopped node: sealed ones, and those only in the store yet."""
    lines = read_log(home.log_path, router).lines
    last_seq = lines[-1].seq if lines else 0
    store = Store(home.store_path, StoreLimits(synced=False), bytes(16))
    try:
        store.recover(bytes(router))
        for _, value in store.log_values(0, ALL):
            lines += [line for line in rows(value, router) if line.seq > last_seq]
    finally:
        store.close()
    return lines


def _read_store(disk: Disk, store: Store, router: PublicKey) -> None:
    recovered = disk.recovered = store.recover(bytes(router))
    for first_seq, value in store.log_values(0, ALL):
        for line in rows(value, router):
            if line.seq > disk.last_seq:
                _enter(disk, line)
        assert first_seq <= disk.last_seq, "a value of the store stands for no sequence number"
    assert disk.last_seq == store.next_seq - 1, f"the log ends at {disk.last_seq}, the store at {store.next_seq - 1}"
    for recipient in {one.recipient for one in recovered.backlog}:
        owed, more = store.fetch(recipient, 0, ALL, ALL)
        assert not more
        for parcel, start, stop in owed:
            disk.parcels[parcel.first] = parcel
            disk.pending |= {(parcel.first + index, recipient) for index in range(start, stop)}
    check(disk.ledger, disk.pending)
    _check_counters(disk, recovered)
    _check_index(disk, store)


def _check_counters(disk: Disk, recovered: Recovered) -> None:
    last = max(disk.ledger.ids, default=recovered.next_arrival - 1)
    assert recovered.next_arrival == last + 1, f"arrival {last} is the last, {recovered.next_arrival} the next"
    held: dict[bytes, list[int]] = {}
    for parcel in disk.parcels.values():
        sums = held.setdefault(parcel.neighbour[:TAG_BYTES], [0, 0])
        sums[0] += parcel.count
        sums[1] += len(parcel.blob)
    counted = {tag: sums for tag, *sums in recovered.held}
    assert counted == held, f"{counted} messages and bytes are counted as held, by whom brought them; {held} are"
    in_rows = sum(one.messages for one in recovered.backlog)
    assert in_rows == len(disk.pending), f"the queues count {in_rows} messages and hold {len(disk.pending)}"


def _check_index(disk: Disk, store: Store) -> None:
    known = store.known([(expiry, identity) for identity, expiry in disk.expiries.items()])
    lacking = set(disk.expiries) - known
    assert not lacking, f"{len(lacking)} accepted ids are not in the duplicate index"
    assert len(set(disk.accepted)) == len(disk.accepted), "an id was accepted twice"


def _enter(disk: Disk, line: Line) -> None:
    assert line.seq == disk.last_seq + 1, f"sequence number {line.seq} follows {disk.last_seq}"
    assert line.event != "log_gap", f"the log has a gap at {line.seq}"
    disk.last_seq += line.n
    disk.tallies[line.event, line.reason] += line.count or 0
    disk.starts += line.event == "start"
    if line.event == "accepted":
        _enter_accepted(disk, line)
    elif line.recipient is not None:
        _enter_outward(disk.ledger, line)


def _enter_accepted(disk: Disk, line: Line) -> None:
    ledger = disk.ledger
    ids, first = bytes.fromhex(line.ids or ""), line.first or 0
    for at, expiry in enumerate(line.expiries or ()):
        assert first + at not in ledger.ids, f"the arrival number {first + at} was given twice"
        ledger.ids[first + at] = ids[32 * at : 32 * at + 32]
        disk.expiries[ledger.ids[first + at]] = expiry
        for recipient in line.recipients or ():
            ledger.ends[first + at, bytes.fromhex(recipient)] = []


def _enter_outward(ledger: Ledger, line: Line) -> None:
    recipient = bytes.fromhex(line.recipient or "")
    for pair in ((at, recipient) for first, count in line.ranges or () for at in range(first, first + count)):
        assert pair in ledger.ends, f"{line.event}: arrival {pair[0]} was never owed to {recipient.hex()[:8]}"
        if line.event == "forwarded":
            ledger.handed[pair] += 1
        elif line.event in ENDS:
            ledger.ends[pair].append(line.event)
