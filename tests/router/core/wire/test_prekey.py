"""Prekeys: signed by their owner, strictly read."""

from __future__ import annotations

from typing import Any

import pytest
from nacl.public import PrivateKey
from samples.core import ALICE, BOB, PREKEY, X25519_SEED

from router.core.wire.codec import Malformed, encode
from router.core.wire.prekey import Prekey, decode_prekey, encode_prekey, make_prekey

FIELDS = {"id": bytes(BOB.public), "pre": PREKEY.x25519, "sig": bytes(PREKEY.signature)}


def test_round_trip_and_exact_bytes() -> None:
    assert encode_prekey(PREKEY) == encode(FIELDS)
    assert decode_prekey(encode_prekey(PREKEY)) == PREKEY
    assert PREKEY.verify()


def test_the_public_half_is_that_of_the_seed() -> None:
    assert PREKEY.x25519 == bytes(PrivateKey(X25519_SEED).public_key)
    with pytest.raises(ValueError, match="an X25519 seed has 32 bytes, not 5"):
        make_prekey(BOB, b"short")


def test_a_prekey_belongs_to_its_owner() -> None:
    assert not Prekey(ALICE.public, PREKEY.x25519, PREKEY.signature).verify()
    assert not Prekey(BOB.public, bytes(32), PREKEY.signature).verify()
    assert not Prekey(BOB.public, PREKEY.x25519, BOB.sign(PREKEY.x25519)).verify()  # without the label


def test_ids_name_the_key_alone() -> None:
    assert len(PREKEY.id) == 8
    assert PREKEY.id == make_prekey(ALICE, X25519_SEED).id
    assert PREKEY.id != make_prekey(BOB, b"y" * 32).id


@pytest.mark.parametrize(
    "value",
    (
        FIELDS | {"id": bytes(32)},
        FIELDS | {"pre": bytes(31)},
        FIELDS | {"sig": bytes(63)},
        FIELDS | {"exp": 1},
        {"id": FIELDS["id"], "pre": FIELDS["pre"]},
        [],
        1,
    ),
    ids=repr,
)
def test_refused(value: Any) -> None:
    with pytest.raises(Malformed):
        decode_prekey(encode(value))
