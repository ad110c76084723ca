"""LMDB compared with the plain store: the same answers after any batches, restarts, growth, and kills at any point."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rigs.plain_store import Disk, PlainStore
from samples.stores import (
    BOOT,
    KEYS,
    LIMITS,
    PUBSUB,
    WALL_S,
    accepted,
    apply,
    batch,
    batches,
    check_same,
    defer,
    due_shape,
    opened,
    owed_shape,
    parcel,
    recovered_shape,
)

from router.core.log import events as ev
from router.core.routing.effects import Changes, Finished
from router.core.routing.parcel import Parcel
from router.core.routing.seen import KEEP_AFTER_EXPIRY_S
from router.core.wire.lifetime import expiry_s
from router.disk.store.commit_thread import CallersThread, Commits, CommitThread
from router.disk.store.rows import QueueRow, totals
from router.disk.store.store import Store
from router.disk.store.terms import Beginning, MapFull

ROOT = Path(__file__).parents[4]


# -- the same as the plain store ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [*range(12), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(12, 300))])
def test_any_batches_give_the_same_answers(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    limits = replace(
        LIMITS, keep_s=random.choice((0, 100)), cache_bytes_max=random.choice((0, 2000, 1 << 20)),
        history_s=random.choice((0, 400, 9000)), history_bytes_max=random.choice((3000, 1 << 30)),
    )  # fmt: skip
    pubsub = random.choice((None, PUBSUB))
    disk, wall_s = Disk(), WALL_S
    commits = CommitThread() if seed % 2 else CallersThread()
    store, plain = Store(tmp_path, limits, BOOT, commits), PlainStore(disk, limits, BOOT)
    beginning = Beginning(b"epoch..8", random.randrange(1, 9), random.randrange(1, 9))
    assert recovered_shape(store.recover(KEYS[0], beginning)) == recovered_shape(plain.recover(KEYS[0], beginning))
    for _ in range(40):
        store.keep_history_for(pubsub)
        plain.keep_history_for(pubsub)
        wall_s += random.choice((0, 1, 1, 10, 300))
        changes = batch(random, plain, wall_s).changes
        if random.random() < 0.5:
            due = store.due(wall_s)
            assert due_shape(due) == due_shape(plain.due(wall_s))
            defer(random, changes, due, wall_s)
        if random.random() < 0.2:
            sealed = random.randrange(plain.next_seq)
            store.log_is_sealed(sealed)
            plain.log_is_sealed(sealed)
        expected = plain.apply(changes, wall_s)
        plain.commit()
        if isinstance(commits, CommitThread):  # some are made in the loop, some in the thread
            took_s, times = random.choice(((0.0, 60), (9.0, 1)))
            for began_s in range(times):
                commits.speed.observe(began_s, began_s + took_s)
        assert apply(store, changes, wall_s) == tuple(expected)
        check_same(random, store, plain, wall_s)
        if random.random() < 0.15:
            store.close()
            store, plain = Store(tmp_path, limits, BOOT, commits), PlainStore(disk, limits, BOOT)
            assert recovered_shape(store.recover(KEYS[0])) == recovered_shape(plain.recover(KEYS[0]))
            check_same(random, store, plain, wall_s)
    assert recovered_shape(store.recover(KEYS[0])) == recovered_shape(plain.recover(KEYS[0]))
    store.close()
    commits.close()


# -- killed at any point -----------------------------------------------------------------------------------------

CHILD = """
import os, signal, sys
from pathlib import Path
from random import Random
from samples.stores import BOOT, KEYS, WALL_S, batches, opened
path, kills_at, how = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
store = opened(path)
def die():
    print("dying", flush=True)
    os.kill(os.getpid(), signal.SIGKILL) if how == "kill" else os._exit(7)
for number, (changes, wall_s) in enumerate(batches(6)):
    if number * 2 == kills_at:
        store.apply(changes, wall_s)
        die()
    store.apply(changes, wall_s)
    store.commit()
    if number * 2 + 1 == kills_at:
        die()
