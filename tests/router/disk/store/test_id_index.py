"""The duplicate index compared with a dictionary: rounds of the lift, lost transactions, restarts, ageing."""

from __future__ import annotations

import hashlib
import random
from array import array
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest

from router.core.neighbours.directory import STRANGERS
from router.core.routing.duplicate_index import APPS, HOLDER_BYTES, STRANGERS_HOLDER
from router.core.routing.parcel import U32, Parcel
from router.core.routing.seen import KEEP_AFTER_EXPIRY_S
from router.core.wire.lifetime import expiry_s
from router.disk.store import id_index
from router.disk.store.id_index import IdIndex

MINUTES = (1000, 1001, 1005)
NEIGHBOURS = b"", STRANGERS, b"e" * 32, b"w" * 32


class Shelf:
    """An index in an LMDB of its own, and a dictionary of its right content."""

    def __init__(self, path: Path) -> None:
        self.environment = lmdb.open(str(path), max_dbs=3, map_size=64 << 20, sync=False)
        self.expected: dict[bytes, tuple[int, int]] = {}  # id: expiry minute, arrival
        self.holders: dict[bytes, bytes] = {}
        self.next_arrival = 1
        self.reopen()

    def reopen(self) -> None:
        self.ids, self.late, shares = (self.environment.open_db(name) for name in (b"ids", b"late", b"shares"))
        self.index = IdIndex(self.ids, self.late, shares)
        with self.environment.begin() as txn:
            entries, sums = self.index.load(txn, self.next_arrival)
        assert entries == len(self.expected)
        assert sums == {holder: ids for holder, ids in Counter(self.holders.values()).items() if holder}

    def put(self, minutes: list[int], holds: bool = True, neighbour: bytes = b"") -> None:
        parcel = a_parcel(self.next_arrival, minutes, neighbour)
        with self.environment.begin(write=True) as txn:
            self.index.put(txn, [parcel])
            if not holds:
                txn.abort()
                self.index.abort()
                return
        self.index.committed()
        for at, minute in enumerate(minutes):
            self.expected[parcel.id(at)] = minute, self.next_arrival + at
            self.holders[parcel.id(at)] = neighbour[:HOLDER_BYTES]
        self.next_arrival += len(minutes)

    def sweep(self, wall_s: int, rows_max: int) -> dict[bytes, int]:
        with self.environment.begin(write=True) as txn:
            self.index.put(txn, [])
            gone = self.index.sweep(txn, wall_s, rows_max)
        self.index.committed()
        return gone

    def known(self, ids: dict[bytes, int]) -> set[bytes]:
        with self.environment.begin() as txn:
            return self.index.known(txn, [(minute, one) for one, minute in ids.items()])

    def found(self, prefix: bytes) -> dict[bytes, int]:
        with self.environment.begin() as txn:
            return dict(self.index.arrivals(txn, prefix))

    def rows(self) -> tuple[int, int]:
        with self.environment.begin() as txn:
            return txn.stat(self.ids)["entries"], txn.stat(self.late)["entries"]


def a_parcel(first: int, minutes: list[int], neighbour: bytes) -> Parcel:
    """Return a parcel of the node's own app, unless it names a neighbour."""
    ids = b"".join(hashlib.sha256(b"%d" % (first + at)).digest() for at in range(len(minutes)))
    words = array(U32, [0] * len(minutes))
    return Parcel(
        first, 1, b"", None, neighbour, neighbour or None, (), 0, b"", words, ids, words, array(U32, minutes), words
    )


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shelf]:
    monkeypatch.setattr(id_index, "LATE_MAX", 40)
    made = Shelf(tmp_path)
    yield made
    made.environment.close()


