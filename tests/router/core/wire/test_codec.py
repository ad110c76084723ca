"""Deterministic CBOR: only bytes that the encoder would write are accepted; frames are split alike in any chunking."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import pytest
from cddl_verifier import CBORDecodeError  # type: ignore[import-untyped]
from cddl_verifier.cbor import decode as strict_decode  # type: ignore[import-untyped]
from hypothesis import example, given
from hypothesis import strategies as st
from samples.core import value_of

from router.core.wire.codec import (
    DEPTH_MAX,
    FRAME_BYTES_MAX,
    Malformed,
    TooLarge,
    encode,
    frame,
    head,
    split_frames,
    unframe,
)

UINT_MAX = (1 << 64) - 1
ATOMS = st.none() | st.booleans() | st.integers(-(1 << 64), UINT_MAX) | st.binary(max_size=300) | st.text(max_size=30)
KEYS = (st.text(max_size=30), st.binary(max_size=40), st.integers(0, UINT_MAX))
VALUES = st.recursive(
    ATOMS,
    lambda inner: st.lists(inner, max_size=5) | st.one_of(*(st.dictionaries(keys, inner, max_size=5) for keys in KEYS)),
    max_leaves=12,
)


@given(VALUES)
def test_round_trip(value: Any) -> None:
    assert value_of(encode(value)) == value


@given(VALUES)
def test_an_independent_library_calls_it_deterministic(value: Any) -> None:
    strict_decode(encode(value), require_deterministic=True)


@given(st.binary(max_size=40))
@example(bytes.fromhex("a26000181800"))
def test_any_bytes_give_a_value_or_malformed(data: bytes) -> None:
    try:
        value = value_of(data)
    except Malformed:
        return
    assert encode(value) == data
    try:
        strict_decode(data, require_deterministic=True)
    except CBORDecodeError as error:
        pytest.fail(f"{data.hex()} is not deterministic: {error}")


@pytest.mark.parametrize(
    "data",
    (
        "",  # nothing
        "0000",  # two items
        "1817",  # 23 in two bytes
        "190017",
        "1a000000ff",
        "1b00000000ffffffff",
        "580161",  # a byte string whose length could be shorter
        "7801 61",
        "9800",
        "b800",
        "5f4161ff",  # indefinite lengths
        "7f6161ff",
        "9fff",
        "bfff",
        "ff",
        "a2616100616101",  # a key twice
        "a2616200616100",  # keys out of order
        "a26161006000",
        "a26000181800",  # sorted by length, as RFC 7049 did
        "a21818006000",  # sorted by bytes, but of unlike keys
        "a100f5"[:4],  # cut off
        "a1f500",  # keys that are no text, bytes or unsigned number
        "a12000",
        "a1f600",
        "a18000",
        "62c328",  # not UTF-8
        "63eda080",  # a surrogate
        "f7",  # undefined
        "e0",  # simple values
        "f820",
        "f93e00",  # floats
        "fa47c35000",
        "fb3ff199999999999a",
        "f97e00",
        "1c",  # reserved
        "9b7fffffffffffffff",  # lengths far beyond the data
        "bb7fffffffffffffff",
        "5b7fffffffffffffff",
        "7a7fffffff",
        "00ff",
    ),
)
def test_refused(data: str) -> None:
    with pytest.raises(Malformed):
        value_of(bytes.fromhex(data))


TAGS = (
    *range(7), 21, 24, 25, 28, 29, 30, 35, 36, 37, 52, 54, 64, 100, 256, 258, 260, 261, 1004, 43000, 55799, UINT_MAX,
)  # fmt: skip


def refusal(data: bytes) -> str:
    """Return why the data are refused, or "" if they are taken."""
    try:
        value_of(data)
    except Malformed as error:
        return str(error)
    return ""


def test_tags_are_refused_before_they_are_built() -> None:
    for tag, content in product(TAGS, ("00", "4101", "6130", "80", "820001", "a0")):
        said = refusal(head(tag, 6) + bytes.fromhex(content))
        assert "tags are not part of this protocol" in said, (tag, content)


def test_depth_is_limited() -> None:
    assert value_of(b"\x81" * DEPTH_MAX + b"\x00")
    with pytest.raises(Malformed, match="depth"):
        value_of(b"\x81" * (DEPTH_MAX + 1) + b"\x00")
    with pytest.raises(Malformed):
        value_of(b"\x81" * 100_000)


@given(st.integers(0, UINT_MAX), st.sampled_from((0, 2, 3, 4, 5)))
@example(23, 2)
@example(24, 2)
@example(255, 2)
@example(256, 2)
@example(65_535, 2)
@example(65_536, 2)
@example((1 << 32) - 1, 2)
@example(1 << 32, 2)
def test_head_is_the_shortest(value: int, major: int) -> None:
    assert head(value, 0) == encode(value)
    assert head(value, major)[0] >> 5 == major
    assert head(value, major)[1:] == head(value, 0)[1:]


@pytest.mark.parametrize("size", (0, 1, 23, 24, 255, 256, 65_535, 65_536))
def test_frame_and_unframe(size: int) -> None:
    item = b"x" * size
    assert frame(item) == encode(item)
    assert unframe(frame(item)) == item
    assert unframe(b"ab" + frame(item), 2) == item
    for broken in (frame(item) + b"x", frame(item)[:-1], b"\x59\x00" + frame(item)[1:]):
        with pytest.raises(Malformed):
            unframe(broken)


ITEMS = st.lists(st.binary(max_size=40) | st.integers(250, 300).map(bytes), max_size=8)


@given(ITEMS, st.data())
def test_frames_in_any_chunking(items: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(map(frame, items))
    spans, rest = split_frames(stream)
    assert [stream[start:end] for _, start, end in spans] == items
    assert rest == len(stream)
    assert [frame_at for frame_at, _, _ in spans] + [rest] == [0, *(end for _, _, end in spans)][: len(spans) + 1]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    assert _in_chunks(stream, [0, *cuts, len(stream)]) == items
    assert _in_chunks(stream, range(len(stream) + 1)) == items


def _in_chunks(stream: bytes, cuts: Any) -> list[bytes]:
    found: list[bytes] = []
    held = b""
    for start, end in pairwise(cuts):
        held += stream[start:end]
        spans, rest = split_frames(held)
        found += [held[start:end] for _, start, end in spans]
        held = held[rest:]
    assert held == b""
    return found


@given(st.binary(max_size=60))
def test_any_stream_fails_the_same_in_any_chunking(stream: bytes) -> None:
    """Frames before the bad one are returned first."""
    spans: list[tuple[int, int, int]] = []
    rest, is_bad = 0, False
    try:
        spans, rest = split_frames(stream, 50)
        split_frames(stream[rest:], 50)
    except Malformed:
        is_bad = True
    whole = [stream[start:end] for _, start, end in spans]
    found: list[bytes] = []
    held = b""
    try:
        for one in stream:
            held += bytes((one,))
            spans, at = split_frames(held, 50)
            found += [held[start:end] for _, start, end in spans]
            held = held[at:]
    except Malformed:
        assert is_bad and whole == found
        return
    assert not is_bad and whole == found and held == stream[rest:]


@given(st.integers(0, 1 << 33))
def test_the_limit_is_judged_by_the_head(length: int) -> None:
    announced = head(length)
    if length > FRAME_BYTES_MAX:
        with pytest.raises(Malformed):
            split_frames(announced)
    else:
        assert split_frames(announced) == (([(0, 1, 1)], 1) if length == 0 else ([], 0))


@pytest.mark.parametrize("data", ("00", "60", "80", "5817", "5900ff", "5a0000ffff", "5b0000000100000000", "5f", "5c"))
def test_bytes_that_begin_no_frame(data: str) -> None:
    with pytest.raises(Malformed):
        split_frames(bytes.fromhex(data))


def test_too_large_names_the_limit() -> None:
    with pytest.raises(TooLarge, match="frame of 101 bytes; the limit is 100"):
        split_frames(head(101), 100)
    assert split_frames(frame(bytes(100)), 100)[0]


def test_split_from_the_middle() -> None:
    stream = frame(b"a") + frame(b"bc")
    assert split_frames(stream, at=2) == ([(2, 3, 5)], 5)