"""


@pytest.mark.parametrize(("kills_at", "how"), [(0, "kill"), (5, "kill"), (8, "kill"), (9, "exit")])
def test_a_killed_process_leaves_whole_transactions(kills_at: int, how: str, tmp_path: Path) -> None:
    """The kill comes between apply and commit, or right after the commit, synced or not."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(("tests", "."))}
    command = [sys.executable, "-c", CHILD, str(tmp_path), str(kills_at), how]
    child = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert child.stdout == "dying\n", child.stderr
    assert child.returncode == (-signal.SIGKILL if how == "kill" else 7)
    plain = PlainStore(Disk(), LIMITS, BOOT)
    plain.recover(KEYS[0])
    for changes, wall_s in batches(6)[: (kills_at + 1) // 2]:
        plain.apply(changes, wall_s)
        plain.commit()
    store = Store(tmp_path, LIMITS, BOOT)
    assert recovered_shape(store.recover(KEYS[0])) == recovered_shape(plain.recover(KEYS[0]))
    check_same(Random(1), store, plain, WALL_S + 10)
    rest = batches(6)[(kills_at + 1) // 2 :]
    for changes, wall_s in rest:
        expected = plain.apply(changes, wall_s)
        plain.commit()
        assert apply(store, changes, wall_s) == tuple(expected)
    check_same(Random(1), store, plain, WALL_S + 10)
    store.close()


# -- growth ------------------------------------------------------------------------------------------------------


def large(random: Random, first: int, count: int = 4, size: int = 60_000) -> Parcel:
    return parcel(random, first, WALL_S, count=count, size=size, recipients=2)


@pytest.mark.parametrize("thread", [CallersThread, CommitThread])
def test_a_map_that_is_full_grows_and_the_batch_is_repeated_whole(
    thread: Callable[[], Commits], tmp_path: Path
) -> None:
    """The rest of the batch (ends, deadlines, sealed events, keys) is applied once, and the counters agree."""
    random, disk = Random(3), Disk()
    store, plain = Store(tmp_path, LIMITS, BOOT, thread()), PlainStore(disk, LIMITS, BOOT)
    store.recover(KEYS[0])
    plain.recover(KEYS[0])
    full = first = 0
    for number in range(40):
        wall_s = WALL_S + 20 * number
        changes = batch(random, plain, wall_s).changes
        first = plain.disk.next_arrival + sum(one.count for one in changes.parcels) + 3
        for _ in range(6):
            one = large(random, first)
            changes.parcels.append(one)
            first += one.count
        due = store.due(wall_s)
        assert due_shape(due) == due_shape(plain.due(wall_s))
        defer(random, changes, due, wall_s)
        sealed = plain.next_seq - 1
        store.log_is_sealed(sealed)
        plain.log_is_sealed(sealed)
        for _ in range(9):
            try:
                applied = store.apply(changes, wall_s)
                store.commit()
                break
            except MapFull:
                full += 1
        expected = plain.apply(changes, wall_s)
        plain.commit()
        assert applied.released == expected.released and applied.logged == expected.logged
        assert store.log_values(0, 99) == plain.log_values(0, 99), "what is sealed is gone, also from a repeated batch"
    assert full >= 2
    assert owed_shape(store.fetch(KEYS[0], 0, 1 << 30, 1 << 40)) == owed_shape(
        plain.fetch(KEYS[0], 0, 1 << 30, 1 << 40)
    )
    assert recovered_shape(store.recover(KEYS[0]))[4:] == recovered_shape(plain.recover(KEYS[0]))[4:]
    store.close()
    store.commits.close()


def test_the_map_may_be_full_at_any_point_of_a_batch(tmp_path: Path) -> None:
    """The same batch runs with more and more pages left: it fails at its first put, at its last, or not at all."""
    random, disk = Random(9), Disk()
    store, plain = opened(tmp_path / "0"), PlainStore(disk, LIMITS, BOOT)
    plain.recover(KEYS[0])
    for number in range(12):
        changes = batch(random, plain, WALL_S + number).changes
        plain.apply(changes, WALL_S + number)
        plain.commit()
        apply(store, changes, WALL_S + number)
    store.close()
    changes, wall_s = batch(random, plain, WALL_S + 40).changes, WALL_S + 40
    changes.parcels.append(parcel(random, plain.disk.next_arrival + 40, wall_s, count=3, size=20_000))
    defer(random, changes, plain.due(wall_s), wall_s)
    plain.log_is_sealed(plain.next_seq - 1)
    expected = plain.apply(changes, wall_s)
    plain.commit()
    data, failed = (tmp_path / "0" / "data.mdb").read_bytes(), list[int]()
    for pages in range(40):
        path = tmp_path / str(pages + 1)
        path.mkdir()
        (path / "data.mdb").write_bytes(data)
        store = opened(path, replace(LIMITS, map_bytes_max=len(data) + pages * 4096))
        store.due(wall_s)
        store.log_is_sealed(store.next_seq - 1)
        failed.append(0)
        while True:
            try:
                applied = store.apply(changes, wall_s)
                store.commit()
                break
            except MapFull:
                failed[-1] += 1
        assert tuple(applied) == tuple(expected), pages
        check_same(Random(1), store, plain, wall_s)
        assert recovered_shape(store.recover(KEYS[0])) == recovered_shape(plain.recover(KEYS[0]))
        store.close()
    assert failed[0] and not failed[-1]


def test_near_the_limit_of_the_map_there_is_no_room_for_messages_but_for_settling(tmp_path: Path) -> None:
    limits = replace(LIMITS, map_bytes_max=24 << 20, keep_s=0)
    store, random, first, parcels = opened(tmp_path, limits), Random(4), 1, list[Parcel]()
    while store.has_room_for(240_000):
        parcels.append(large(random, first))
        apply(store, Changes(parcels=parcels[-1:]))
        first += 4
    assert 10 << 20 < (tmp_path / "data.mdb").stat().st_size <= 18 << 20, "a quarter is left"
    for number in range(20):
        events: list[ev.Event] = [ev.RouterChange(1, 1, "stop", (("text", "x" * 500_000),))]
        apply(store, Changes(events=events))
        assert store.next_seq == number + 2
    assert (tmp_path / "data.mdb").stat().st_size > 24 << 20, "events go on even beyond it"
    store.close()
    store = opened(tmp_path, limits)
    assert store.recover(KEYS[0]).next_arrival == first and not store.has_room_for(1)
    store.log_is_sealed(store.next_seq)
    ends = [Finished(key, one.first, 0, 4, one.size(0, 4)) for one in parcels for key in one.recipients]
    apply(store, Changes(finished=ends))
    apply(store, Changes(members={(KEYS[1], KEYS[2]): None}))
    assert store.has_room_for(1 << 20), "what is free again does not count"
    store.close()
    other = opened(tmp_path / "other")
    assert other.has_room_for(1 << 60), "without a limit there is always room"
    other.close()


# -- look-ups ----------------------------------------------------------------------------------------------------


def test_a_message_is_found_by_any_beginning_of_its_id(tmp_path: Path) -> None:
    """A skip scan goes from expiry minute to expiry minute, over ids whose bytes are missing as well."""
    random, store, first, parcels = Random(6), opened(tmp_path), 1, list[Parcel]()
    for number in range(60):
        parcels.append(parcel(random, first, WALL_S, stored=number % 5 != 0))
        apply(store, Changes(parcels=parcels[-1:]))
        first += parcels[-1].count
    for one in parcels:
        for at in range(one.count):
            for length in (32, 8, 5):
                found = store.message(one.id(at)[:length])
                assert (found and (found[0].first, found[1])) == ((one.first, at) if one.stored else None)
    assert store.message(b"?" * 32) is None and store.message(b"\xff" * 32) is None
    store.close()


def test_oldest_and_empty(tmp_path: Path) -> None:
    store = opened(tmp_path)
    assert store.oldest_s(KEYS[0], WALL_S) == 0 and store.fetch(KEYS[0], 0, 9, 9) == ([], False)
    assert store.due(WALL_S) == [] and store.message(b"x") is None and store.log_values(0, 9) == []
    apply(store, Changes(parcels=[parcel(Random(1), 1, WALL_S - 50, recipients=4)]))
    assert max(store.oldest_s(key, WALL_S) for key in KEYS) == 50
    store.close()


def test_what_is_owed_to_whom(tmp_path: Path) -> None:
    store, one = opened(tmp_path), parcel(Random(1), 7, WALL_S, count=4, recipients=1)
    apply(store, Changes(parcels=[one]))
    [recipient] = one.recipients
    assert [store.owes(recipient, 7, index) for index in range(5)] == [True] * 4 + [False]
    apply(store, Changes(finished=[Finished(recipient, 7, 1, 3, one.size(1, 3))]))
    assert [store.owes(recipient, 7, index) for index in range(4)] == [True, False, False, True]
    assert not store.owes(recipient, 8, 0) and not store.owes(bytes(32), 7, 0)
    store.close()


def test_sweeping_is_bounded(tmp_path: Path) -> None:
    """Two rows are swept in a transaction: the rest waits for the next one, and the counters are right."""
    store = opened(tmp_path, replace(LIMITS, sweep_rows_max=2, keep_s=10))
    parcels = [parcel(Random(n), 1 + n, WALL_S, count=1, recipients=1) for n in range(7)]
    apply(store, Changes(parcels=parcels))
    apply(store, Changes(finished=[Finished(one.recipients[0], one.first, 0, 1, one.size(0, 1)) for one in parcels]))
    later = WALL_S + 90_000
    swept = [apply(store, Changes(members={(KEYS[0], KEYS[0]): None}), later)[1] for _ in range(9)]
    forgotten = [sum(one.values()) for one in swept]
    assert sum(forgotten) == 7 and max(forgotten) <= 2
    assert store.recover(KEYS[0]).index_entries == 0 and store.message(parcels[0].ids) is None
    store.close()


def test_it_knows_whether_anything_has_had_its_time(tmp_path: Path) -> None:
    """Kept bytes, dead ids and sealed events count until a transaction without changes has swept them."""
    store, one = opened(tmp_path, replace(LIMITS, keep_s=10)), parcel(Random(1), 1, WALL_S, recipients=1)
    apply(store, Changes(parcels=[one], events=[accepted(one)]))
    assert not store.has_dead_rows(WALL_S + 20)
    size = one.size(0, one.count)
    apply(store, Changes(finished=[Finished(one.recipients[0], one.first, 0, one.count, size)]))
    assert not store.has_dead_rows(WALL_S + 9)
    store.log_is_sealed(store.next_seq)
    later = max(map(expiry_s, one.expiries)) + KEEP_AFTER_EXPIRY_S
    for wall_s in (WALL_S + 9, WALL_S + 10, later + 60):
        assert store.has_dead_rows(wall_s)
        apply(store, Changes(), wall_s)
        assert not store.has_dead_rows(wall_s)
    assert store.message(one.ids) is None and store.log_values(0, 9) == []
    store.close()


def test_events_take_gapless_numbers_across_restarts(tmp_path: Path) -> None:
    store = opened(tmp_path)
    one = parcel(Random(1), 1, WALL_S, count=5)
    for changes in (Changes(events=[accepted(one)]), Changes(events=[ev.RouterChange(1, 1, "stop", ())] * 2)):
        apply(store, changes)
        store.close()
        store = opened(tmp_path)
    assert [seq for seq, _ in store.log_values(0, 9)] == [1, 6] and store.next_seq == 8
    assert [seq for seq, _ in store.log_values(1, 9)] == [6] and store.log_values(6, 9) == []
    within = [[seq for seq, _ in store.log_values(after, 9, within=True)] for after in (0, 1, 4, 5, 6, 99)]
    assert within == [[1, 6], [1, 6], [1, 6], [6], [6], [6]]
    store.close()


# -- the rows of a queue -----------------------------------------------------------------------------------------

RUNS = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 20)).map(sorted).filter(lambda run: run[0] < run[1]), max_size=8
)


