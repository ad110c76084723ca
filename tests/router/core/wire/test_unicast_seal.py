"""What is sealed to an address: opened by its owner as its sender's, and by nobody as anything else."""

from __future__ import annotations

from itertools import product

import pytest
from samples.core import ALICE, ALICES_PREKEY, BOB, DATED_PREKEY, EPHEMERAL, GROUP, NONCE, SEALED_BODIES, X25519_SEED

from router.core.wire.application import UNICAST, BadPrekey, BadSeal, unseal_unicast
from router.core.wire.codec import Malformed, encode
from router.core.wire.crypto import PublicKey
from router.core.wire.prekey import Prekey
from router.core.wire.unicast_seal import (
    BEGINS,
    WITH_PREKEY,
    SealedBody,
    open_body,
    opening_key,
    read_body,
    read_plain,
    sealing_key,
)

PLAIN, WITH_MINE = SEALED_BODIES
SMALL_ORDER = bytes(32), b"\x01" + bytes(31), bytes.fromhex("ec" + "ff" * 30 + "7f")


def secret_of(sealed: SealedBody) -> bytes:
    return opening_key(X25519_SEED, sealed.ephemeral)


def test_open_body_returns_what_was_sealed_and_the_senders_prekey() -> None:
    found = [open_body(one, secret_of(one), ALICE.public, BOB.public) for one in map(read_body, SEALED_BODIES)]
    assert [(one.seq, one.content) for one in found] == [(7, b"psst")] * 2 and "psst" not in repr(found)
    assert [(one.code, one.prekey) for one in found] == [(UNICAST, None), (WITH_PREKEY, ALICES_PREKEY)]
    assert all(one.startswith(BEGINS) and b"psst" not in one for one in SEALED_BODIES)


@pytest.mark.parametrize(
    ("source", "destination"), [*product((ALICE.public, GROUP.public), (BOB.public, GROUP.public))][1:]
)
def test_open_body_binds_both_addresses(source: PublicKey, destination: PublicKey) -> None:
    sealed = read_body(PLAIN)
    with pytest.raises(BadSeal, match="sealed for somebody else"):
        open_body(sealed, secret_of(sealed), source, destination)


def test_a_changed_byte_opens_nothing() -> None:
    sealed = read_body(PLAIN)
    for changed in (
        sealed._replace(nonce=b"m" * 24),
        sealed._replace(ciphertext=sealed.ciphertext[:-1] + bytes([sealed.ciphertext[-1] ^ 1])),
        sealed._replace(ephemeral=DATED_PREKEY.x25519),
    ):
        with pytest.raises(BadSeal):
            open_body(changed, secret_of(changed), ALICE.public, BOB.public)


def test_keys_of_small_order_seal_and_open_nothing() -> None:
    for point in SMALL_ORDER:
        with pytest.raises(BadPrekey, match="small order"):
            sealing_key(Prekey(BOB.public, point, DATED_PREKEY.signature, 1), EPHEMERAL)
        with pytest.raises(BadSeal, match="small order"):
            opening_key(X25519_SEED, point)


def test_a_body_of_another_form_is_malformed() -> None:
    rest = b"e" * 32, NONCE, b"c" * 16
    for value in ([3, b"x" * 8], [1, b"i" * 8, *rest], [3, b"i" * 7, *rest]):
        with pytest.raises(Malformed):
            read_body(encode(value))
    with pytest.raises(Malformed):
        unseal_unicast(PLAIN, BOB.public, {DATED_PREKEY.id: X25519_SEED})


def test_what_is_inside_is_strictly_read() -> None:
    bodies = [1, 2], [2, b""], [17, b""], [17, [b"", {}]], [1, b"", 3]
    for value in ([1], [-1, [1, b""]], *([1, body] for body in bodies)):
        with pytest.raises(Malformed):
            read_plain(encode(value))


def test_no_repr_shows_a_secret() -> None:
    key = sealing_key(DATED_PREKEY, EPHEMERAL)
    assert repr(key.secret) not in repr(key) and key.secret.hex() not in repr(key)
