"""Keys, signatures and ids: published vectors, and every way in which a key or signature may be unsound."""

from __future__ import annotations

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st
from nacl import bindings
from rigs.each_case import each_case
from samples.core import ALICE, BOB

from router.core.wire.crypto import InvalidKey, MessageId, PublicKey, Signature, SigningKey, digest, verify

FIELD = (1 << 255) - 19
ORDER = (1 << 252) + 27742317777372353535851937790883648493
TORSION = tuple(
    bytes.fromhex(point)
    for point in (
        "0100000000000000000000000000000000000000000000000000000000000000",  # order 1
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",  # order 2
        "0000000000000000000000000000000000000000000000000000000000000000",  # order 4
        "0000000000000000000000000000000000000000000000000000000000000080",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",  # order 8
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    )
)
SIGN = 1 << 255
NON_CANONICAL = (
    *((y | sign).to_bytes(32, "little") for y in range(FIELD, 1 << 255) for sign in (0, SIGN)),
    (1 | SIGN).to_bytes(32, "little"),
    (FIELD - 1 | SIGN).to_bytes(32, "little"),
)


def test_rfc_8032_vector() -> None:
    key = SigningKey(bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"))
    assert key.public.hex() == "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
    assert key.sign(b"\x72").hex() == (
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    )


def test_blake3_vectors() -> None:
    assert digest(b"").hex() == "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
    assert digest(b"\x00").hex() == "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213"


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=300))
def test_another_library_agrees(seed: bytes, text: bytes) -> None:
    ours, theirs = SigningKey(seed), Ed25519PrivateKey.from_private_bytes(seed)
    assert ours.sign(text) == theirs.sign(text)
    assert verify(ours.public, text, theirs.sign(text))
    Ed25519PublicKey.from_public_bytes(ours.public).verify(ours.sign(text), text)


@pytest.mark.parametrize("point", TORSION, ids=lambda point: point.hex()[:8])
def test_all_points_of_small_order_are_refused(point: bytes) -> None:
    with pytest.raises(InvalidKey):
        PublicKey.checked(point)


@pytest.mark.parametrize("point", TORSION, ids=lambda point: point.hex()[:8])
def test_no_forgery_under_a_key_of_small_order(point: bytes) -> None:
    # With S = 0 and R of small order, cofactored or careless verifiers accept one message in eight.
    for nonce_point in TORSION:
        for n in range(32):
            assert not verify(point, bytes((n,)), nonce_point + bytes(32))


def test_keys_of_mixed_order_are_refused() -> None:
    for torsion in TORSION[1:]:
        mixed = bindings.crypto_core_ed25519_add(ALICE.public, torsion)
        with pytest.raises(InvalidKey):
            PublicKey.checked(mixed)


@each_case({point.hex(): (point,) for point in NON_CANONICAL})
def test_non_canonical_keys_are_refused(point: bytes) -> None:
    with pytest.raises(InvalidKey):
        PublicKey.checked(point)
    assert not verify(point, b"x", TORSION[0] + bytes(32))


def test_points_off_the_curve_are_refused() -> None:
    with pytest.raises(InvalidKey, match="not a valid Ed25519 public key"):
        PublicKey.checked((2).to_bytes(32, "little"))


@pytest.mark.parametrize("size", (0, 31, 33, 64))
def test_lengths(size: int) -> None:
    with pytest.raises(InvalidKey, match=f"not {size}"):
        PublicKey.checked(bytes(size))
    with pytest.raises(InvalidKey):
        SigningKey(bytes(size))
    with pytest.raises(ValueError, match="message id"):
        MessageId(bytes(size))
    with pytest.raises(ValueError, match="signature"):
        Signature(bytes(size + 1))


def test_verify_takes_no_length_on_trust() -> None:
    signature = ALICE.sign(b"pay 1")
    # Without a check the last byte of the signature could be taken from the message.
    assert not verify(ALICE.public, signature[63:] + b"pay 1", signature[:63])
    assert not verify(ALICE.public, b"ay 1", signature + b"p")
    assert not verify(ALICE.public[:31], b"pay 1", signature)
    assert not verify(ALICE.public + b"\x00", b"pay 1", signature)
    assert verify(ALICE.public, b"pay 1", signature)


def test_verify_refuses_another_key_text_or_signature() -> None:
    signature = ALICE.sign(b"x")
    assert not verify(BOB.public, b"x", signature)
    assert not verify(ALICE.public, b"y", signature)
    for at in range(64):
        changed = signature[:at] + bytes((signature[at] ^ 1,)) + signature[at + 1 :]
        assert not verify(ALICE.public, b"x", changed)


def test_verify_refuses_a_non_canonical_s() -> None:
    signature = ALICE.sign(b"x")
    s = int.from_bytes(signature[32:], "little")
    for multiple in range(1, 15):
        grown = s + multiple * ORDER
        assert not verify(ALICE.public, b"x", signature[:32] + grown.to_bytes(32, "little"))


def test_verify_refuses_r_of_small_order() -> None:
    for point in TORSION:
        assert not verify(ALICE.public, b"x", point + bytes(32))


def test_secrets_stay_out_of_reprs() -> None:
    key = SigningKey(b"s" * 32)
    assert key.seed.hex() not in repr(key) and repr(key.seed) not in repr(key)
    assert repr(key) == f"SigningKey(of {key.public.hex()[:12]}…)"
    assert repr(key.public) == f"PublicKey({key.public.hex()[:12]}…)"
    assert repr(MessageId(b"\x01" * 32)) == "MessageId(010101010101…)"


def test_the_other_library_would_have_refused_too() -> None:
    with pytest.raises(InvalidSignature):
        Ed25519PublicKey.from_public_bytes(ALICE.public).verify(BOB.sign(b"x"), b"x")
