"""Ordered sets of ids with sums, compared with a sorted list under every order of changes."""

from __future__ import annotations

import tracemalloc
from bisect import bisect_left
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.service.scratch_file import ScratchFile
from services.pubsub.core.comparison.id_set import END, LEAF_MAX, MINUTE_BYTES, IdSet, key_of, minute_of
from services.pubsub.core.comparison.leaves import LeafRoom

KEYS = st.builds(
    key_of, st.integers(0, 3), st.binary(min_size=1, max_size=2).map(lambda one: one.ljust(32, b"\0"))
)  # fmt: skip
CHANGES = st.lists(st.tuples(st.sampled_from(["add", "remove", "drop_before"]), st.lists(KEYS, max_size=200)))


def same(found: IdSet, keys: list[bytes], bounds: list[bytes]) -> None:
    assert len(found) == len(keys)
    assert list(found.keys(0, len(keys))) == keys
    for bound in (*bounds, b"", END):
        at = bisect_left(keys, bound)
        assert found.position(bound) == at
        assert found.sum_before(at) == sum(int.from_bytes(key[MINUTE_BYTES:], "little") for key in keys[:at])
        assert list(found.keys(at // 2, at)) == keys[at // 2 : at]
        assert (bound in found) is (bound in keys)
        if at < len(keys):
            assert found.key_at(at) == keys[at]


class FailingScratch:
    """A file of which some writes fail, after which nothing is known of that place."""

    def __init__(self, folder: Path, chance: Random) -> None:
        self._file = ScratchFile(folder, 0, pytest.fail)
        self._chance = chance

    def write(self, at: int, block: bytes) -> bool:
        is_written = self._chance.random() < 0.8
        assert self._file.write(at, block if is_written else bytes(len(block)))
        return is_written

    def read(self, at: int, size: int) -> bytes:
        return self._file.read(at, size)


@given(CHANGES, st.integers(0, 9))
def test_as_a_sorted_list(changes: list[tuple[str, list[bytes]]], number: int) -> None:
    """Also with leaves on disk, beside another set in the same room, and if writing fails at times."""
    with TemporaryDirectory() as folder:
        scratch = FailingScratch(Path(folder), Random(number)) if number % 2 else None
        room = LeafRoom(scratch, number // 2)
        other = IdSet([key_of(9, bytes(32))], room)
        _change_and_compare(IdSet(room=room), changes)
        same(other, [key_of(9, bytes(32))], [])


def _change_and_compare(found: IdSet, changes: list[tuple[str, list[bytes]]]) -> None:
    model = set[bytes]()
    for change, keys in changes:
        match change:
            case "add":
                assert found.add(keys) == len(model | set(keys)) - len(model)
                model |= set(keys)
            case "remove":
                found.remove(keys)
                model -= set(keys)
            case _:
                bound = min(keys, default=b"")
                assert found.drop_before(bound) == sum(key < bound for key in model)
                model = {key for key in model if key >= bound}
        same(found, sorted(model), keys[:3])
    assert found.clear() == len(model)
    same(found, [], [])


def test_on_disk_an_id_takes_few_bytes_of_memory_and_none_is_left_of_those_removed(tmp_path: Path) -> None:
    draw, count = Random(2), 12_000
    room = LeafRoom(ScratchFile(tmp_path, 0, pytest.fail), 4)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        found = IdSet(room=room)
        for minute in range(count // 600):
            found.add(key_of(minute, draw.randbytes(32)) for _ in range(600))
        found.position(END)
        took = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(found) == count and took < 8 * count, took
    assert room.on_disk > count // LEAF_MAX - 4
    assert list(tmp_path.iterdir()) == [], "the file has no name"
    found.clear()
    assert repr(room) == "<0 leaves in memory, 0 on disk>"


def test_its_file_is_open_from_the_beginning(tmp_path: Path) -> None:
    """Otherwise a node that runs for a while has one descriptor more, or none is left for it."""
    room = LeafRoom(ScratchFile(tmp_path, 0, pytest.fail), 0)
    before = len(list(Path("/proc/self/fd").iterdir()))
    room.put(b"leaf")
    assert room.on_disk == 1 and len(list(Path("/proc/self/fd").iterdir())) == before


def test_without_room_on_disk_all_stays_in_memory(tmp_path: Path) -> None:
    said = list[str]()
    room = LeafRoom(ScratchFile(tmp_path, 1 << 60, said.append), 1)
    keys = sorted(key_of(1, Random(number).randbytes(32)) for number in range(3 * LEAF_MAX))
    found = IdSet(keys, room)
    same(found, keys, keys[:3])
    assert room.on_disk == 0
    assert len(said) == 1 and "nothing can be written" in said[0]


@pytest.mark.parametrize("order", ["ascending", "descending", "shuffled"])
def test_many(order: str) -> None:
    random = Random(1)
    keys = sorted(key_of(minute, random.randbytes(32)) for minute in range(40) for _ in range(LEAF_MAX // 2))
    given = {"ascending": keys, "descending": keys[::-1], "shuffled": random.sample(keys, len(keys))}[order]
    found = IdSet(given)
    same(found, keys, random.sample(keys, 20))
    found.drop_before(key_of(20, bytes(32)))
    found.remove(keys[-300::2])
    same(found, sorted({*keys[len(keys) // 2 :]} - {*keys[-300::2]}), random.sample(keys, 20))
    found.remove(keys)
    same(found, [], keys[:3])
    assert found.add(keys[:2]) == 2


def test_key() -> None:
    assert key_of(3_626_000, bytes(32)) == bytes.fromhex("00375410") + bytes(32)
    assert minute_of(key_of(3_626_000, bytes(32))) == 3_626_000


def test_repr() -> None:
    assert repr(IdSet([key_of(1, bytes(32))])) == "<1 ids in 1 leaves>"
