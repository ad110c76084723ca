"""Damage of the disk is noticed when it is read, reported once for each queue, and leaves everything else unchanged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import lmdb
import pytest
from msgspec.structs import replace
from samples.stores import KEYS, LIMITS, WALL_S, apply, opened, parcel

from router.core.routing.effects import Changes, Finished
from router.core.routing.owed import Damaged
from router.core.routing.parcel import Parcel
from router.core.wire.crypto import MessageId, digest
from router.disk.store.store import Store
from router.disk.store.terms import StoreError

ALL = 1 << 40


def held(path: Path, count: int = 3) -> list[Parcel]:
    """Return a store with three parcels of four messages for the first two keys, closed again."""
    store, random, parcels = opened(path), Random(5), list[Parcel]()
    for number in range(count):
        one = parcel(random, 1 + 4 * number, WALL_S, count=4)
        one.recipients = (KEYS[0], KEYS[1])
        parcels.append(one)
    apply(store, Changes(parcels=parcels))
    store.close()
    return parcels


def spoil(path: Path, database: str, first: int, change: Callable[[bytes], bytes | None]) -> None:
    with (
        lmdb.open(str(path), max_dbs=20, lock=False) as env,
        env.begin(write=True, db=env.open_db(database.encode())) as txn,
    ):
        key = first.to_bytes(8, "big")
        changed = change(bytes(txn.get(key) or b""))
        txn.delete(key)
        if changed is not None:
            txn.put(key, changed)


def flipped(at: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:at] + bytes((data[at] ^ 4,)) + data[at + 1 :]


def got(store: Store, recipient: bytes, position: int = 0) -> list[tuple[int, int, int]]:
    owed, more = store.fetch(recipient, position, ALL, ALL)
    assert not more
    return [(one.parcel.first, one.start, one.stop) for one in owed]


def lost(store: Store) -> list[tuple[bytes, int, tuple[tuple[int, int], ...]]]:
    return [(one.recipient, one.first, one.runs) for one in store.take_damaged()]


@pytest.mark.parametrize("where", range(4))
def test_of_a_parcel_with_a_spoilt_frame_the_rest_is_handed_out(where: int, tmp_path: Path) -> None:
    """The damage is in the frame's head, its first byte, its middle, or its end."""
    parcels = held(tmp_path)
    start, stop = parcels[1].ends[1], parcels[1].ends[2]
    spoil(tmp_path, "frames", 5, flipped([start, start + 2, (start + stop) // 2, stop - 1][where]))
    store = opened(tmp_path)
    for _ in range(2):
        assert got(store, KEYS[0]) == [(1, 0, 4), (5, 0, 2), (5, 3, 4), (9, 0, 4)]
    assert lost(store) == [(KEYS[0], 5, ((2, 3),))] and lost(store) == []
    assert got(store, KEYS[1], 8) == [(5, 3, 4), (9, 0, 4)] and lost(store) == [], "it was not asked for"
    assert got(store, KEYS[1]) == [(1, 0, 4), (5, 0, 2), (5, 3, 4), (9, 0, 4)]
    [one] = store.take_damaged()
    assert (one.recipient, one.size) == (KEYS[1], stop - start) and one.parcel is not None
    assert store.message(parcels[1].id(2)) is None, "it is not given out on demand either"
    found = store.message(parcels[1].id(3))
    assert found and found[0].wire(found[1]) == parcels[1].wire(3)
    store.close()


def test_a_message_is_looked_up_without_hashing_the_others_and_their_damage_is_found_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks for one message of each of many large parcels causes little work."""
    parcels = held(tmp_path)
    spoil(tmp_path, "frames", 5, flipped((parcels[1].ends[1] + parcels[1].ends[2]) // 2))
    store, hashed = opened(tmp_path), list[int]()

    def counted(data: bytes) -> MessageId:
        hashed.append(len(data))
        return MessageId(digest(data))

    monkeypatch.setattr("router.core.routing.parcel.digest", counted)
    for _ in range(2):
        assert store.message(parcels[1].id(3))
    assert len(hashed) == 2
    assert store.message(parcels[1].id(2)) is None
    assert got(store, KEYS[0]) == [(1, 0, 4), (5, 0, 2), (5, 3, 4), (9, 0, 4)]
    assert lost(store) == [(KEYS[0], 5, ((2, 3),))]
    store.close()


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: None, lambda data: data + data])
def test_frames_that_are_cut_short_or_missing(change: Callable[[bytes], bytes | None], tmp_path: Path) -> None:
    held(tmp_path)
    spoil(tmp_path, "frames", 5, change)
    store = opened(tmp_path)
    whole = got(store, KEYS[0])
    assert {first for first, _, _ in whole} >= {1, 9}
    assert (
        sum(stop - start for _, start, stop in whole)
        + sum(stop - start for _, _, runs in lost(store) for start, stop in runs)
        == 12
    )
    store.close()


@pytest.mark.parametrize("change", [flipped(0), flipped(40), flipped(-1), lambda data: data[:9], lambda data: None])
def test_a_spoilt_row_takes_its_parcel_with_it(change: Callable[[bytes], bytes | None], tmp_path: Path) -> None:
    """The frames of such a parcel cannot be separated any more, but its messages can still be counted, and their room
    freed."""
    parcels = held(tmp_path)
    store = opened(tmp_path)
    apply(store, Changes(finished=[Finished(KEYS[0], 5, 1, 2, parcels[1].size(1, 2))]))
    store.close()
    spoil(tmp_path, "parcels", 5, change)
    store = opened(tmp_path)
    backlog = {(one.recipient, one.signer_tag): one for one in store.recover(KEYS[0]).backlog}
    assert sum(one.messages for (key, _), one in backlog.items() if key == KEYS[0]) == 11, "counting needs no parcel"
    assert got(store, KEYS[0]) == [(1, 0, 4), (9, 0, 4)]
    store.oldest_s(KEYS[0], WALL_S)
    [one] = store.take_damaged()
    assert one == Damaged(
        KEYS[0], 5, ((0, 1), (2, 4)), parcels[1].size(0, 1) + parcels[1].size(2, 4), parcels[1].signer[:8],
        parcels[1].neighbour[:8], None,
    )  # fmt: skip
    apply(store, Changes(finished=[Finished(KEYS[0], 5, 0, 1, one.size), Finished(KEYS[0], 5, 2, 4, 0)]))
    assert got(store, KEYS[0]) == [(1, 0, 4), (9, 0, 4)] and lost(store) == [], "it is told once"
    assert store.message(parcels[1].ids[:32]) is None
    store.close()


def test_a_spoilt_row_is_found_when_its_deadline_comes(tmp_path: Path) -> None:
    """The damaged row does not name its recipients any more, so the queues are searched."""
    parcels = held(tmp_path)
    spoil(tmp_path, "parcels", 5, flipped(20))
    store = opened(tmp_path)
    due = store.due(WALL_S + 100_000)
    assert {one.first: one.parcel is None for one in due} == {1: False, 5: True, 9: False}
    assert sorted(lost(store)) == [(KEYS[0], 5, ((0, 4),)), (KEYS[1], 5, ((0, 4),))]
    ends = [Finished(key, 5, 0, 4, parcels[1].size(0, 4)) for key in KEYS[:2]]
    apply(store, Changes(finished=ends, defer=[(5, 0)]))
    found = store.recover(KEYS[0])
    assert sum(one.messages for one in found.held) == 8 and sum(one.messages for one in found.backlog) == 16
    assert [one.first for one in store.due(WALL_S + 100_000)] == [one.first for one in due if one.first != 5]
    store.close()


def test_a_queue_that_is_spoilt_all_through_is_given_up_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("router.disk.store.damage.FOUND_MAX", 2)
    held(tmp_path)
    for first in (1, 5, 9):
        spoil(tmp_path, "parcels", first, flipped(3))
    store = opened(tmp_path)
    assert store.fetch(KEYS[0], 0, ALL, ALL) == ([], True)
    for one in store.take_damaged():
        apply(store, Changes(finished=[Finished(one.recipient, one.first, 0, 4, one.size)]))
    assert got(store, KEYS[0]) == [] and lost(store) == [(KEYS[0], 9, ((0, 4),))]
    store.close()


def test_what_is_to_be_dropped_needs_no_frames(tmp_path: Path) -> None:
    held(tmp_path)
    spoil(tmp_path, "frames", 5, lambda data: None)
    spoil(tmp_path, "parcels", 9, flipped(3))
    store = opened(tmp_path)
    owed, more = store.fetch(KEYS[0], 0, ALL, ALL, None, 100)
    assert [one.parcel.first for one in owed] == [1, 5] and not more
    assert lost(store) == [(KEYS[0], 9, ((0, 4),))]
    store.close()


def test_what_is_in_memory_needs_no_disk(tmp_path: Path) -> None:
    """A parcel that was read whole is not hashed again."""
    held(tmp_path)
    store = opened(tmp_path, replace(LIMITS, cache_bytes_max=1 << 20))
    assert len(got(store, KEYS[0])) == 3
    with store._env.begin(write=True, db=store._db["frames"]) as txn:
        txn.put((5).to_bytes(8, "big"), b"spoilt")
    assert len(got(store, KEYS[1])) == 3 and lost(store) == []
    store.close()


# -- the file itself ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reads", [True, False])
def test_a_file_that_is_spoilt_while_it_is_open_is_said_in_a_sentence(reads: bool, tmp_path: Path) -> None:
    held(tmp_path, 40)
    store = opened(tmp_path)
    data = tmp_path / "data.mdb"
    with data.open("r+b") as file:
        file.seek(2 * 4096)
        file.write(bytes(data.stat().st_size - 2 * 4096))
    text = f"the store in {tmp_path} failed: it is damaged .*move store/ and log/ away together"
    with pytest.raises(StoreError, match=text):
        if reads:
            store.fetch(KEYS[0], 0, ALL, ALL)
        else:
            apply(store, Changes(members={(KEYS[0], KEYS[1]): None}, parcels=[parcel(Random(1), 900, WALL_S)]))
    store.close()


def test_a_queue_row_that_is_none_is_said_in_a_sentence(tmp_path: Path) -> None:
    held(tmp_path)
    store = opened(tmp_path)
    with store._env.begin(write=True, db=store._db["queues"]) as txn:
        txn.put(KEYS[0] + (5).to_bytes(8, "big"), b"short")
    with pytest.raises(StoreError, match=r"failed: it is damaged .*move store/ and log/ away together"):
        store.fetch(KEYS[0], 0, ALL, ALL)
    store.close()


def test_a_disk_that_is_full_is_not_called_damaged(tmp_path: Path) -> None:
    store = opened(tmp_path)

    def is_full(**_: object) -> None:
        raise lmdb.DiskError("mdb_txn_commit: No space left on device")

    store._env.close()
    store.turns._env = type("Full", (), {"begin": staticmethod(is_full)})
    with pytest.raises(
        StoreError, match=r"its disk is full .*make room and start again: nothing that was settled is lost"
    ):
        store.apply(Changes(), WALL_S)
