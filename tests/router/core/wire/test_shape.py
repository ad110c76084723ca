"""Strict checks of decoded values: types are compared exactly."""

from __future__ import annotations

from typing import Any

import pytest
from samples.core import ALICE

from router.core.wire import shape
from router.core.wire.codec import Malformed

ODD: tuple[Any, ...] = (None, True, False, -1, 1.0, "1", b"1", [], {}, (), 1 << 64)


def refuses(check: Any, value: Any, *more: Any) -> bool:
    with pytest.raises(Malformed, match="it"):
        check(value, "it", *more)
    return True


@pytest.mark.parametrize("value", ODD, ids=repr)
def test_each_check_takes_its_own_type_only(value: Any) -> None:
    assert refuses(shape.uint, value)
    assert type(value) is bool or refuses(shape.boolean, value)
    assert type(value) is str or refuses(shape.text, value, 10)
    assert refuses(shape.octets, value, 2)
    assert refuses(shape.word, value, ("yes", "no"))
    assert type(value) is list or refuses(shape.array, value, 0, 9)
    assert type(value) is dict or refuses(shape.fields, value, ())
    for check in (shape.message_id, shape.signature, shape.public_key, shape.checked_key):
        assert refuses(check, value)


def test_bounds() -> None:
    assert shape.uint(5, "it", 5) == 5 and refuses(shape.uint, 6, 5)
    assert (
        shape.array([1], "it", 1, 1) == [1] and refuses(shape.array, [], 1, 1) and refuses(shape.array, [1] * 2, 1, 1)
    )
    assert shape.octets(b"ab", "it", 1, 2) == b"ab" and refuses(shape.octets, b"abc", 1, 2)
    assert shape.octets(b"ab", "it", 2) == b"ab" and refuses(shape.octets, b"a", 2)
    assert shape.text("ab", "it", 2) == "ab" and refuses(shape.text, "aß", 2)
    assert shape.text("a\x07b", "it", 3) == "ab"


def test_maps_are_closed() -> None:
    assert shape.fields({"a": 1, "c": 3}, "it", ("a",), ("b", "c")) == {"a": 1, "c": 3}
    with pytest.raises(Malformed, match="it lacks a, b"):
        shape.fields({"c": 3}, "it", ("a", "b"), ("c",))
    with pytest.raises(Malformed, match="it has a key that is not known"):
        shape.fields({"a": 1, "d": 3}, "it", ("a",), ("b", "c"))
    assert shape.open_fields({"a": 1, "d": 3}, "it", ("a",)) == {"a": 1, "d": 3}


def test_keys_at_the_door_are_points() -> None:
    assert shape.checked_key(bytes(ALICE.public), "it") == ALICE.public
    assert shape.public_key(bytes(32), "it") == bytes(32)
    with pytest.raises(Malformed, match="it is not a valid Ed25519 public key"):
        shape.checked_key(bytes(32), "it")
