"""The disk format matches cddl/store.cddl: everything written is valid, row by row of a real environment."""

from __future__ import annotations

import struct
import sys
from array import array
from functools import cache
from pathlib import Path
from random import Random

import cbor2
import lmdb
import pytest
from cddl_verifier import Validator  # type: ignore[import-untyped]
from rigs.plain_store import Disk, PlainStore
from samples.stores import BOOT, KEYS, LIMITS, PUBSUB, WALL_S, apply, batch, opened, parcel, shape

from router.core.log.life import Restored
from router.core.routing.groups import Subscription
from router.core.routing.parcel import U32, column_of, words
from router.core.routing.parcel_draft import PARCEL_MESSAGES_MAX
from router.core.routing.recovered import Belief
from router.disk.store import rows as store_rows
from router.disk.store.rows import QueueRow, decode_parcel, encode_parcel, read_subscription, totals

CDDL = Path(__file__).parents[4] / "cddl"
CBOR = {
    "parcels": ("store", "parcel"),
    "routes": ("store", "route"),
    "log": ("event", "batch"),
    "missed": ("store", "missed"),
}
BYTES = {
    "queues": "queue-row", "pending": "pending", "kept": "kept", "ids": "id-row", "late": "late-row", "due": "due",
    "groups": "subscription", "locals": "local", "away": "away", "clears": "clear",
    "shares": "share", "history": "history", "carried": "carried", "ends": "ends",
}  # fmt: skip
KEY_BYTES = {
    "parcels": 8, "frames": 8, "queues": 40, "pending": 8, "kept": 12, "ids": 36, "late": 8, "due": 12, "groups": 64,
    "routes": 32, "locals": 32, "away": 32, "clears": 64, "missed": 65, "log": 8, "shares": 8,
    "history": 40, "carried": 8, "ends": 12,
}  # fmt: skip


@cache
def validator(stem: str) -> Validator:
    return Validator(CDDL / f"{stem}.cddl")


def check(data: bytes, stem: str, rule: str) -> None:
    result = validator(stem).validate(data, rule)
    assert result.valid, (rule, [str(one) for one in result.diagnostics])


def test_every_row_of_a_store_is_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("router.disk.store.id_index.LATE_MAX", 8)
    random, store, plain = Random(8), opened(tmp_path), PlainStore(Disk(), LIMITS, BOOT)
    plain.recover(KEYS[0])
    store.keep_history_for(PUBSUB)
    plain.keep_history_for(PUBSUB)
    store.clock = Belief(WALL_S * 10**9, (WALL_S + 7) * 10**9, "disputed", (WALL_S + 9) * 10**9)
    for number in range(15):
        changes = batch(random, plain, WALL_S + number).changes
        plain.apply(changes, WALL_S + number)
        plain.commit()
        apply(store, changes, WALL_S + number)
    assert store.recover(KEYS[0]).clock == store.clock
    store.begin_life(Restored(1, 2, 3))
    store.close()
    seen = dict.fromkeys(KEY_BYTES, 0)
    with lmdb.open(str(tmp_path), max_dbs=25, lock=False, readonly=True) as env:
        databases = {name: env.open_db(name.encode(), create=False) for name in (*KEY_BYTES, "meta")}
        with env.begin() as txn:
            for name, size in KEY_BYTES.items():
                for key, value in txn.cursor(databases[name]):
                    assert len(key) == size or (name, len(key)) in (("clears", 32), ("missed", 33)), name
                    seen[name] += 1
                    if name in CBOR:
                        check(value, *CBOR[name])
                    elif name in BYTES:
                        check(cbor2.dumps(value), "store", BYTES[name])
            rules = {bytes(rule).decode(): bytes(value) for rule, value in txn.cursor(databases["meta"])}
            assert rules.keys() == {"store", "state", "clock", "clock-earlier", "life"}
            for rule, value in rules.items():
                check(value, "store", rule)
    assert all(seen.values()), f"nothing was checked of {[name for name, count in seen.items() if not count]}"


@pytest.mark.parametrize("count", [1, PARCEL_MESSAGES_MAX])
def test_a_parcel_comes_back_as_it_was(count: int) -> None:
    one = parcel(Random(count), 9, WALL_S, count=count)
    meta = encode_parcel(one)
    check(meta, "store", "parcel")
    again = decode_parcel(9, meta, one.blob)
    assert again is not None and shape(again) == shape(one) and again == one


