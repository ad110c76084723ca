"""Statements that another key takes an app's place: signed by both, strictly read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from samples.core import ALICE, BOB, GROUP, RENEWAL

from router.core.wire.codec import Malformed, encode
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import UINT32_MAX
from router.core.wire.renewal import (
    READ_S,
    RENEWAL_BYTES_MAX,
    Renewal,
    decode_renewal,
    decode_renewal_notice,
    encode_renewal,
    encode_renewal_notice,
    is_renewal_notice,
    make_renewal,
)

SEEDS = st.binary(min_size=32, max_size=32)
ITEMS = [RENEWAL.old, RENEWAL.new, RENEWAL.from_s, RENEWAL.until_s, RENEWAL.old_signature, RENEWAL.new_signature]


@given(old=SEEDS, new=SEEDS, from_s=st.integers(0, UINT32_MAX - 1), read_s=st.integers(1, READ_S))
def test_what_both_keys_sign_comes_back_as_it_was(old: bytes, new: bytes, from_s: int, read_s: int) -> None:
    if old == new or from_s + read_s > UINT32_MAX:
        return
    made = make_renewal(SigningKey(old), SigningKey(new), from_s, from_s + read_s)
    raw, notice = encode_renewal(made), encode_renewal_notice(made)
    assert decode_renewal(raw) == decode_renewal_notice(notice) == made and made.verify()
    assert is_renewal_notice(notice) and not is_renewal_notice(raw) and len(raw) <= RENEWAL_BYTES_MAX


@given(at=st.integers(0, len(encode_renewal(RENEWAL)) - 1), bit=st.integers(0, 7))
def test_no_bit_of_it_can_be_changed(at: int, bit: int) -> None:
    raw = bytearray(encode_renewal(RENEWAL))
    raw[at] ^= 1 << bit
    try:
        changed = decode_renewal(bytes(raw))
    except Malformed:
        return
    assert not changed.verify()


def test_one_signature_is_not_enough_nor_are_both_of_one_key() -> None:
    """Who has stolen the old key cannot name another's; who has only the new one can name no old one."""
    for forged in (
        replace(RENEWAL, new_signature=RENEWAL.old_signature),
        replace(RENEWAL, old_signature=RENEWAL.new_signature),
        replace(RENEWAL, old=GROUP.public),
        replace(RENEWAL, new=GROUP.public),
        replace(RENEWAL, old=RENEWAL.new, new=RENEWAL.old),
        replace(RENEWAL, until_s=RENEWAL.until_s - 1),
        replace(RENEWAL, from_s=RENEWAL.from_s + 1),
    ):
        assert not forged.verify()
    bare = encode([ALICE.public, BOB.public, RENEWAL.from_s, RENEWAL.until_s])
    assert not replace(RENEWAL, old_signature=ALICE.sign(bare)).verify(), "without the label"


@pytest.mark.parametrize(
    "value",
    (
        ITEMS[:5],
        [*ITEMS, 1],
        {},
        [ITEMS[0], ITEMS[0], *ITEMS[2:]],
        [bytes(32), *ITEMS[1:]],
        [ITEMS[0], bytes(32), *ITEMS[2:]],
        [*ITEMS[:2], -1, *ITEMS[3:]],
        [*ITEMS[:2], 1 << 32, (1 << 32) + 1, *ITEMS[4:]],
        [*ITEMS[:3], RENEWAL.from_s, *ITEMS[4:]],
        [*ITEMS[:3], RENEWAL.from_s - 1, *ITEMS[4:]],
        [*ITEMS[:3], RENEWAL.from_s + READ_S + 1, *ITEMS[4:]],
        [*ITEMS[:4], bytes(63), ITEMS[5]],
    ),
    ids=lambda value: repr(value)[:40],
)
def test_refused(value: Any) -> None:
    for read, data in ((decode_renewal, encode(value)), (decode_renewal_notice, encode([22, value]))):
        with pytest.raises(Malformed):
            read(data)


def test_neither_more_bytes_nor_another_code_are_news_of_a_renewal() -> None:
    with pytest.raises(Malformed, match="the limit is"):
        decode_renewal(encode_renewal(RENEWAL) + b"x" * 20)
    with pytest.raises(Malformed, match="not the news"):
        decode_renewal_notice(encode([21, ITEMS]))


def test_none_is_made_that_nobody_would_accept() -> None:
    with pytest.raises(Malformed, match="its own place"):
        make_renewal(ALICE, ALICE, 1, 2)
    with pytest.raises(Malformed, match="would be read for 0 s"):
        make_renewal(ALICE, BOB, 1, 1)
    assert "…" not in repr(RENEWAL) and isinstance(RENEWAL, Renewal)
