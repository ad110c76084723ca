"""Inquiries and answers: exactly two shapes are read, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from cddl_verifier import Validator  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from router.core.wire.admin import ASK_BYTES_MAX, Answer, Inquiry, decode_inquiry, encode_inquiry, is_inquiry
from router.core.wire.codec import Malformed, encode

CDDL = Validator(Path(__file__).parents[4] / "cddl" / "inquiry.cddl")


@given(st.builds(Inquiry, st.text(max_size=50), st.text(max_size=50)) | st.builds(Answer, st.binary(max_size=5000)))
def test_what_is_written_is_read(value: Inquiry | Answer) -> None:
    body = encode_inquiry(value)
    assert decode_inquiry(body) == value
    assert is_inquiry(body)


@given(st.builds(Inquiry, st.text(max_size=50), st.text(max_size=50)) | st.builds(Answer, st.binary(max_size=50)))
def test_it_is_what_the_cddl_says(value: Inquiry | Answer) -> None:
    result = CDDL.validate(encode_inquiry(value))
    assert result, result.format()


@pytest.mark.parametrize(
    "body",
    [
        b"", b"\x82", b"\x82\x07", encode([7, {"ask": "status"}]), encode([7, {"ask": "status", "arg": b"x"}]),
        encode([7, {"ask": 1, "arg": ""}]), encode([7, {"ask": "a", "arg": "", "more": 1}]), encode([7, "status"]),
        encode([7, {"ask": "a", "arg": ""}, 0]), encode([8, "text"]), encode([8, b"x", b"y"]), encode([9, b""]),
        encode([7, {"ask": "x" * ASK_BYTES_MAX, "arg": ""}]), encode([7, {"ask": "a", "arg": ""}]) + b"\0",
        encode([8, b"x" * ((1 << 20) + 1)]),
    ],
)  # fmt: skip
def test_anything_else_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        decode_inquiry(body)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_malformed(body: bytes) -> None:
    for start in (b"", b"\x82\x07", b"\x82\x08"):
        try:
            found = decode_inquiry(start + body)
        except Malformed:
            continue
        assert encode_inquiry(found) == start + body
