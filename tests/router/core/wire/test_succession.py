"""Statements that another key takes a node's place, and chains of them in a hello: signed by both, strictly read."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from samples.core import ALICE, BOB, GROUP, RENEWAL, SUCCESSION, value_of

from router.core.wire.codec import Malformed, encode
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import UINT32_MAX
from router.core.wire.succession import (
    ANSWERS_S,
    CHAIN_MAX,
    SUCCESSION_BYTES_MAX,
    Former,
    KeySuccession,
    chain_of,
    decode_succession,
    encode_succession,
    formers,
    is_chain,
    leads,
    make_succession,
    read_formers,
)

SEEDS = st.binary(min_size=32, max_size=32)
KEYS = [SigningKey(bytes((n,)) * 32) for n in range(1, 9)]
CHAIN = [make_succession(old, new, 1_800_000_000, 1_800_000_001) for old, new in pairwise(KEYS)]
ITEMS = [
    SUCCESSION.old, SUCCESSION.new, SUCCESSION.from_s, SUCCESSION.until_s, SUCCESSION.old_signature,
    SUCCESSION.new_signature,
]  # fmt: skip


def as_read(was: tuple[Former, ...]) -> Any:
    """Return the values of a hello as a decoder gives them."""
    return value_of(encode([one.items() for one in was]))


@given(old=SEEDS, new=SEEDS, from_s=st.integers(0, UINT32_MAX - 1), answers_s=st.integers(1, ANSWERS_S))
def test_what_both_keys_sign_comes_back_as_it_was(old: bytes, new: bytes, from_s: int, answers_s: int) -> None:
    if old == new or from_s + answers_s > UINT32_MAX:
        return
    made = make_succession(SigningKey(old), SigningKey(new), from_s, from_s + answers_s)
    raw = encode_succession(made)
    assert decode_succession(raw) == made and made.verify() and len(raw) <= SUCCESSION_BYTES_MAX
    assert chain_of(formers([made]), made.new) == (made,)


@given(at=st.integers(0, len(encode_succession(SUCCESSION)) - 1), bit=st.integers(0, 7))
def test_no_bit_of_it_can_be_changed(at: int, bit: int) -> None:
    raw = bytearray(encode_succession(SUCCESSION))
    raw[at] ^= 1 << bit
    try:
        changed = decode_succession(bytes(raw))
    except Malformed:
        return
    assert not changed.verify()


def test_one_signature_is_not_enough_and_an_apps_renewal_is_none() -> None:
    for forged in (
        replace(SUCCESSION, new_signature=SUCCESSION.old_signature),
        replace(SUCCESSION, old_signature=SUCCESSION.new_signature),
        replace(SUCCESSION, old=GROUP.public),
        replace(SUCCESSION, new=GROUP.public),
        replace(SUCCESSION, old=SUCCESSION.new, new=SUCCESSION.old),
        replace(SUCCESSION, until_s=SUCCESSION.until_s - 1),
        KeySuccession(
            RENEWAL.old, RENEWAL.new, RENEWAL.from_s, RENEWAL.until_s, RENEWAL.old_signature, RENEWAL.new_signature
        ),
    ):
        assert not forged.verify()


@pytest.mark.parametrize(
    "value",
    [
        ITEMS[:5],
        [*ITEMS, 1],
        {},
        [ITEMS[0], ITEMS[0], *ITEMS[2:]],
        [bytes(32), *ITEMS[1:]],
        [ITEMS[0], bytes(32), *ITEMS[2:]],
        [*ITEMS[:2], -1, *ITEMS[3:]],
        [*ITEMS[:3], SUCCESSION.from_s, *ITEMS[4:]],
        [*ITEMS[:3], SUCCESSION.from_s + ANSWERS_S + 1, *ITEMS[4:]],
        [*ITEMS[:4], bytes(63), ITEMS[5]],
    ],
    ids=lambda value: repr(value)[:40],
)
def test_refused(value: Any) -> None:
    with pytest.raises(Malformed):
        decode_succession(encode(value))


def test_a_chain_is_read_from_a_hello_and_longer_ones_lose_their_oldest() -> None:
    was = formers(CHAIN)
    assert len(was) == CHAIN_MAX < len(CHAIN) and was[-1].old == CHAIN[-1].old
    assert read_formers(as_read(was)) == was
    assert chain_of(was, CHAIN[-1].new) == tuple(CHAIN[-CHAIN_MAX:])
    assert is_chain(CHAIN, CHAIN[-1].new) and is_chain([], b"") and not is_chain(CHAIN[:-1], CHAIN[-1].new)
    assert not is_chain([CHAIN[0], CHAIN[2]], CHAIN[2].new)


def test_it_leads_from_each_of_its_keys_to_the_proven_one_alone() -> None:
    was, key = formers(CHAIN[:3]), CHAIN[2].new
    assert [leads(was, one.public, key) for one in KEYS[:5]] == [True, True, True, False, False]
    assert not leads(was, KEYS[0].public, KEYS[6].public), "the last statement names another key"
    forged = (replace(was[0], new_signature=was[0].old_signature), *was[1:])
    assert not leads(forged, KEYS[0].public, key) and leads(forged, KEYS[1].public, key)
    assert not leads((), KEYS[0].public, key)


def test_a_circle_is_no_chain() -> None:
    back = make_succession(KEYS[1], KEYS[0], 1_800_000_000, 1_800_000_001)
    assert chain_of(formers([CHAIN[0], back]), KEYS[0].public) == ()
    with pytest.raises(Malformed, match="twice"):
        read_formers(as_read(formers([CHAIN[0], back, CHAIN[0]])))


@pytest.mark.parametrize("value", [[], {}, None, [[]], [[1, 2, 3, 4, 5]], [ITEMS], [[]] * 6])
def test_other_shapes_are_no_chain(value: Any) -> None:
    with pytest.raises(Malformed):
        read_formers(value)


def test_none_is_made_that_nobody_would_accept() -> None:
    with pytest.raises(Malformed, match="its own place"):
        make_succession(ALICE, ALICE, 1, 2)
    with pytest.raises(Malformed, match="would be answered for 0 s"):
        make_succession(ALICE, BOB, 1, 1)
    with pytest.raises(Malformed, match="the limit is"):
        decode_succession(encode_succession(SUCCESSION) + b"x" * 20)
    assert isinstance(formers([SUCCESSION])[0], Former) and repr(SUCCESSION).startswith("<succession of ")
