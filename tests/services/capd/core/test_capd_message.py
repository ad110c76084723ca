"""A CAPD message against the vectors of the reference: bytes, ids, work, priorities; and any bytes at all."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.core.wire.codec import Malformed
from services.capd.core import message as m
from services.capd.core.compact_bits import bits_of, target_of
from services.capd.core.message import CapdMessage, read_message
from services.capd.core.priority import aged, bits_for, initial_priority, last_second, target_of_priority
from services.capd.core.ripemd160 import ripemd160

VECTORS = Path(__file__).parents[3] / "vectors" / "capd"
MESSAGES, COMPACT, PRIORITY, EDGES = (
    json.loads((VECTORS / f"{name}.json").read_text()) for name in ("messages", "compact", "priority", "encoding_edge")
)
CASES: dict[str, dict[str, Any]] = {case["name"]: case for case in MESSAGES["cases"]}
BORN = 1_700_000_000


def data_of(case: dict[str, Any]) -> bytes:
    if case["data"] is not None:
        return bytes.fromhex(case["data"])
    pattern: dict[str, int] = case["data_pattern"]
    return bytes((pattern["repeat_byte"],)) * pattern["length"]


def same(found: float, expected: float | str) -> bool:
    return repr(found) == (expected if isinstance(expected, str) else repr(float(expected)))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_message_equals_that_of_the_reference(case: dict[str, Any]) -> None:
    own = CapdMessage(
        data_of(case), case["create_time"], int(case["difficulty_bits"], 16), bytes.fromhex(case["nonce"]),
        case["expiration"], bytes.fromhex(case["rescind_hash"]),
    )  # fmt: skip
    wire = own.encoded()
    assert (len(wire), hashlib.sha256(wire).hexdigest()) == (case["wire_length"], case["wire_sha256"])
    assert case["wire"] is None or wire.hex() == case["wire"]
    assert read_message(wire) == own
    assert own.stage1().hex() == case["stage1"]
    assert (own.own_id().hex(), m.shown_id(own.own_id())) == (case["id_raw"], case["id_display"])
    assert (own.has_work(), f"{own.target:064x}") == (case["pow_ok"], case["target_display"])
    assert m.reply_prefix(own.own_id()).hex() == case["reply_prefix_raw16"]
    assert same(own.priority(own.create_time), case["initial_priority"])
    for age, priority in case["priority_at_age"].items():
        assert same(own.priority(own.create_time + int(age)), priority), age
    assert own.counted_bytes == 128 + case["content_length"]


@pytest.mark.parametrize("case", EDGES["cases"], ids=lambda case: case["name"])
def test_read_message_reads_other_encodings_as_the_same_message_or_rejects_them(case: dict[str, Any]) -> None:
    wire = bytes.fromhex(case["wire"])
    if not case["decodes"]:
        with pytest.raises(Malformed, match=case["error"].replace("end of data", "the data ends").split()[-1]):
            read_message(wire)
        return
    found = read_message(wire)
    assert found.own_id().hex() == CASES[case["same_id_as"]]["id_raw"]
    assert (found.encoded() == wire) is case["reserialized_equal"]


def test_compact_bits_equal_those_of_the_reference() -> None:
    for one in COMPACT["encode"]:
        assert f"{bits_of(int(one['target'], 16)):08x}" == one["bits"]
        assert f"{target_of(int(one['bits'], 16)):064x}" == one["back"]
    for one in COMPACT["decode"]:
        assert f"{target_of(int(one['bits'], 16)):064x}" == one["target"]


def test_priorities_equal_those_of_the_reference_to_the_last_bit() -> None:
    for bits, length, age, priority in PRIORITY["rows"] + PRIORITY["future"]["rows"]:
        assert same(aged(initial_priority(int(bits, 16), length), BORN, BORN + age), priority), (bits, length, age)
    for priority, length, target, bits, of_bits in PRIORITY["inverse"]["rows"]:
        found = target_of_priority(priority, length)
        assert (f"{found:064x}", f"{bits_of(found):08x}") == (target, bits)
        assert same(initial_priority(int(bits, 16), length), of_bits)


def test_priorities_of_two_messages_cross() -> None:
    """The table is drawn by a formula that rounds elsewhere, so the last bit is not compared."""
    crossing = PRIORITY["crossing"]
    a, b = crossing["a"], crossing["b"]
    for at, of_a, of_b in crossing["table"]:
        assert aged(a["initial"], a["create"], at) == pytest.approx(of_a)
        assert of_b is None or aged(b["initial"], b["create"], at) == pytest.approx(of_b)
    assert aged(10.0, 0, 500) < aged(2.0, 500, 500) and aged(10.0, 0, 0) > 2.0


@settings(max_examples=2 * settings().max_examples)
@given(st.floats(1.0, 1e12), st.integers(0, 100_000), st.integers(0, 255))
def test_bits_for_a_priority_are_as_easy_as_they_may_be(priority: float, length: int, harder_by: int) -> None:
    """Expect at least the priority asked for, and little more than 1 % above it."""
    assert priority <= initial_priority(bits_for(priority, length, harder_by), length) < priority * 1.012


@settings(max_examples=2 * settings().max_examples)
@given(st.floats(2.0, 1e9), st.floats(1.0, 10.0))
def test_last_second_is_the_last_above_the_line(initial: float, line: float) -> None:
    last = last_second(initial, BORN, line)
    if initial < line:
        assert last < BORN
    else:
        assert aged(initial, BORN, last) >= line > aged(initial, BORN, last + 1) and BORN <= last <= BORN + 600


def test_expiration_and_fading_are_by_the_second() -> None:
    own = CapdMessage(b"", BORN, 0x1F3FFFFF, expiration=30)
    assert [own.has_expired(BORN + at) for at in (-1, 29, 30)] == [False, False, True]
    never = CapdMessage(b"", BORN, 0x1F3FFFFF)
    assert (never.expires_at, never.has_expired(1 << 60), own.expires_at) == (None, False, BORN + 30)
    assert never.priority(never.fades_at) == 0.0 < never.priority(never.fades_at - 1)


@pytest.mark.parametrize(
    ("data", "digest"),
    (
        (b"", "9c1185a5c5e9fc54612808977ee8f548b2258d31"),
        (b"abc", "8eb208f7e05d987a9b044a8e98c6b087f15a0bfc"),
        (b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", "12a053384a9c0c88e405a06c27dcf49ada62eb2b"),
        (b"1234567890" * 8, "9b752e45573d4b39f4dbd3323cab82bf63326bfb"),
        (b"a" * 10_000, "eb33e86b2400cc0a11707be717a35a9acf074a58"),
    ),
)
def test_ripemd160_equals_that_of_its_paper(data: bytes, digest: str) -> None:
    assert ripemd160(data).hex() == digest


def test_rescind_hash_of_rejects_a_long_secret() -> None:
    assert m.rescind_hash_of(b"\0" * 32) == ripemd160(hashlib.sha256(bytes(32)).digest())
    with pytest.raises(Malformed, match="521 bytes; the limit is 520"):
        m.rescind_hash_of(bytes(521))


@settings(max_examples=2 * settings().max_examples)
@given(st.binary(max_size=80))
def test_read_message_reads_any_bytes_or_raises_malformed(data: bytes) -> None:
    try:
        found = read_message(data)
    except Malformed as error:
        assert str(error)
    else:
        assert read_message(found.encoded()) == found and found.own_id() == read_message(data).own_id()


MESSAGE = st.builds(
    CapdMessage,
    st.binary(max_size=300),
    st.integers(0, (1 << 64) - 1),
    st.integers(0, (1 << 32) - 1),
    st.binary(max_size=9),
    st.integers(0, 0xFFFF),
    st.binary(min_size=20, max_size=20),
)


@settings(max_examples=2 * settings().max_examples)
@given(MESSAGE)
def test_encoded_message_is_read_back_and_rejected_if_cut(own: CapdMessage) -> None:
    wire = own.encoded()
    assert read_message(wire) == own == read_message(wire + b"more")
    for end in {0, 1, 8, 12, len(wire) // 2, len(wire) - 1}:
        with pytest.raises(Malformed):
            read_message(wire[:end])
