"""Prekeys: X25519 public keys to seal unicasts to, signed by the Ed25519 key of their owner (R-B1).

One that apps ask each other for names its end, which is signed with it: sealing to it later is of no use, because its
owner has forgotten the secret. One without an end travels by any way, and serves as long as its owner keeps it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from msgspec import Struct
from nacl import bindings
from nacl.exceptions import CryptoError

from . import shape
from .codec import Malformed, decode, encode
from .crypto import KEY_BYTES, PublicKey, Signature, SigningKey, digest, verify
from .lifetime import UINT32_MAX

KEY_ID_BYTES = 8
PREKEY_ITEMS_MAX = 9

_LABEL = b"upsycle prekey 1"
_DATED_LABEL = b"upsycle prekey 2"
_ANY_SCALAR = bytes(KEY_BYTES)  # X25519 clamps it; a point of small order times it is zero, which libsodium refuses


class Prekey(Struct, frozen=True):
    """An X25519 public key with its owner's signature over it, never derived from an Ed25519 key. `until_min`: the
    minute of its end, as in `exp`; None if it names none."""

    owner: PublicKey
    x25519: bytes
    signature: Signature
    until_min: int | None = None

    @property
    def id(self) -> bytes:
        """Return the 8 bytes by which a sealed body names this prekey, which its end does not change."""
        return digest(_LABEL + self.x25519)[:KEY_ID_BYTES]

    def verify(self) -> bool:
        return verify(self.owner, _signed(self.x25519, self.until_min), self.signature)


def make_prekey(owner: SigningKey, x25519_seed: bytes, until_min: int | None = None) -> Prekey:
    """Return a prekey of `owner`; the holder of the seed (32 random bytes) can open bodies sealed to it."""
    x25519 = bindings.crypto_scalarmult_base(exactly(x25519_seed, KEY_BYTES, "an X25519 seed"))
    return Prekey(owner.public, x25519, owner.sign(_signed(x25519, until_min)), until_min)


def _signed(x25519: bytes, until_min: int | None) -> bytes:
    return _LABEL + x25519 if until_min is None else _DATED_LABEL + x25519 + until_min.to_bytes(4, "big")


def encode_prekey(prekey: Prekey) -> bytes:
    return encode(prekey_fields(prekey))


def prekey_fields(prekey: Prekey) -> dict[str, Any]:
    """Return the map that stands for a prekey in CBOR."""
    end = {} if prekey.until_min is None else {"until": prekey.until_min}
    return {"id": prekey.owner, "pre": prekey.x25519, "sig": prekey.signature, **end}


def decode_prekey(data: bytes) -> Prekey:
    """Return the prekey in `data`; raise `Malformed` if it is none. Its signature is *not* checked."""
    return read_prekey(decode(data, PREKEY_ITEMS_MAX))


def read_prekey(value: Any) -> Prekey:
    """Return the prekey for which this decoded map stands; raise `Malformed` if it is none, or of small order. Its
    signature is *not* checked."""
    found = shape.fields(value, "a prekey", ("id", "pre", "sig"), ("until",))
    x25519 = shape.octets(found["pre"], "pre", KEY_BYTES)
    if not has_large_order(x25519):
        raise Malformed("the prekey is a point of small order, to which nothing can be sealed")
    until_min = shape.uint(found["until"], "until", UINT32_MAX) if "until" in found else None
    owner, signature = shape.checked_key(found["id"], "id"), shape.signature(found["sig"], "sig")
    return Prekey(owner, x25519, signature, until_min)


@lru_cache(maxsize=4096)
def has_large_order(x25519: bytes) -> bool:
    """Whether what is shared with this X25519 key depends on the secret of who seals to it."""
    try:
        bindings.crypto_scalarmult(_ANY_SCALAR, x25519)
    except CryptoError:
        return False
    return True


def exactly(value: bytes, size: int, name: str) -> bytes:
    """Return `value` if it has `size` bytes, else raise ValueError: libsodium reads `size` bytes without checking."""
    if len(value) != size:
        raise ValueError(f"{name} has {size} bytes, not {len(value)}")
    return value
