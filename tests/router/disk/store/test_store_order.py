"""Keys that the disk has brought out of order: a walk from key to key ends, with an error in a sentence."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from samples.logs import KEY, outward
from samples.stores import KEYS, WALL_S, apply, opened, parcel

from router.core.routing.effects import Changes
from router.core.wire.now import Now
from router.disk.limits import LogLimits
from router.disk.log.eventlog import Segments
from router.disk.log.logbook import Logbook
from router.disk.store.rows import NUMBER
from router.disk.store.store import Store
from router.disk.store.terms import StoreError

ALL = 1 << 40
READS_MAX = 100
DAMAGED = r"it is damaged .*out of order.*move store/ and log/ away together"


def flip(path: Path, key: bytes, at: int, bit: int) -> None:
    """Flip one bit of a key, wherever the file holds it."""
    data = path / "data.mdb"
    content = data.read_bytes()
    assert key in content
    data.write_bytes(content.replace(key, key[:at] + bytes((key[at] ^ 1 << bit,)) + key[at + 1 :]))


def bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Iterate a reader, and fail if it does not end."""
    read, count = store.log_values, [0]

    def counted(after_seq: int, most: int, **more: bool) -> list[tuple[int, bytes]]:
        count[0] += 1
        assert count[0] < READS_MAX, "it goes round"
        return read(after_seq, most, **more)

    monkeypatch.setattr(store, "log_values", counted)


@pytest.mark.parametrize(("at", "bit"), [(7, 0), (7, 2), (7, 3), (7, 7), (6, 0), (0, 7)])
def test_events_out_of_order_end_the_replay(at: int, bit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("router.disk.log.logbook.REPLAY_VALUES", 4)
    store = opened(tmp_path / "store")
    for n in range(14):
        apply(store, Changes(events=[outward(WALL_S + n)]))
    values = [value for _, value in store.log_values(0, 14)]
    store.close()
    flip(tmp_path / "store", NUMBER.pack(12) + values[11], at, bit)  # the last of four that are read at once
    store = opened(tmp_path / "store")
    bounded(store, monkeypatch)
    logbook = Logbook(Segments(tmp_path / "log", KEY, LogLimits()), store, 1e9, ALL)
    try:
        logbook.catch_up(Now(WALL_S * 10**9, 1))
    except StoreError as error:
        assert "out of order" in str(error)
    logbook.close()
    store.close()


def held(path: Path) -> None:
    store, random = opened(path), Random(5)
    for number in range(3):
        one = parcel(random, 1 + 4 * number, WALL_S, count=4)
        one.recipients = tuple(KEYS[:3])
        apply(store, Changes(parcels=[one]))
    store.close()


@pytest.mark.parametrize(
    "read",
    [
        lambda store: store.fetch(KEYS[1], 0, ALL, ALL),
        lambda store: store.due(WALL_S + 100_000),
        lambda store: store.oldest_s(KEYS[1], WALL_S),
    ],
)
@pytest.mark.parametrize("at", [0, 31, 32, 39])
@pytest.mark.parametrize("bit", [0, 2, 7])
def test_queues_out_of_order_end_every_walk(read: Callable[[Store], object], at: int, bit: int, tmp_path: Path) -> None:
    """A damaged row makes the store search every queue that may owe the parcel."""
    held(tmp_path)
    flip(tmp_path, KEYS[1] + NUMBER.pack(5), at, bit)
    store = opened(tmp_path)
    with store._env.begin(write=True, db=store._db["parcels"]) as txn:
        txn.put(NUMBER.pack(5), b"spoilt")
    try:
        read(store)
    except StoreError as error:
        assert "out of order" in str(error) or "short" not in str(error)
    store.close()


def test_a_row_behind_a_later_one_is_said(tmp_path: Path) -> None:
    held(tmp_path)
    flip(tmp_path, KEYS[1] + NUMBER.pack(5), 39, 7)
    store = opened(tmp_path)
    with pytest.raises(StoreError, match=DAMAGED):
        store.fetch(KEYS[1], 0, ALL, ALL)
    store.close()


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("bit", [0, 3, 7])
def test_ids_out_of_order_end_the_search(at: int, bit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("router.disk.store.id_index.LATE_MAX", 0)
    store, random = opened(tmp_path), Random(5)
    parcels = [parcel(random, 1 + number, WALL_S + 60 * number, count=1) for number in range(12)]
    apply(store, Changes(parcels=parcels))
    apply(store, Changes(parcels=[parcel(random, 100, WALL_S + 60 * 100, count=1)]))
    store.close()
    spoilt = parcels[6]
    flip(tmp_path, spoilt.expiries[0].to_bytes(4, "big") + spoilt.ids, at, bit)
    store = opened(tmp_path)
    try:
        assert store.message(bytes(32)) is None
    except StoreError as error:
        assert "out of order" in str(error)
    store.close()


@pytest.mark.long
def test_no_flipped_bit_hangs_a_start(tmp_path: Path) -> None:
    """The bits are in the file's own structures; each start is a process of its own."""
    script = Path(__file__).parent / "start_on_flipped.py"
    done = subprocess.run([sys.executable, str(script), str(tmp_path), "140"], capture_output=True, check=True)
    outcomes = json.loads(done.stdout)
    assert sum(outcomes.values()) == 140 and "hangs" not in outcomes, outcomes
