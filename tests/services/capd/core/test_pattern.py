"""A ternary query: masks, short data, prefixes, and the prefix that a node of the reference can search for."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.core.wire.codec import Malformed
from services.capd.core.pattern import KEY_BYTES, Pattern


def plainly(value: bytes, mask: bytes, data: bytes) -> bool:
    """Compare the data bit by bit."""
    for at in range(8 * len(mask)):
        byte, bit = at // 8, 0x80 >> at % 8
        if mask[byte] & bit and (byte >= len(data) or (data[byte] ^ value[byte]) & bit):
            return False
    return True


@settings(max_examples=2 * settings().max_examples)
@given(
    st.integers(0, 16).flatmap(lambda n: st.tuples(*(st.binary(min_size=n, max_size=n),) * 2)), st.binary(max_size=20)
)
def test_pattern_compares_the_bits_under_its_mask(both: tuple[bytes, bytes], data: bytes) -> None:
    value, mask = both
    assert Pattern.of(value, mask).matches(data) is plainly(value, mask, data)
    kept = bytes(a & m for a, m in zip(data, mask, strict=False))
    assert len(data) < len(mask) or Pattern.of(kept.ljust(len(mask), b"\0"), mask).matches(data)


def test_pattern_never_matches_a_byte_beyond_the_end_under_a_mask() -> None:
    zeros = Pattern.of(b"ab\0", b"\xff\xff\xff")
    assert zeros.matches(b"ab\0") and not zeros.matches(b"ab") and zeros.bytes_needed == 3
    assert Pattern.of(b"ab\0", b"\xff\xff\0").matches(b"ab"), "where the mask is 0, nothing is needed"
    assert Pattern.prefix(b"").matches(b"") and Pattern.prefix(b"").bytes_needed == 0


def test_pattern_ignores_bits_outside_its_mask() -> None:
    assert Pattern.of(b"\xff", b"\x0f") == Pattern.of(b"\x0f\xff", b"\x0f\0")
    with pytest.raises(Malformed, match="bits outside its mask"):
        Pattern(b"\1" * KEY_BYTES, bytes(KEY_BYTES))


@pytest.mark.parametrize(
    ("value", "mask", "prefix"),
    (
        (b"abc", b"\xff\xff\xff", b"ab"),
        (b"abcdefgh", b"\xff" * 7 + b"\xf0", b"abcd"),
        (b"a" * 16, b"\xff" * 16, b"a" * 16),
        (b"a", b"\xff", b""),
        (b"ab", b"\x7f\xff", b""),
    ),
)
def test_wire_prefix_is_the_longest_that_the_reference_can_look_for(value: bytes, mask: bytes, prefix: bytes) -> None:
    assert Pattern.of(value, mask).wire_prefix() == prefix


@pytest.mark.parametrize(("value", "mask"), ((b"a", b""), (b"a" * 17, b"\xff" * 17), (b"", b"\xff")))
def test_pattern_rejects_value_and_mask_of_wrong_lengths(value: bytes, mask: bytes) -> None:
    with pytest.raises(Malformed, match=f"the value has {len(value)} bytes and the mask {len(mask)}"):
        Pattern.of(value, mask)
