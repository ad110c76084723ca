"""Packed ids, compared with queues of ids, and what they take."""

from __future__ import annotations

import tracemalloc
from collections import deque
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from router.core.wire.packed_ids import BUCKET_IDS, PackedIds, _has

IDS = [bytes(32), bytes(31) + b"\1", *(Random(number).randbytes(32) for number in range(38))]


@given(st.integers(0, 2 * BUCKET_IDS - 1), st.lists(st.sampled_from(IDS), max_size=120))
@settings(deadline=None)
def test_packed_ids_of_one_bucket_are_the_newest(most: int, added: list[bytes]) -> None:
    found, model = PackedIds(most), deque[bytes](maxlen=max(1, most))
    assert not found
    for id in added:
        found.add(id)
        if id not in model:
            model.append(id)
        assert len(found) == len(model) and found
    assert [one in found for one in IDS] == [one in model for one in IDS]


def test_packed_ids_keep_the_newest_half_at_least_and_all_at_most() -> None:
    draw, most = Random(1), 2_000
    ids = [draw.randbytes(32) for _ in range(5_000)]
    found = PackedIds(most)
    found.update(ids)
    kept = [one in found for one in ids]
    assert all(kept[-most // 2 :]) and len(found) == sum(kept) <= most
    found.update(ids[-most // 2 :])
    assert kept == [one in found for one in ids], "what is remembered keeps its place"


def test_an_id_is_found_at_its_own_place_in_a_bucket_only() -> None:
    bucket = bytes(range(16)) + bytes(range(8, 24)) + bytes(range(40, 56))
    assert all(_has(bucket, bucket[at : at + 16], 48) for at in (0, 16, 32))
    assert not _has(bucket, bucket[5:21], 48), "it lies across two ids"
    assert _has(bytes(5) + b"\1" * 11 + bytes(16), bytes(16), 32), "the first place is across two as well"
    assert not _has(bucket, bucket[32:48], 32) and not _has(b"", bytes(16), 16), "beyond what is in use"


def test_packed_ids_of_which_only_the_middle_differs_count_as_one() -> None:
    """16 bytes of a digest name it as well as 32 do."""
    found = PackedIds(10)
    found.add(bytes(8) + b"a" * 16 + bytes(8))
    assert bytes(8) + b"b" * 16 + bytes(8) in found
    assert b"\1" + bytes(31) not in found and bytes(31) + b"\1" not in found


def test_few_packed_ids_of_a_small_table_take_little_memory() -> None:
    """An app has such a table for each group, of which most are quiet."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        found = PackedIds(8_192)
        found.update(id for id in IDS[:24])
        assert tracemalloc.get_traced_memory()[0] - before < 32 << 10
    finally:
        tracemalloc.stop()


def test_packed_ids_of_a_large_table_take_all_their_memory_early() -> None:
    """With a hundredth of the ids they have all of it, and never more than 18 bytes for each."""
    draw, most, took = Random(2), 1 << 16, list[int]()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        found = PackedIds(most)
        found.update(draw.randbytes(32) for _ in range(most // 100))
        took.append(tracemalloc.get_traced_memory()[0] - before)
        for _ in range(5):
            found.update(draw.randbytes(32) for _ in range(most // 5))
            took.append(tracemalloc.get_traced_memory()[0] - before)
        found.update(draw.randbytes(32) for _ in range(most))
        took.append(tracemalloc.get_traced_memory()[0] - before)
    finally:
        tracemalloc.stop()
    assert len(found) > 0.99 * most
    assert max(took) < 18 * most and max(took) - took[0] < most // 20, took
