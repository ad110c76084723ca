"""The disk format is what cddl/store.cddl says: all that is written is valid, row by row of a real environment."""

from __future__ import annotations

import struct
import sys
from functools import cache
from pathlib import Path
from random import Random

import cbor2
import lmdb
import pytest
from cddl_verifier import Validator  # type: ignore[import-untyped]
from plain_store import Disk, PlainStore
from store_samples import KEYS, WALL_S, batch, parcel, shape
from test_store import BOOT, LIMITS, apply, opened

from router.core.acceptance import PARCEL_MESSAGES_MAX
from router.core.groups import Subscription
from router.disk.store_rows import QueueRow, decode_parcel, encode_parcel, is_untouched, read_subscription, totals

CDDL = Path(__file__).parents[3] / "cddl"
CBOR = {"parcels": ("store", "parcel"), "routes": ("store", "route"), "log": ("event", "batch")}
BYTES = {
    "queues": "queue-row", "pending": "pending", "kept": "kept", "ids": "id-row", "due": "due",
    "groups": "subscription", "locals": "local", "away": "away",
}  # fmt: skip
KEY_BYTES = {
    "parcels": 8, "frames": 8, "queues": 40, "pending": 8, "kept": 12, "ids": 36, "due": 12, "groups": 64, "routes": 32,
    "locals": 32, "away": 32, "log": 8,
}  # fmt: skip


@cache
def validator(stem: str) -> Validator:
    return Validator(CDDL / f"{stem}.cddl")


def check(data: bytes, stem: str, rule: str) -> None:
    result = validator(stem).validate(data, rule)
    assert result.valid, (rule, [str(one) for one in result.diagnostics])


def test_every_row_of_a_store_is_valid(tmp_path: Path) -> None:
    random, store, plain = Random(8), opened(tmp_path), PlainStore(Disk(), LIMITS, BOOT)
    plain.recover(KEYS[0])
    for number in range(15):
        changes = batch(random, plain, WALL_S + number).changes
        plain.apply(changes, WALL_S + number)
        plain.commit()
        apply(store, changes, WALL_S + number)
    store.close()
    seen = dict.fromkeys(KEY_BYTES, 0)
    with lmdb.open(str(tmp_path), max_dbs=20, lock=False, readonly=True) as env:
        databases = {name: env.open_db(name.encode(), create=False) for name in (*KEY_BYTES, "meta")}
        with env.begin() as txn:
            for name, size in KEY_BYTES.items():
                for key, value in txn.cursor(databases[name]):
                    assert len(key) == size, name
                    seen[name] += 1
                    if name in CBOR:
                        check(value, *CBOR[name])
                    elif name in BYTES:
                        check(cbor2.dumps(value), "store", BYTES[name])
            for rule, value in txn.cursor(databases["meta"]):
                check(value, "store", rule.decode())
    assert all(seen.values()), f"nothing was checked of {[name for name, count in seen.items() if not count]}"


@pytest.mark.parametrize("count", [1, PARCEL_MESSAGES_MAX])
def test_a_parcel_comes_back_as_it_was(count: int) -> None:
    one = parcel(Random(count), 9, WALL_S, count=count)
    meta = encode_parcel(one)
    check(meta, "store", "parcel")
    again = decode_parcel(9, meta, one.blob)
    assert shape(again) == shape(one) and again == one


@pytest.mark.parametrize("place", range(13))
def test_a_parcel_with_a_wrong_part_is_not_valid(place: int) -> None:
    parts = cbor2.loads(encode_parcel(parcel(Random(1), 9, WALL_S)))
    wrongs: tuple[object, ...] = ("x", [], b"x" * 31)
    for wrong in wrongs:
        changed = [*parts[:place], wrong, *parts[place + 1 :]]
        passes = place >= 9 and isinstance(wrong, bytes)  # the length of a column is beyond CDDL
        assert validator("store").validate(cbor2.dumps(changed), "parcel").valid is passes


def test_words_are_little_endian_here() -> None:
    """The columns of a parcel lie as this machine holds them; on another kind of machine the format would differ."""
    assert sys.byteorder == "little"
    one = parcel(Random(1), 9, WALL_S, count=1, size=300)
    assert cbor2.loads(encode_parcel(one))[9] == struct.pack("<I", 300)


def test_a_queue_row_is_what_the_page_says() -> None:
    row = QueueRow(9, 1000, b"signer..", b"neighbou").finish(2, 4).finish(6, 7)
    raw = row.encode()
    assert raw == struct.pack(">II8s8sIIII", 9, 1000, b"signer..", b"neighbou", 2, 4, 6, 7)
    assert totals(raw) == (9, 1000, b"signer..", b"neighbou") and not is_untouched(raw)
    assert is_untouched(row._replace(done=()).encode())
    worst = row
    for index in range(0, PARCEL_MESSAGES_MAX, 2):
        worst = worst._replace(messages=PARCEL_MESSAGES_MAX).finish(index, index + 1)
    check(cbor2.dumps(worst.encode()), "store", "queue-row")


@pytest.mark.parametrize("flags", range(4))
def test_a_subscription_is_two_bits(flags: int) -> None:
    found = read_subscription(KEYS[0] + KEYS[1], bytes((flags,)))
    assert found == Subscription(KEYS[0], KEYS[1], bool(flags & 1), bool(flags & 2))


def test_the_file_is_sound() -> None:
    assert not validator("store").warnings
