"""Requests for prekeys and answers: strictly read, and told apart from what apps say."""

from __future__ import annotations

from typing import Any

import pytest
from samples.core import BOB, DATED_PREKEY, PREKEY, PREKEY_ANSWERS

from router.core.wire.codec import Malformed, encode
from router.core.wire.prekey import Prekey, decode_prekey, encode_prekey, make_prekey, prekey_fields
from router.core.wire.prekey_exchange import (
    ANSWER_BYTES_MAX,
    ASK,
    decode_answer,
    encode_answer,
    is_exchange,
    is_request,
)

LAST_MIN = (1 << 32) - 1


def test_answers_are_read_back() -> None:
    assert [decode_answer(one) for one in PREKEY_ANSWERS] == [DATED_PREKEY, None]
    assert encode([20, {}]) == ASK
    longest = encode_answer(make_prekey(BOB, b"x" * 32, LAST_MIN))
    assert len(longest) <= ANSWER_BYTES_MAX and decode_answer(longest) is not None


def test_requests_and_answers_are_told_apart_from_what_apps_say() -> None:
    assert is_request(ASK) and all(map(is_exchange, (ASK, *PREKEY_ANSWERS)))
    for said in (b"", b"hello", ASK + b"\x00", encode([20, {"a": 1}]), encode([21, [1]]), encode([21, {"id": 1}])):
        assert not is_request(said) and not is_exchange(said)


@pytest.mark.parametrize(
    "value",
    (
        [21],
        [22, None],
        [21, 1],
        [21, prekey_fields(PREKEY)],
        [21, prekey_fields(DATED_PREKEY) | {"until": 1 << 32}],
        [21, prekey_fields(DATED_PREKEY) | {"pre": bytes(32)}],
        [21, prekey_fields(DATED_PREKEY) | {"id": bytes(32)}],
        [21, prekey_fields(DATED_PREKEY), 1],
        b"x" * 200,
    ),
    ids=repr,
)
def test_decode_answer_refuses(value: Any) -> None:
    with pytest.raises(Malformed):
        decode_answer(encode(value))


def test_the_end_of_a_prekey_is_signed_with_it() -> None:
    later = Prekey(BOB.public, DATED_PREKEY.x25519, DATED_PREKEY.signature, LAST_MIN)
    assert DATED_PREKEY.verify() and not later.verify()
    assert not Prekey(BOB.public, PREKEY.x25519, PREKEY.signature, LAST_MIN).verify()
    assert decode_prekey(encode_prekey(DATED_PREKEY)) == DATED_PREKEY and DATED_PREKEY.id == PREKEY.id
    with pytest.raises(ValueError, match="names its end"):
        encode_answer(PREKEY)
