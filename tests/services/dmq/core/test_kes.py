"""Sum6 KES: stored keys and signatures, those of real block headers, and that nothing else is a signature."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import pytest
from samples.dmq import POOLS, VECTORS, certificate_of, raw

from services.dmq.core.messages.kes import (
    PERIODS,
    SECRET_BYTES,
    SIGNATURE_KES_BYTES,
    KesKeyUsedUp,
    KesSigningKey,
    leaf_of,
    path_of,
    verify_kes,
)

KEY = KesSigningKey.from_seed(raw(VECTORS["kes_key"]["seed"]))
STORED = VECTORS["kes_key"]["blake2b_256"]
SIGNATURES = VECTORS["kes_signatures"]


def digest(data: bytes) -> str:
    return blake2b(data, digest_size=32).hexdigest()


def test_the_stored_keys_are_made_again() -> None:
    assert KEY.public.hex() == VECTORS["kes_key"]["public"]
    assert digest(KEY.secret) == STORED["key6"]
    assert digest(KEY.evolved().secret) == STORED["key6update1"]
    assert digest(KEY.evolved_to(5).secret) == STORED["key6update5"]


def test_the_stored_signatures_are_made_again() -> None:
    at_0, at_5, _ = SIGNATURES
    assert KEY.sign(raw(at_0["message"])).hex() == at_0["signature"]
    assert KEY.evolved_to(5).sign(raw(at_5["message"])).hex() == at_5["signature"]
    assert digest(raw(at_0["signature"])) == STORED["key6Sig"]
    assert digest(raw(at_5["signature"])) == STORED["key6Sig5"]


@pytest.mark.parametrize("vector", SIGNATURES, ids=lambda one: one["source"][:20])
def test_a_signature_is_of_one_period_only(vector: dict[str, Any]) -> None:
    key, message, signature = raw(vector["key"]), raw(vector["message"]), raw(vector["signature"])
    right = [period for period in range(-1, PERIODS + 1) if verify_kes(key, period, message, signature)]
    assert right == [vector["period"]]
    assert not verify_kes(key, right[0], message + b"!", signature)


@pytest.mark.parametrize("vector", VECTORS["headers"], ids=lambda one: f"slot {one['slot']}")
def test_block_headers_of_mainnet(vector: dict[str, str]) -> None:
    key, evolution = certificate_of(vector).kes_key, int(vector["evolution"])
    signed, signature = raw(vector["signed"]), raw(vector["signature"])
    assert verify_kes(key, evolution, signed, signature)
    assert not verify_kes(key, evolution + 1, signed, signature)


def test_every_period_signs_and_forgets() -> None:
    """A signature of each period verifies in it, and the seed of a half in use is gone."""
    key = KEY
    for period in range(PERIODS):
        assert (key.period, key.public, len(key.secret)) == (period, KEY.public, SECRET_BYTES)
        signature = key.sign(b"m")
        assert len(signature) == SIGNATURE_KES_BYTES
        assert verify_kes(KEY.public, period, b"m", signature)
        if period < PERIODS - 1:
            key = key.evolved()
            assert leaf_of(path_of(KEY.public, period + 1, signature)) != leaf_of(
                path_of(KEY.public, period, signature)
            )
    assert all(key.secret[at : at + 32] == bytes(32) for at in range(32, SECRET_BYTES, 96)), "all right seeds are used"
    with pytest.raises(KesKeyUsedUp, match="64 periods, and this one is in its last"):
        key.evolved()


def test_a_key_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="is in period 5: what signed in period 4 is gone"):
        KEY.evolved_to(5).evolved_to(4)


def test_any_changed_byte_breaks_a_signature() -> None:
    signature = POOLS[0].kes.sign(b"message")
    for at in range(0, len(signature), 7):
        changed = signature[:at] + bytes((signature[at] ^ 1,)) + signature[at + 1 :]
        assert not verify_kes(POOLS[0].kes.public, 0, b"message", changed), at
    for wrong in (signature[:-1], signature + b"\0", b"", signature[:64]):
        assert not verify_kes(POOLS[0].kes.public, 0, b"message", wrong)


@pytest.mark.parametrize(("size", "period"), ((SECRET_BYTES - 1, 0), (SECRET_BYTES + 4, 0), (SECRET_BYTES, 64)))
def test_what_is_no_key_is_refused(size: int, period: int) -> None:
    with pytest.raises(ValueError, match="608 bytes and a period up to 63"):
        KesSigningKey(bytes(size), period)


def test_the_secret_does_not_show() -> None:
    assert repr(KEY) == f"KesSigningKey(of {KEY.public.hex()[:12]}…, period 0)"