@given(RUNS, st.integers(0, 21))
def test_a_queue_row_is_a_set_of_what_is_done(runs: list[list[int]], at: int) -> None:
    row, done = QueueRow(20, 200, 200, b"s" * 8, b"n" * 8), set[int]()
    for start, stop in runs:
        row = row.finish(start, stop, 10 * len(set(range(start, stop)) - done))
        done |= set(range(start, stop))
        assert totals(row.encode()) == (20 - len(done), 200 - 10 * len(done), b"s" * 8, b"n" * 8)
        assert QueueRow.decode(row.encode()) == row
        assert list(row.done) == sorted(row.done) and all(
            one[1] < other[0] for one, other in zip(row.done, row.done[1:], strict=False)
        )
    owed = [index for start, stop in row.owed(at) for index in range(start, stop)]
    assert owed == [index for index in range(at, 20) if index not in done]
    assert row.is_done is (len(done) == 20)


# -- a million ---------------------------------------------------------------------------------------------------

MILLION = """
import resource, sys, time
from array import array
from pathlib import Path
from random import Random
from samples.stores import BOOT, KEYS, WALL_S, LIMITS, apply
from samples.stores import parcel
from router.core.routing.effects import Changes
from router.disk.store.store import Store
from msgspec.structs import replace
random, one_by_one = Random(1), sys.argv[2] == "one by one"
limits = replace(LIMITS, map_bytes_initial=64 << 20)
store = Store(Path(sys.argv[1]), limits, BOOT)
store.recover(KEYS[0])
count, first, peak = (1, 1000), 1, 0
for number in range(1000):
    parcels = []
    for _ in range(1000 if one_by_one else 1):
        one = parcel(random, first, WALL_S, count=1 if one_by_one else 1000, size=100)
        one.recipients = (KEYS[1],)
        first += one.count
        parcels.append(one)
    apply(store, Changes(parcels=parcels))
    if number == 100:
        early = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
store.close()
store = Store(Path(sys.argv[1]), limits, BOOT)
began = time.process_time()
found = store.recover(KEYS[0])
took = time.process_time() - began
late = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert sum(one.messages for one in found.held) == 1_000_000 == sum(one.messages for one in found.backlog), found
owed, more = store.fetch(KEYS[1], 500_000, 100, 1 << 20)
assert more and owed[0].parcel.first + owed[0].start == 500_000
print(took, late - early)
"""


@pytest.mark.long
@pytest.mark.parametrize("how", ["one by one", "in parcels"])
def test_a_million_messages_for_one_who_is_away(how: str, tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(("tests", "."))}
    command = [sys.executable, "-c", MILLION, str(tmp_path), how]
    out = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True).stdout.split()
    recover_s, grown_kib = float(out[0]), int(out[1])
    assert recover_s < 3.0, f"recover() took {recover_s:.1f} s of CPU time"
    mapped_kib = (tmp_path / "data.mdb").stat().st_size // 1024
    assert grown_kib < mapped_kib + 40_000, (
        "beside the pages of the map, which the kernel may take back, memory is flat"
    )
