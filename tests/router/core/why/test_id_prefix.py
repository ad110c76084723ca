"""The beginning of a message id: every spelling, and texts that are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.core.why.id_prefix import IdPrefix, parse_prefix, spelling
from router.core.wire.text import BadText, key_text

ID = bytes(range(16, 48))


@given(st.binary(min_size=32, max_size=32), st.integers(4, 64))
def test_hex_digits(raw: bytes, digits: int) -> None:
    prefix = parse_prefix(raw.hex()[:digits].upper())
    assert (prefix.bits, prefix.fits(raw)) == (4 * digits, True)
    assert prefix.whole == raw[: digits // 2] and prefix.is_id is (digits == 64)


@given(st.binary(min_size=32, max_size=32), st.integers(8, 62))
def test_text_cut_off(raw: bytes, length: int) -> None:
    text = key_text("msg", raw)
    if 4 + 51 < length < len(text):
        return  # within the checksum: neither whole nor a beginning
    prefix = parse_prefix(text[:length])
    assert prefix.fits(raw) and prefix.fits(raw[:8])
    assert prefix.bits == (256 if length >= len(text) else 5 * (length - 4))


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32), st.integers(4, 64))
def test_it_fits_what_begins_so_and_nothing_else(one: bytes, two: bytes, digits: int) -> None:
    prefix = parse_prefix(one.hex()[:digits])
    assert prefix.fits(two) is (two.hex()[:digits] == one.hex()[:digits])
    assert prefix.fits(two[:8]) is (two.hex()[: min(digits, 16)] == one.hex()[: min(digits, 16)])


def test_what_a_shortened_form_ends_with_is_no_part_of_it() -> None:
    assert parse_prefix("1011…") == parse_prefix(" 1011 ") == IdPrefix(b"\x10\x11" + bytes(30), 16)


def test_it_is_repeated_as_it_was_typed() -> None:
    assert [spelling(one) for one in (" 3F9A… ", "MSG1QQPZ")] == ["3f9a", "msg1qqpz"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "too short"), ("abc", "too short"), ("msg1abc", "too short"), ("wxyz", "not the beginning"),
        ("ab" * 33, "not the beginning"), ("msg1bbbbbb", 'the character "b" never stands'), ("addr1qqqqqq", "not the"),
        (key_text("msg", ID)[:-1] + "q", "not a message id"),
    ],
)  # fmt: skip
def test_what_is_none(text: str, said: str) -> None:
    with pytest.raises(BadText, match=said):
        parse_prefix(text)
