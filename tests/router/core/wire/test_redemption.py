"""Redeeming an invitation: exact bytes, round trips, closed maps, and no secret in any repr."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples.core import REDEMPTIONS

from router.core.wire.codec import Malformed, TooLarge, encode
from router.core.wire.control import UnknownControl, decode_control
from router.core.wire.invitation import RIGHTS
from router.core.wire.reasons import (
    INVITE_ENDED,
    INVITE_EXPIRED,
    INVITE_REVOKED,
    INVITE_UNKNOWN,
    INVITE_USED_UP,
    Reason,
    reason_from,
)
from router.core.wire.redemption import (
    REDEMPTION_BYTES_MAX,
    AskTerms,
    Redeem,
    Redeemed,
    Redemption,
    Terms,
    decode_redemption,
    encode_redemption,
    is_redemption,
)
from router.core.wire.text import clean

INV = b"i" * 16
REDEEM: dict[str, Any] = {"inv": INV, "name": "Bob"}
TERMS: dict[str, Any] = {"result": 0, "gr": 3, "exp": 3_100_000}
REDEEMED: dict[str, Any] = {"inv": INV, **TERMS}


@pytest.mark.parametrize("value", REDEMPTIONS, ids=repr)
def test_round_trip(value: Redemption) -> None:
    assert decode_redemption(encode_redemption(value)) == value


def test_exact_bytes() -> None:
    assert encode_redemption(Redeem(INV)) == bytes.fromhex("8209a163696e7650") + INV
    assert encode_redemption(Redeem(INV, "Bob")) == encode([9, REDEEM])
    assert encode_redemption(Redeemed(INV, None, ("join", "store"), 3_100_000)) == encode([10, REDEEMED])
    refused = REDEEMED | {"result": 195, "gr": 0, "exp": 0}
    assert encode_redemption(Redeemed(INV, INVITE_REVOKED)) == encode([10, refused])
    had = Redeemed(INV, None, ("join", "store"), 3_100_000, True)
    assert encode_redemption(had) == encode([10, REDEEMED | {"had": True}])
    assert encode_redemption(AskTerms()) == bytes.fromhex("820ca0")
    assert encode_redemption(Terms(None, ("join", "store"), 3_100_000)) == encode([13, TERMS])
    ended = {"result": 198, "gr": 0, "exp": 3_100_000}
    assert encode_redemption(Terms(INVITE_ENDED, (), 3_100_000)) == encode([13, ended])


SECRETS = st.binary(min_size=16, max_size=16)
RIGHT_SETS = st.sets(st.sampled_from(list(RIGHTS))).map(lambda found: tuple(one for one in RIGHTS if one in found))


@given(SECRETS, st.none() | st.integers(1, (1 << 16) - 1), RIGHT_SETS, st.integers(0, (1 << 32) - 1))
def test_whatever_is_answered_is_read_back(
    secret: bytes, reason: int | None, rights: tuple[str, ...], expiry_min: int
) -> None:
    value = Redeemed(secret, reason, rights, expiry_min)
    assert decode_redemption(encode_redemption(value)) == value


@given(SECRETS, st.text(max_size=100))
def test_names_are_cleaned_and_bounded(secret: bytes, name: str) -> None:
    body = encode_redemption(Redeem(secret, name))
    assert len(body) <= REDEMPTION_BYTES_MAX
    found = decode_redemption(body)
    assert isinstance(found, Redeem) and encode_redemption(found) == body
    assert found.name is None or (found.name == clean(found.name).strip() and found.name)


@pytest.mark.parametrize(
    ("body", "cause"),
    (
        ([9, {}], "REDEEM lacks inv"),
        ([9, REDEEM | {"x": 1}], "REDEEM has a key that is not known"),
        ([9, REDEEM | {"inv": b"i" * 17}], "inv has 17 bytes instead of 16"),
        ([9, REDEEM | {"name": "x" * 65}], "name is longer than 64 bytes"),
        ([9, REDEEM | {"name": b"Bob"}], "name is not a text"),
        ([9, [INV]], "REDEEM is not a map"),
        ([10, {"inv": INV, "result": 0, "gr": 1}], "REDEEMED lacks exp"),
        ([10, REDEEMED | {"result": 1 << 16}], "result is not an unsigned number up to 65535"),
        ([10, REDEEMED | {"gr": 16}], "gr is not an unsigned number up to 15"),
        ([10, REDEEMED | {"exp": 1 << 32}], "exp is not an unsigned number up to 4294967295"),
        ([10, REDEEMED | {"result": False}], "result is not an unsigned number"),
        ([10, REDEEMED | {"had": False}], "had is not true"),
        ([12, {"x": 1}], "ASK_TERMS has a key that is not known"),
        ([12, []], "ASK_TERMS is not a map"),
        ([13, {"result": 0, "gr": 1}], "TERMS lacks exp"),
        ([13, TERMS | {"inv": INV}], "TERMS has a key that is not known"),
        ([13, TERMS | {"gr": 16}], "gr is not an unsigned number up to 15"),
        ([11, REDEEM], "neither a redemption nor about its terms"),
        ([9, REDEEM, 1], "neither a redemption nor about its terms"),
        ({}, "neither a redemption nor about its terms"),
        ([9, {"inv": [[]] * 20}], "it holds more than"),
        ([9, {"inv": INV, "name": "x" * 200}], "a redemption of"),
    ),
    ids=repr,
)  # fmt: skip
def test_refused(body: Any, cause: str) -> None:
    with pytest.raises(Malformed) as caught:
        decode_redemption(encode(body))
    assert str(caught.value).startswith(cause) and INV.decode() not in str(caught.value)


def test_limits() -> None:
    with pytest.raises(TooLarge, match="a redemption of 129 bytes; the limit is 128"):
        decode_redemption(bytes(129))
    longest = Redeem(INV, "x" * 64), Redeemed(INV, (1 << 16) - 1, tuple(RIGHTS), (1 << 32) - 1, True)
    assert all(len(encode_redemption(one)) <= REDEMPTION_BYTES_MAX for one in longest)
    with pytest.raises(ValueError, match="inv has 15 bytes"):
        encode_redemption(Redeem(INV[:15]))


@pytest.mark.parametrize("value", REDEMPTIONS, ids=repr)
def test_cut_or_changed_anywhere_it_is_refused_or_another(value: Redemption) -> None:
    body = encode_redemption(value)
    for end in range(len(body)):
        with pytest.raises(Malformed):
            decode_redemption(body[:end])
    for at in range(len(body)):
        for bits in (0x01, 0x20, 0x80):
            changed = body[:at] + bytes((body[at] ^ bits,)) + body[at + 1 :]
            try:
                found = decode_redemption(changed)
            except Malformed:
                continue
            assert found != value


def test_no_secret_is_shown() -> None:
    for value in (one for one in REDEMPTIONS if isinstance(one, Redeem | Redeemed)):
        assert value.secret.hex() not in repr(value) and value.secret.decode() not in repr(value)


def test_a_router_that_does_not_redeem_says_so() -> None:
    for value in REDEMPTIONS:
        assert is_redemption(encode_redemption(value))
        with pytest.raises(UnknownControl):
            decode_control(encode_redemption(value))


@pytest.mark.parametrize(
    ("reason", "number", "word"),
    (
        (INVITE_UNKNOWN, 192, "invite:unknown"),
        (INVITE_EXPIRED, 193, "invite:expired"),
        (INVITE_USED_UP, 194, "invite:used-up"),
        (INVITE_REVOKED, 195, "invite:revoked"),
        (INVITE_ENDED, 198, "invite:ended"),
    ),
)
def test_the_reasons_of_a_refusal(reason: Reason, number: int, word: str) -> None:
    assert (int(reason), reason.word, reason.later) == (number, word, False)
    assert reason_from(number) is reason and reason.sentence.endswith(".")
