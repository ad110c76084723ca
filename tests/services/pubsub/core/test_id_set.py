"""Ordered sets of ids with sums, compared with a sorted list under every order of changes."""

from __future__ import annotations

from bisect import bisect_left
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.pubsub.core.comparison.id_set import END, LEAF_MAX, MINUTE_BYTES, IdSet, key_of, minute_of

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


@given(CHANGES)
def test_as_a_sorted_list(changes: list[tuple[str, list[bytes]]]) -> None:
    found, model = IdSet(), set[bytes]()
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
