"""Service messages in the body of a unicast: exact bytes, round trips, closed maps, strict types."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples.core import BOB, CONTROLS, GROUP, IDS, MULTICASTS, UNICASTS

from router.core.wire.codec import FRAME_BYTES_MAX, Malformed, TooLarge, encode, frame
from router.core.wire.control import (
    CONTROL_BYTES_MAX,
    Carried,
    Control,
    Join,
    JoinAck,
    Leave,
    Pull,
    Report,
    UnknownControl,
    decode_control,
    encode_control,
)
from router.core.wire.message import seal_multicast

KEY, ID = bytes(GROUP.public), bytes(IDS[0])
REPORT = {"id": ID, "dst": bytes(BOB.public), "state": "expired", "reason": 13, "at": 1}


@pytest.mark.parametrize("value", CONTROLS, ids=lambda value: type(value).__name__)
def test_round_trip(value: Control) -> None:
    assert decode_control(encode_control(value)) == value


def test_exact_bytes() -> None:
    key = "5820" + KEY.hex()
    assert encode_control(Join(GROUP.public, True)).hex() == "8201a2" + "6461646472" + key + "656c6f63616cf5"
    assert encode_control(JoinAck(GROUP.public, True)).hex() == "8202a2" + "6461646472" + key + "66726573756c7400"
    assert encode_control(JoinAck(GROUP.public, False)).hex().endswith("66726573756c7401")
    assert encode_control(Leave(GROUP.public)).hex() == "8203a1" + "6461646472" + key
    assert encode_control(Pull(GROUP.public, IDS[0])) == encode([5, {"id": ID, "addr": KEY}])
    assert encode_control(Carried(MULTICASTS[0])) == encode([0, MULTICASTS[0]])


def test_carried_messages_are_not_copied_into_cbor() -> None:
    wire = seal_multicast(GROUP, bytes(1 << 20), ttl_s=1, expiry_min=1)
    body = encode_control(Carried(wire))
    assert len(body) < FRAME_BYTES_MAX
    assert decode_control(body) == Carried(wire)


@pytest.mark.parametrize(
    "body",
    (
        [0, UNICASTS[0]],
        [0, encode([0, MULTICASTS[0]])],
        [0, b""],
        [0, MULTICASTS[0] + b"\x00"],
        [0, MULTICASTS[0], 1],
        [0, "text"],
        [0],
        [1, {"addr": KEY}],
        [1, {"addr": KEY, "local": 1}],
        [1, {"addr": KEY, "local": True, "x": 1}],
        [1, {"addr": KEY, "local": True}, 1],
        [1, {"addr": KEY[:31], "local": True}],
        [1, {"addr": bytes(32), "local": True}],
        [1, {"addr": "a" * 32, "local": True}],
        [1, [KEY, True]],
        [True, {"addr": KEY, "local": True}],
        [2, {"addr": KEY, "result": 2}],
        [2, {"addr": KEY, "result": False}],
        [3, {}],
        [3, {"addr": KEY, "local": True}],
        [4, {"addr": KEY, "result": -1}],
        [5, {"addr": KEY, "id": ID[:31]}],
        [5, {"addr": KEY}],
        [6, REPORT | {"state": "eaten"}],
        [6, REPORT | {"reason": 1 << 16}],
        [6, REPORT | {"at": -1}],
        [6, REPORT | {"why": 1}],
        [6, REPORT | {"dst": ID[1:]}],
        {"addr": KEY},
        [],
        0,
        "join",
    ),
    ids=repr,
)
def test_refused(body: Any) -> None:
    with pytest.raises(Malformed):
        decode_control(encode(body))


@pytest.mark.parametrize("kind", (7, 8, 24, 1 << 40))
def test_unknown_types_are_told_apart(kind: int) -> None:
    with pytest.raises(UnknownControl, match=f"control message type {kind} is unknown"):
        decode_control(encode([kind, {}]))


def test_limits() -> None:
    with pytest.raises(TooLarge, match=f"the limit is {CONTROL_BYTES_MAX}"):
        decode_control(encode([9, bytes(CONTROL_BYTES_MAX)]))
    longest = Report(IDS[0], BOB.public, "expired", (1 << 16) - 1, (1 << 64) - 1)
    assert len(encode_control(longest)) <= CONTROL_BYTES_MAX


def test_a_report_says_one_of_three_things() -> None:
    with pytest.raises(ValueError, match='expired, refused, dropped, not "lost"'):
        encode_control(Report(IDS[0], BOB.public, "lost", 1, 1))


@given(st.sampled_from(CONTROLS), st.data())
def test_what_is_accepted_is_written_the_same(value: Control, data: st.DataObject) -> None:
    body = bytearray(encode_control(value))
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] = data.draw(st.integers(0, 255))
    try:
        found = decode_control(bytes(body))
    except Malformed:
        return
    assert encode_control(found) == bytes(body)


def test_frames_of_another_length_carry_nothing() -> None:
    for wrong in (b"\x82\x00" + frame(MULTICASTS[0])[:-1], b"\x82\x00\x59\x00\x01x", b"\x82\x00"):
        with pytest.raises(Malformed):
            decode_control(wrong)
