"""Packed ids, compared with two generations of sets, and what they take."""

from __future__ import annotations

import tracemalloc
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from router.core.wire.packed_ids import PackedIds, _place

IDS = [Random(number).randbytes(32) for number in range(40)]


class Generations:
    """The same with sets."""

    def __init__(self, most: int) -> None:
        self.half = max(1, most // 2)
        self.young, self.old = set[bytes](), set[bytes]()

    def add(self, id: bytes) -> None:
        self.young.add(id)
        if len(self.young) >= self.half:
            self.young, self.old = set(), self.young

    def discard(self, id: bytes) -> None:
        self.young.discard(id)
        self.old.discard(id)


@given(st.integers(0, 24), st.lists(st.tuples(st.sampled_from(["add", "add", "discard"]), st.sampled_from(IDS))))
@settings(deadline=None)
def test_packed_ids_are_those_of_two_generations(most: int, steps: list[tuple[str, bytes]]) -> None:
    found, model = PackedIds(most), Generations(most)
    for step, id in steps:
        getattr(found, step)(id)
        getattr(model, step)(id)
        assert [one in found for one in IDS] == [one in model.young | model.old for one in IDS]
        assert len(found) == len(model.young) + len(model.old)


def test_packed_ids_keep_the_newest_half_at_least_and_all_at_most() -> None:
    draw, most = Random(1), 2_000
    ids = [draw.randbytes(32) for _ in range(5_000)]
    found = PackedIds(most)
    found.update(ids)
    kept = [one in found for one in ids]
    assert all(kept[-most // 2 :]) and len(found) == sum(kept) <= most


def test_an_id_is_found_at_its_own_place_in_a_bucket_only() -> None:
    bucket = bytes(range(16)) + bytes(range(8, 24)) + bytes(range(40, 56))
    assert [_place(bucket, bucket[at : at + 16]) for at in (0, 16, 32)] == [0, 16, 32]
    assert _place(bucket, bucket[5:21]) < 0, "it lies across two ids"
    assert _place(bytes(5) + b"\1" * 11 + bytes(16), bytes(16)) == 16, "the first place is across two as well"
    assert _place(b"", bytes(16)) < 0


def test_packed_ids_of_which_only_the_middle_differs_count_as_one() -> None:
    """16 bytes of a digest name it as well as 32 do."""
    found = PackedIds(10)
    found.add(bytes(8) + b"a" * 16 + bytes(8))
    assert bytes(8) + b"b" * 16 + bytes(8) in found
    assert b"\1" + bytes(31) not in found and bytes(31) + b"\1" not in found


def test_a_packed_id_takes_some_twenty_bytes() -> None:
    draw, count = Random(2), 4_000
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        found = PackedIds(2 * count + 2)
        for _ in range(count):
            found.add(draw.randbytes(32))
        took = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(found) == count and took < 24 * count