@pytest.mark.parametrize("place", range(14))
def test_a_parcel_with_a_wrong_part_is_not_valid(place: int) -> None:
    parts = cbor2.loads(encode_parcel(parcel(Random(1), 9, WALL_S)))
    wrongs: tuple[object, ...] = ("x", [], b"x" * 31)
    for wrong in wrongs:
        changed = [*parts[:place], wrong, *parts[place + 1 :]]
        passes = 9 <= place < 13 and isinstance(wrong, bytes)  # the length of a column is beyond CDDL
        assert validator("store").validate(cbor2.dumps(changed), "parcel").valid is passes


def test_a_row_that_is_not_what_was_written_is_noticed() -> None:
    """Any byte is changed, a row is cut short, or it is the row of another number."""
    one = parcel(Random(1), 9, WALL_S, count=3)
    row = encode_parcel(one)
    for at in range(len(row)):
        for bit in (1, 128):
            assert decode_parcel(9, row[:at] + bytes((row[at] ^ bit,)) + row[at + 1 :], one.blob) is None, at
        assert decode_parcel(9, row[:at], one.blob) is None
    assert decode_parcel(10, row, one.blob) is None


def test_the_columns_of_a_parcel_are_little_endian_on_any_machine() -> None:
    one = parcel(Random(1), 9, WALL_S, count=2, size=300)
    assert cbor2.loads(encode_parcel(one))[9] == struct.pack("<II", 300, 600)
    assert words(one.ends) == struct.pack("<II", 300, 600), "here"
    swapped = array(U32, struct.pack(">II" if sys.byteorder == "little" else "<II", 300, 600))
    assert words(swapped, native=False) == words(one.ends), "and where words lie the other way round"
    assert column_of(words(one.ends), native=False) == swapped and column_of(words(one.ends)) == one.ends


def test_a_queue_row_is_what_the_page_says() -> None:
    row = QueueRow(9, 1000, 1000, b"signer..", b"neighbou").finish(2, 4, 200).finish(6, 7, 30)
    raw = row.encode()
    assert raw == struct.pack(">III8s8sIIII", 9, 1000, 770, b"signer..", b"neighbou", 2, 4, 6, 7)
    assert totals(raw) == (6, 770, b"signer..", b"neighbou")
    worst = row
    for index in range(0, PARCEL_MESSAGES_MAX, 2):
        worst = worst._replace(messages=PARCEL_MESSAGES_MAX).finish(index, index + 1, 0)
    check(cbor2.dumps(worst.encode()), "store", "queue-row")


@pytest.mark.parametrize("flags", range(4))
def test_a_subscription_is_two_bits(flags: int) -> None:
    found = read_subscription(KEYS[0] + KEYS[1], bytes((flags,)))
    assert found == Subscription(KEYS[0], KEYS[1], bool(flags & 1), bool(flags & 2))


def test_the_file_is_sound() -> None:
    assert not validator("store").warnings


@pytest.mark.parametrize("alike_max", [2, 4096])
def test_rows_that_are_alike_are_read_once_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alike_max: int
) -> None:
    """A backlog of very many small parcels is summed as fast as one of few large ones."""
    env = lmdb.open(str(tmp_path), max_dbs=2)
    queues, pending = env.open_db(b"queues"), env.open_db(b"pending")
    row = QueueRow(1, 90, 90, b"signer--", b"nearby--")
    other = QueueRow(3, 300, 200, b"signer--", b"nearby--", ((0, 1),))
    with env.begin(write=True) as txn:
        for first in range(1, 501):
            for recipient in KEYS[:2]:
                txn.put(recipient + first.to_bytes(8, "big"), row.encode(), db=queues)
            txn.put(first.to_bytes(8, "big"), (2).to_bytes(4, "big"), db=pending)
        txn.put(KEYS[0] + (501).to_bytes(8, "big"), other.encode(), db=queues)
    read: list[bytes] = []

    def noted(raw: bytes) -> tuple[int, int, bytes, bytes]:
        read.append(raw)
        return totals(raw)

    monkeypatch.setattr(store_rows, "ALIKE_MAX", alike_max)
    monkeypatch.setattr(store_rows, "totals", noted)
    with env.begin() as txn:
        backlogs, held = store_rows.backlog(txn, queues, pending)
    env.close()
    sums = {one.recipient: (one.messages, one.bytes) for one in backlogs}
    assert sums == {KEYS[0]: (502, 500 * 90 + 200), KEYS[1]: (500, 500 * 90)}
    assert [(one.messages, one.bytes) for one in held] == [(503, 500 * 90 + 300)]
    assert len(read) <= 4