@pytest.mark.parametrize("seed", range(5))
def test_it_knows_what_was_committed_and_nothing_else(shelf: Shelf, seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(300):
        minutes = [draw.choice(MINUTES) for _ in range(draw.randint(1, 12))]
        shelf.put(minutes, not shelf.expected or draw.random() < 0.9, draw.choice(NEIGHBOURS))
        if draw.random() < 0.03:
            shelf.reopen()
        one, (minute, _) = draw.choice(sorted(shelf.expected.items()))
        asked = {one: minute}
        strange = {one: minute + 1, draw.randbytes(32): minute}
        assert shelf.known(asked) == set(asked)
        assert shelf.known(strange) == set()
    arrivals = {one: arrival for one, (_, arrival) in shelf.expected.items()}
    assert shelf.found(b"") == arrivals
    for one, arrival in draw.sample(sorted(arrivals.items()), 20):
        assert shelf.found(one[: draw.choice((1, 3, 32))])[one] == arrival


def test_ids_go_to_their_place_and_leave_the_waiting_list(shelf: Shelf) -> None:
    for _ in range(2_000):
        shelf.put([1000])
    in_place, late = shelf.rows()
    assert in_place >= 2_000 - 40 - 1
    assert late < 6 * 40  # a round and what came during it, deleted a few a time


def test_where_few_ids_come_few_are_late(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, value in {"LATE_MAX": 2_000, "LATE_QUIET_MAX": 512, "LATE_BATCHES": 40}.items():
        monkeypatch.setattr(id_index, limit, value)
    for _ in range(1_000):
        shelf.put([1000])
    in_place, _ = shelf.rows()
    assert 1_000 - 512 - 1 <= in_place < 1_000 - 400
    for _ in range(18):
        shelf.put([1000] * 30)
    assert shelf.rows()[0] == in_place, "while many come, more of them go to a page together"
    shelf.put([1000])
    assert in_place < shelf.rows()[0] < in_place + 40, "then they go there a few floors at a time"
    for _ in range(200):
        shelf.put([1000])
    assert shelf.rows()[0] >= len(shelf.expected) - 512 - 1
    assert shelf.known({one: minute for one, (minute, _) in shelf.expected.items()}) == set(shelf.expected)


@pytest.mark.parametrize("reopened", [False, True])
def test_an_id_is_known_for_ten_minutes_after_its_expiry(shelf: Shelf, reopened: bool) -> None:
    """A copy may come late, from a router whose clock is behind (R-C5)."""
    shelf.put([1000])
    if reopened:
        shelf.reopen()
    [id] = shelf.expected
    assert shelf.sweep(expiry_s(1000) + 9 * 60, 1_000) == {} and shelf.known({id: 1000}) == {id}
    assert shelf.sweep(expiry_s(1000) + 11 * 60, 1_000) == {APPS: 1} and shelf.known({id: 1000}) == set()


@pytest.mark.parametrize("reopened", [False, True])
def test_the_dead_are_forgotten_wherever_they_are(shelf: Shelf, reopened: bool) -> None:
    for at, minute in enumerate((1000, 1005) * 50):
        shelf.put([minute], neighbour=NEIGHBOURS[at // 2 % 2])
    if reopened:
        shelf.reopen()
    dead_s = expiry_s(1000) + KEEP_AFTER_EXPIRY_S
    assert shelf.sweep(dead_s, 1_000) == {}
    gone = [shelf.sweep(dead_s + 61 + wait, 20) for wait in range(5)]
    assert [sum(one.values()) for one in gone] == [20, 20, 10, 0, 0]
    assert sum(map(Counter, gone), Counter()) == {APPS: 25, STRANGERS_HOLDER: 25}
    shelf.expected = {one: found for one, found in shelf.expected.items() if found[0] == 1005}
    shelf.holders = {one: shelf.holders[one] for one in shelf.expected}
    assert shelf.found(b"") == {one: arrival for one, (_, arrival) in shelf.expected.items()}
    shelf.reopen()
    assert shelf.found(b"") == {one: arrival for one, (_, arrival) in shelf.expected.items()}, "nor do they come back"


def test_a_node_with_little_to_do_waits_for_nothing(shelf: Shelf) -> None:
    """There are always too few ids to move to their places: their rows are deleted with the last of them."""
    for minute in range(1000, 1100):
        shelf.put([minute, minute + 1])
        shelf.sweep(expiry_s(minute) + KEEP_AFTER_EXPIRY_S, 1_000)
    assert sum(shelf.rows()) < 6


def test_ids_of_an_earlier_version_count_for_the_apps(shelf: Shelf) -> None:
    """Rows of an earlier version name no holder, in whichever of both databases they are; new rows beside them do."""
    minute, more = 1000, {}
    with shelf.environment.begin(write=True) as txn:
        for first in range(1, 4):
            old = a_parcel(first, [minute], b"")
            key = minute.to_bytes(4, "big") + old.ids
            txn.put(first.to_bytes(8, "big"), key, db=shelf.late)
            more[old.ids] = minute, first
        txn.put(key, (3).to_bytes(8, "big"), db=shelf.ids)
    shelf.expected, shelf.next_arrival = more, 4
    shelf.reopen()
    shelf.put([minute, minute], neighbour=STRANGERS)
    shelf.reopen()
    assert shelf.sweep(expiry_s(minute) + KEEP_AFTER_EXPIRY_S + 61, 99) == {APPS: 3, STRANGERS_HOLDER: 2}
