"""Prekeys: X25519 public keys to seal unicasts to, signed by the Ed25519 key of their owner (R-B1)."""

from __future__ import annotations

from msgspec import Struct
from nacl import bindings

from . import shape
from .codec import decode, encode
from .crypto import KEY_BYTES, PublicKey, Signature, SigningKey, digest, verify

KEY_ID_BYTES = 8
PREKEY_ITEMS_MAX = 7

_LABEL = b"upsycle prekey 1"


class Prekey(Struct, frozen=True):
    """An X25519 public key with its owner's signature over it, never derived from an Ed25519 key."""

    owner: PublicKey
    x25519: bytes
    signature: Signature

    @property
    def id(self) -> bytes:
        """Return the 8 bytes by which a sealed body names this prekey."""
        return digest(_LABEL + self.x25519)[:KEY_ID_BYTES]

    def verify(self) -> bool:
        return verify(self.owner, _LABEL + self.x25519, self.signature)


def make_prekey(owner: SigningKey, x25519_seed: bytes) -> Prekey:
    """Return a prekey of `owner`; the holder of the seed (32 random bytes) can open bodies sealed to it."""
    x25519 = bindings.crypto_scalarmult_base(exactly(x25519_seed, KEY_BYTES, "an X25519 seed"))
    return Prekey(owner.public, x25519, owner.sign(_LABEL + x25519))


def encode_prekey(prekey: Prekey) -> bytes:
    return encode({"id": prekey.owner, "pre": prekey.x25519, "sig": prekey.signature})


def decode_prekey(data: bytes) -> Prekey:
    """Return the prekey in `data`; raise `Malformed` if it is none. Its signature is *not* checked."""
    found = shape.fields(decode(data, PREKEY_ITEMS_MAX), "a prekey", ("id", "pre", "sig"))
    x25519 = shape.octets(found["pre"], "pre", KEY_BYTES)
    return Prekey(shape.checked_key(found["id"], "id"), x25519, shape.signature(found["sig"], "sig"))


def exactly(value: bytes, size: int, name: str) -> bytes:
    """Return `value` if it has `size` bytes, else raise ValueError: libsodium reads `size` bytes without checking."""
    if len(value) != size:
        raise ValueError(f"{name} has {size} bytes, not {len(value)}")
    return value
